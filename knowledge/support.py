"""Whether a passage says what a sentence claims."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from knowledge.base import Hit
from knowledge.figures import Fact, Figure, facts, figures, is_backed, level
from knowledge.negation import contradicts, negations
from knowledge.sentences import Span, sentences
from knowledge.terms import content, weight

ENOUGH = 0.6
"""Of the weight of a claim's words that a passage has to have."""
NEARLY = 0.9
"""Of the best passage's share: another that has as much may stay cited."""

_FILLERS = frozenset(
    [
        "资料",
        "文档",
        "文件",
        "显示",
        "提供",
        "内容",
        "信息",
        "如下",
        "以下",
        "所示",
        "希望",
        "帮助",
        "回答",
        "总之",
        "综上所述",
        "综上",
        "因此",
        "另外",
        "此外",
        "同时",
        "好",
        "您",
        "已知",
        "提到",
        "表明",
        "指出",
        "明确",
        "原文",
        "引用",
        "答案",
        "答",
        "第一",
        "第二",
        "第三",
        "首先",
        "其次",
        "最后",
        "即可",
        "参考",
        "对应",
        "关于",
        "针对",
        "给出",
        "上述",
        "段落",
        "记载",
        "说明",
        "即为",
    ]
)
_BARE = re.compile(
    r"(?:答[:：]?)?(不可以|不能|不行|不会|不需要|不用|没有|不是|不|否|可以|能|行|会|需要|是的|是|对|有|可)(?:的)?"
)
_CLAUSES = re.compile(r"[^，,；;、]+")


Places = dict[int, tuple[Span, ...]]
"""A passage's number (from 1) and the sentences of it that back a claim."""


class Standing(Enum):
    """What became of a claim."""

    NEUTRAL = "claims nothing"
    BACKED = "a passage says so"
    UNBACKED = "no passage says so"


@dataclass(frozen=True, slots=True)
class Support:
    """A claim's standing, and what backs it."""

    standing: Standing
    choices: tuple[Places, ...] = ()
    """For the claim as a whole, or for each of its clauses: the passages that say so, best first; one of them is cited."""
    unknown: int = 0
    """Figures of the claim that no passage has."""


class Source:
    """A passage as claims are held against it: its own words, and the title and headings above them."""

    def __init__(self, hit: Hit) -> None:
        at = hit.passage.at
        self.text = level(hit.passage.text)
        self.around = level("\n".join((hit.file.name, *at.headings, at.sheet or "")))
        self.facts = facts(hit.passage.text) | facts(self.around)
        self.spans = sentences(hit.passage.text)
        self._facts = [facts(self.text[start:end]) for start, end in self.spans]

    def coverage(self, terms: Sequence[str]) -> float:
        """The share of the terms' weight that stands here; 1 without terms."""
        return _share(terms, f"{self.around}\n{self.text}")

    def places(self, terms: Sequence[str], claimed: Sequence[Figure]) -> tuple[Span, ...]:
        """The sentence that says most of it, and those with figures that it lacks."""
        if not self.spans:
            return ()
        scores = [
            _share(terms, self.text[start:end]) + sum(is_backed(figure, known) for figure in claimed)
            for (start, end), known in zip(self.spans, self._facts, strict=True)
        ]
        best = max(range(len(scores)), key=scores.__getitem__)
        chosen = {best}
        for figure in claimed:
            if not any(is_backed(figure, self._facts[place]) for place in chosen):
                chosen.update(
                    place
                    for place, known in enumerate(self._facts[:])
                    if is_backed(figure, known) and not chosen & {place}
                )
        return tuple(self.spans[place] for place in sorted(chosen))

    def denies(self, claim: str, terms: Sequence[str], places: Sequence[Span]) -> bool:
        """Whether the places found say the opposite."""
        return contradicts(claim, "，".join(self.text[start:end] for start, end in places), terms)


def _share(terms: Sequence[str], text: str) -> float:
    total = sum(weight(term) for term in terms)
    return sum(weight(term) * _part(term, text) for term in terms) / total if total else 1.0


