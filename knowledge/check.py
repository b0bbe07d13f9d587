"""An answer held against the passages it was given: what they do not say is marked, and each [n] is put right."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from knowledge.base import Hit
from knowledge.figures import facts
from knowledge.grounding import quotation, stem
from knowledge.sentences import CITATION, Span, Unit, units
from knowledge.support import Places, Source, Standing, Support, nearest, weigh
from knowledge.terms import content

MARK = "〔未在资料中找到依据〕"
"""Behind a sentence that no passage supports."""

_REFUSAL = re.compile(
    "无法(?:直接)?(?:回答|确定|提供|得知|找到|判断|给出|从)|(?:没有|并未|未)(?:直接|明确|具体)?(?:提到|提及|找到|说明|涉及|给出|包含|提供|规定|相关|列出)"
    "|不(?:知道|清楚|确定|了解)|抱歉|对不起|资料不足|不包含|作为(?:一个|一名)?(?:AI|人工智能|语言模型)"
    r"|\b(?:sorry|cannot answer|do(?:es)? not (?:mention|contain|say|know)|not found)\b",
    re.IGNORECASE,
)
_GROUP = re.compile(rf"(?:{CITATION.pattern})(?:[ \t]*(?:{CITATION.pattern}))*")
_LEADING = re.compile(r"(?m)^[ \t]*[\[［【]\d{1,2}[\]］】][ \t]*(?=[\w《“])")
"""A passage's number before its text, as small models copy it: the right one is added behind the sentence."""
_REPEATED = re.compile(r"(\[\d{1,2}\])([；;，][^\n。！？!?\[\]〔|`]*)\1")
_MENTION = re.compile(r"(?:资料|文档|段落|来源|参考)\s*\d{1,2}(?!\d|[.年月日天元])")


@dataclass(frozen=True, slots=True)
class Citation:
    """A number [n] in an answer, and what it opens."""

    number: int
    """From 1: the passage's place in the list that the model was given."""
    hit: Hit
    spans: tuple[Span, ...]
    """The sentences of `hit.passage.text` that support the answer, to highlight; never empty."""


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer after the check."""

    text: str
    """To show: with marks, and with the citations put right."""
    citations: tuple[Citation, ...] = ()
    """Each number in `text` once, in order of appearance."""
    supported: int = 0
    """Sentences that a passage supports."""
    marked: int = 0
    """Sentences marked as unsupported."""
    numbers_marked: int = 0
    """Figures of the answer that no passage has."""
    refused: bool = False
    """The model said that it cannot answer, and nothing else that holds."""
    fallback: bool = False
    """`text` is the best passage verbatim: the model refused, or nothing that it said is supported."""


@dataclass(slots=True)
class _Review:
    """What is found as the answer is gone through."""

    answer: str
    sources: Sequence[Source]
    question: str
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    """Start, end, and what comes in the place."""
    cited: dict[int, tuple[Span, ...]] = field(default_factory=dict)
    supported: int = 0
    marked: int = 0
    unknown: int = 0
    refusals: int = 0


def check(answer: str, passages: Sequence[Hit], question: str) -> Checked:
    """Mark what no passage supports, add and correct citations. `passages` as the model had them: [1] is the first.

    Never raises; checking prose that came out again changes nothing.
    """
    answer = _LEADING.sub("", re.sub(rf"\n?{MARK}", "", answer))
    for echo in {f"（{stem(hit)}）" for hit in passages}:  # the name that stands behind each passage in the prompt
        answer = answer.replace(echo, "")
    review = _Review(answer, [Source(hit) for hit in passages], question)
    for unit in units(answer):
        _review(review, unit)
    citations = tuple(Citation(number, passages[number - 1], spans) for number, spans in review.cited.items())
    text = _gathered(_edited(answer, review.edits))
    fallback = bool(passages) and (not review.supported or _is_echo(answer, question))
    if fallback:
        citations = (Citation(1, passages[0], nearest(review.sources[0], question)),)
        text = quotation(passages[0])
    return Checked(
        text,
        citations,
        supported=review.supported,
        marked=review.marked,
        numbers_marked=review.unknown,
        refused=review.refusals > 0 and not review.supported,
        fallback=fallback,
    )


def _is_echo(answer: str, question: str) -> bool:
    """Whether it says the question again, and nothing else."""
    bare = _GROUP.sub("", answer)
    said = content(bare)
    return bool(said) and set(said) <= set(content(question)) and facts(bare) <= facts(question)


def _gathered(text: str) -> str:
    """One citation for neighbouring clauses that rest on the same passage: behind the last of them."""
    while (gathered := _REPEATED.sub(r"\2\1", text)) != text:
        text = gathered
    return text


def _review(review: _Review, unit: Unit) -> None:
    groups = [] if unit.is_code else list(_GROUP.finditer(review.answer, unit.start, unit.end))
    supports = _weigh_parts(review, unit, groups)
    if is_whole := any(support.standing is Standing.UNBACKED for support in supports):
        supports = [_weigh_whole(review, unit, groups)]
    unknown = sum(support.unknown for support in supports)
    standings = {support.standing for support in supports}
    is_refusal = (
        bool(_REFUSAL.search(review.answer, unit.start, unit.end)) and not unknown and Standing.BACKED not in standings
    )
    review.refusals += is_refusal
    review.unknown += unknown
    if Standing.UNBACKED in standings and not is_refusal and (unknown or not unit.is_lead):
        review.marked += 1
        end = _mark_place(review.answer, unit, groups)
        review.edits.append((end, end, f"\n{MARK}" if unit.is_code else MARK))
    elif Standing.BACKED in standings and not unit.is_lead:
        review.supported += 1
    if is_whole:
        _cite_whole(review, unit, groups, supports[0])
    else:
        _cite_parts(review, unit, groups, supports)


def _weigh_parts(review: _Review, unit: Unit, groups: Sequence[re.Match[str]]) -> list[Support]:
    """What stands before each group of citations, and behind the last, weighed."""
    starts = [unit.start, *(group.end() for group in groups)]
    ends = [*(group.start() for group in groups), unit.end]
    claims = [_claim(review.answer[start:end]) for start, end in zip(starts, ends, strict=True)]
    return [weigh(claim, review.sources, "" if place else review.question) for place, claim in enumerate(claims)]


def _weigh_whole(review: _Review, unit: Unit, groups: Sequence[re.Match[str]]) -> Support:
    """The sentence without its citations, weighed."""
    edits = [(group.start() - unit.start, group.end() - unit.start, "") for group in groups]
    return weigh(_claim(_edited(review.answer[unit.start : unit.end], edits)), review.sources, review.question)


def _claim(text: str) -> str:
    return _MENTION.sub(" ", text)


def _mark_place(answer: str, unit: Unit, groups: Sequence[re.Match[str]]) -> int:
    """The unit's end; before citations there, which go."""
    if groups and groups[-1].end() == unit.end:
        return unit.start + len(answer[unit.start : groups[-1].start()].rstrip())
    return unit.end


