"""How surely a passage answers a question: one logistic model over what its words and its meaning say.

relevance = 1 / (1 + exp(-(intercept + sum of weight x feature))), a probability that orders the hits; below `threshold`
for the best of them the model is not asked. gate.json holds the numbers, with vectors ("meaning") and without ("words").
`python -m bench knowledge --fit` fits them on one half of bench/knowledge/questions.jsonl and reports the other half.
"""

import json
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from engine.words import Words
from knowledge.answer_type import fits
from knowledge.base import Hit
from knowledge.terms import clauses, codes, content, fold, title_years, weight, years

GATE = Path(__file__).with_name("gate.json")

FEATURES: tuple[str, ...] = (
    "coverage",  # share of the question's words, by weight (terms.weight), in the passage, its headings or its title
    "body",  # the same in the passage alone
    "document",  # the same in all hits of its file together: 合同总价 stands in one clause, the contract's number in another
    "rarest",  # weight of the most telling word that it lacks, 0 to 14
    "missing",  # codes, clause numbers and years of the question that no hit of its file has
    "year",  # 1: of the year asked for; -1: of another; 0: no year is asked for
    "outdated",  # 1: no year is asked for, and the hits have a later file of the same title
    "bm25",  # full-text score for each word of the question
    "type",  # 1: it has an amount, a date, a person … where one is asked for; -1: it has not; 0: nothing such is asked
    "cosine",  # to the question, beyond the question's mean cosine to sentences about everything (e5's lie at 0.81-0.91)
    "margin",  # cosine beyond the median of the hits
    "gap",  # cosine below the best of the hits
)

MONEY = "钱"
"""多少钱 asks for an amount (feature `type`); the word itself stands in no price list."""
OTHER_MODEL = 0.5
"""What a model's name counts for where the text has it only as part of another's (XJ-2048 Pro)."""
ABBREVIATED = 0.8
"""What a word counts for where the text has the long form of it."""

_SEPARATORS = re.compile(r"[-_./\s]")
_YEARS = re.compile(r"(?:19|20)\d\d(?:年度?|版)?")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the model is asked at all."""

    sure: bool
    relevance: float
    """The best hit's, 0 to 1; 0 without hits."""
    reason: Words


@dataclass(frozen=True, slots=True)
class Gate:
    """The fitted numbers for one of the two cases."""

    weights: tuple[float, ...]
    intercept: float
    threshold: float

    def relevance(self, row: Sequence[float]) -> float:
        """Of a row of features, 0 to 1."""
        score = self.intercept + sum(w * value for w, value in zip(self.weights, row, strict=True))
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, score))))


@cache
def gate(has_vectors: bool) -> Gate:
    """The numbers in gate.json."""
    told: dict[str, Any] = json.loads(GATE.read_text(encoding="utf-8"))["meaning" if has_vectors else "words"]
    return Gate(tuple(told["weights"][name] for name in FEATURES), told["intercept"], told["threshold"])


def rate(texts: Sequence[str], hits: Sequence[Hit], anchors: float | None) -> list[Hit]:
    """The hits with their relevance filled in, best first."""
    numbers = gate(_has_vectors(hits))
    rows = features(texts, hits, anchors)
    rated = [replace(hit, relevance=numbers.relevance(row)) for hit, row in zip(hits, rows, strict=True)]
    return sorted(rated, key=lambda hit: -hit.relevance)


def decide(texts: Sequence[str], rated: Sequence[Hit]) -> Verdict:
    """Whether the hits, as `rate` ordered them, answer the question surely enough for the model to be asked."""
    if not rated:
        return Verdict(False, 0.0, Words("没有找到任何相关段落", "no passage was found"))
    best, threshold = rated[0].relevance, gate(_has_vectors(rated)).threshold
    return Verdict(
        best >= threshold,
        best,
        Words(
            f"最相关的段落得分 {best:.2f}，门槛 {threshold:.2f}", f"best passage {best:.2f}, threshold {threshold:.2f}"
        ),
    )


def _has_vectors(hits: Sequence[Hit]) -> bool:
    return any(hit.cosine is not None for hit in hits)


def features(texts: Sequence[str], hits: Sequence[Hit], anchors: float | None) -> list[tuple[float, ...]]:
    """One row for each hit, in the order of FEATURES; those by meaning are 0 where there are no vectors.

    texts: the question as asked, then the condensed one, which counts here: it has the subject. hits: all candidates,
    for some features compare them. anchors: the question's mean cosine to background.SENTENCES; None without vectors.
    """
    question = _Question(texts[-1])
    pages = [_Page(hit) for hit in hits]
    files = {
        page.hit.file.origin: [other for other in pages if other.hit.file.origin == page.hit.file.origin]
        for page in pages
    }
    of_file = {origin: _of_file(question, together) for origin, together in files.items()}
    latest = _latest(pages)
    cosines = [hit.cosine for hit in hits if hit.cosine is not None]
    middle, top = (statistics.median(cosines), max(cosines)) if cosines else (0.0, 0.0)
    rows: list[tuple[float, ...]] = []
    for page in pages:
        document, missing = of_file[page.hit.file.origin]
        cosine = page.hit.cosine
        by_words = (
            question.share(page.whole),
            question.share(page.body),
            document,
            question.rarest(page.whole),
            missing,
            question.year(page),
            float(not question.years and page.year < latest.get(page.stem, 0)),
            page.hit.bm25 / max(1, len(question.terms)),
            fits(question.text, page.hit.passage.text),
        )
        beside = (anchors or 0.0, middle, top)
        rows.append((*by_words, *((cosine - other) if cosine is not None else 0.0 for other in beside)))
    return rows