def _part(term: str, text: str) -> float:
    """1 where the term stands in the text; else half the share of its neighbouring pairs, or characters, that do."""
    if term in text:
        return 1.0
    if term.isascii():
        return 0.0
    pieces = [term[place : place + 2] for place in range(len(term) - 1)] if len(term) > 2 else list(term)
    return 0.5 * sum(piece in text for piece in pieces) / len(pieces)


def weigh(claim: str, sources: Sequence[Source], question: str) -> Support:
    """How a claim (without citations) stands; clause by clause where no passage has it whole."""
    whole = _weigh(claim, sources, question)
    clauses = [match.group() for match in _CLAUSES.finditer(claim)]
    if whole.standing is not Standing.UNBACKED or whole.unknown or len(clauses) < 2:
        return whole
    parts = [_weigh(clause, sources, "") for clause in clauses]
    if any(part.standing is Standing.UNBACKED for part in parts):
        return whole
    choices = tuple(choice for part in parts for choice in part.choices)
    return Support(Standing.BACKED, choices) if choices else Support(Standing.NEUTRAL)


def _weigh(claim: str, sources: Sequence[Source], question: str) -> Support:
    claim = level(claim)
    claimed = figures(claim)
    terms = words(claim, claimed)
    known: frozenset[Fact] = frozenset().union(*(source.facts for source in sources))
    if unknown := sum(not is_backed(figure, known) for figure in claimed):
        return Support(Standing.UNBACKED, unknown=unknown)
    if not terms and all(unit == "" for figure in claimed for _, unit in figure.facts):
        bare = _BARE.fullmatch(claim.strip(" \n。！!，,.*"))
        return _weigh_bare(bare.group(1), sources, question) if bare and question else Support(Standing.NEUTRAL)
    shares: dict[int, float] = {}
    places: Places = {}
    asked = () if terms else words(level(question), figures(question))
    for number, source in enumerate(sources, 1):
        share = source.coverage(terms or asked)
        if (share >= ENOUGH or not terms) and all(is_backed(figure, source.facts) for figure in claimed):
            spans = source.places(terms, claimed)
            if spans and not source.denies(claim, terms, spans):
                shares[number], places[number] = share, spans
    if not shares:
        return Support(Standing.UNBACKED)
    top = max(shares.values())
    ranked = sorted(
        (number for number in shares if shares[number] >= NEARLY * top), key=lambda number: (-shares[number], number)
    )
    return Support(Standing.BACKED, ({number: places[number] for number in ranked},))


def nearest(source: Source, question: str) -> tuple[Span, ...]:
    """The sentence of a passage that is nearest to a question; all of it where there is no sentence, as in a row."""
    asked = figures(question)
    if "。" not in source.text:
        return ((0, len(source.text)),)
    return source.places(words(level(question), asked), asked) or ((0, len(source.text)),)


def words(claim: str, claimed: Sequence[Figure]) -> tuple[str, ...]:
    """What a claim says beside its figures."""
    for figure in claimed:
        claim = claim[: figure.start] + " " * (figure.end - figure.start) + claim[figure.end :]
    return tuple(term for term in content(claim) if term not in _FILLERS and not term.isdigit())


def _weigh_bare(answer: str, sources: Sequence[Source], question: str) -> Support:
    """A yes or no alone: held against the sentence that is nearest to the question."""
    asked = level(question)
    terms = words(asked, figures(asked))
    denial = "不" if answer.startswith(("不", "没", "否")) else ""
    for number, source in enumerate(sources, 1):
        if source.coverage(terms) >= ENOUGH:
            spans = source.places(terms, [])
            statement = denial + re.sub(r"[?？吗呢]|能不能|可不可以|是不是|有没有|是否", "", asked)
            if not source.denies(statement, terms, spans) or (not negations(statement) and not terms):
                return Support(Standing.BACKED, ({number: spans},))
            return Support(Standing.UNBACKED)
    return Support(Standing.UNBACKED)