def _cite_whole(review: _Review, unit: Unit, groups: Sequence[re.Match[str]], support: Support) -> None:
    """All citations go, and the right ones stand at the end: what a sentence's parts claim does not hold by itself."""
    given = [number for group in groups for number in _given(group)]
    for group in groups:
        review.edits.append(_deleted(review.answer, group))
    if not unit.is_lead and not unit.is_code:
        _add(review, unit.point, _numbers(given, support.choices), support.choices)


def _cite_parts(review: _Review, unit: Unit, groups: Sequence[re.Match[str]], supports: Sequence[Support]) -> None:
    """Put the right numbers in each group's place, and behind a last part that has none."""
    everywhere = [choice for support in supports for choice in support.choices]
    for group, support in zip(groups, supports, strict=False):
        if support.standing is Standing.NEUTRAL:
            numbers = [number for number in _given(group) if any(number in choice for choice in everywhere)]
        else:
            numbers = _numbers(_given(group), support.choices)
        if numbers:
            _add(review, group.start(), numbers, everywhere, group.end())
        else:
            review.edits.append(_deleted(review.answer, group))
    if len(supports) > len(groups) and not unit.is_code and not unit.is_lead:
        point = max(unit.point, groups[-1].end() if groups else 0)
        _add(review, point, _numbers([], supports[-1].choices), everywhere)


def _given(group: re.Match[str]) -> list[int]:
    return list(dict.fromkeys(int(number) for number in re.findall(r"\d+", group.group())))


def _add(
    review: _Review, start: int, numbers: Sequence[int], choices: Sequence[Places], end: int | None = None
) -> None:
    """Write the numbers in the place from `start` to `end`, and note what each of them opens."""
    review.edits.append((start, start if end is None else end, "".join(f"[{number}]" for number in numbers)))
    for number in numbers:
        spans = [span for choice in choices for span in choice.get(number, ())]
        review.cited[number] = tuple(dict.fromkeys((*review.cited.get(number, ()), *spans)))


def _deleted(answer: str, group: re.Match[str]) -> tuple[int, int, str]:
    """The edit that takes a group away: with the blank before it where another follows, and never joining two words."""
    start, end = group.span()
    before, after = answer[start - 1 : start], answer[end : end + 1]
    if before == " " and (not after or after in " \n。，；！？,;"):
        return start - 1, end, ""
    return start, end, " " if (before + after).isascii() and before.isalnum() and after.isalnum() else ""


def _numbers(given: Sequence[int], choices: Sequence[Places]) -> list[int]:
    """The numbers given that are right, and for each choice without one the best there is."""
    kept = [number for number in given if any(number in choice for choice in choices)]
    added = [next(iter(choice)) for choice in choices if not any(number in choice for number in kept)]
    return list(dict.fromkeys([*kept, *added]))


def _edited(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    for start, end, replacement in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + replacement + text[end:]
    return text