def _of_file(question: "_Question", pages: Sequence["_Page"]) -> tuple[float, float]:
    """The features that all hits of a file share: document, missing."""
    names = {name for page in pages for name in page.names}
    dates = {year for page in pages for year in page.years}
    together = "\n".join(page.whole for page in pages)
    return question.share(together), float(len(question.names - names) + len(question.years - dates))


def _latest(pages: Sequence["_Page"]) -> dict[str, int]:
    """The latest year of each title, years apart."""
    found: dict[str, int] = {}
    for page in pages:
        found[page.stem] = max(found.get(page.stem, 0), page.year)
    return found


def _names(text: str) -> set[str]:
    """Codes without their separators, and clause numbers."""
    return {_SEPARATORS.sub("", code) for code in codes(text)} | set(clauses(text))


class _Page:
    """A hit as its features see it: text folded, with and without what stands above it."""

    def __init__(self, hit: Hit) -> None:
        at = hit.passage.at
        title = hit.file.name.rpartition(".")[0] or hit.file.name
        self.hit = hit
        self.body = fold(hit.passage.text)
        self.head = fold(" ".join((title, *at.headings, at.sheet or "")))
        self.whole = f"{self.head}\n{self.body}"
        self.names = _names(self.whole)
        self.title_years = {*title_years(title), *years(title)}
        self.year = max((int(year) for year in self.title_years), default=0)
        self.years = self.title_years | set(years(self.whole))
        self.stem = _YEARS.sub("", fold(title)) if self.year else ""


class _Question:
    """A question as features see it."""

    def __init__(self, text: str) -> None:
        self.text = fold(text)
        self.names = _names(text)
        self.years = set(years(text))
        self.terms = tuple(term for term in content(text) if term != MONEY and not _YEARS.fullmatch(term))
        self._weights = [weight(term) for term in self.terms]
        self._models = {code for code in codes(text) if _alone(code, self.text)}

    def share(self, text: str) -> float:
        """Of the words' weight, what stands in the text; 0 without words."""
        total = sum(self._weights)
        return (
            sum(w * self._part(t, text) for t, w in zip(self.terms, self._weights, strict=True)) / total
            if total
            else 0.0
        )

    def rarest(self, text: str) -> float:
        """The greatest weight that the text lacks."""
        return max((w * (1 - self._part(t, text)) for t, w in zip(self.terms, self._weights, strict=True)), default=0.0)

    def _part(self, term: str, text: str) -> float:
        if term in self._models and term in text and not _alone(term, text):
            return OTHER_MODEL
        return _part(term, text)

    def year(self, page: _Page) -> float:
        """Whether the page is of the year asked for: its title's year decides, else a year in its text."""
        if not self.years:
            return 0.0
        if page.title_years:
            return 1.0 if self.years & page.title_years else -1.0
        return 1.0 if self.years & page.years else -1.0 if page.years else -0.5


def _alone(code: str, text: str) -> bool:
    """Whether the text has the code as a whole name somewhere, with nothing behind it that makes it another's."""
    return re.search(rf"{re.escape(code)}(?![ \t]*[a-z0-9])", text) is not None


def _part(term: str, text: str) -> float:
    """1 where the term stands in the text, ABBREVIATED where its long form does; else part of the share of its
    neighbouring pairs (or characters) that do."""
    if term in text:
        return 1.0
    if term.isascii():
        bare = _SEPARATORS.sub("", term)
        return 1.0 if bare and not bare.isalpha() and bare in _SEPARATORS.sub("", text) else 0.0
    if len(term) == 1:
        return 0.0
    if re.search(_long_form(term), text):
        return ABBREVIATED
    pieces = [term[place : place + 2] for place in range(len(term) - 1)] if len(term) > 2 else list(term)
    return (0.7 if len(term) > 2 else 0.4) * sum(piece in text for piece in pieces) / len(pieces)


@lru_cache(maxsize=4096)
def _long_form(term: str) -> re.Pattern[str]:
    """What a term may be short for: its characters in their order, a character or two between them (年假: 年休假)."""
    return re.compile(r"\w{0,2}?".join(map(re.escape, term)))
