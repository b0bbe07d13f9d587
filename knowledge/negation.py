"""Whether two sentences about the same thing say opposite things of it: 不得 and 可以, 以上 and 以下."""

import re
from collections.abc import Sequence

from knowledge.terms import weight

_UNDECIDED = re.compile(
    "能不能|可不可以|是不是|有没有|要不要|会不会|是否|能否|可否|不仅|不但|不同|不论|不管|不过|不断|不锈|不良|非常|无论|无线|未来"
)
_NEGATION = re.compile(
    "不得|不可|不能|不允许|不予|不准|不应|不会|不再|不含|不包括|不需|不必|不用|禁止|严禁|谢绝|拒绝|无需|无须|毋须|无法|没有|没|未|非|勿|无|不"
    r"|\bnot\b|n't\b|\bno\b|\bnever\b|\bcannot\b"
)
_AT_MOST = re.compile("不(?:得|能|可|应|准|许)?(?:超过|高于|多于|大于)")
_AT_LEAST = re.compile("不(?:得|能|可|应|准|许)?(?:低于|少于|小于)")
_LIMIT = re.compile("至多|最多|最高|至少|最少|最低|以内")
_CLAUSE = re.compile(r"[，,；;。：:！!？?\n]")
_OPPOSITES = (
    ("至多", "至少"), ("最多", "至少"), ("至多", "最少"), ("以上", "以下"), ("高于", "低于"), ("至少", "至多"), ("最多", "最少"), ("最高", "最低"), ("免费", "收费"), ("之前", "之后"),
    ("甲方", "乙方"), ("买方", "卖方"), ("客户", "公司"), ("本人", "公司"), ("个人", "公司"), ("含税", "未税"), ("增加", "减少"), ("提高", "降低"), ("上涨", "下降"),
)  # fmt: skip


def negations(text: str) -> int:
    """How often a text says no."""
    return len(_NEGATION.findall(_UNDECIDED.sub("", text)))


def _bounds(text: str) -> str:
    """Limits said by their negation as limits: 不得超过5天 is 至多5天, and denies nothing."""
    return _AT_LEAST.sub("至少", _AT_MOST.sub("至多", text))


def contradicts(claim: str, source: str, terms: Sequence[str]) -> bool:
    """Whether `claim` says no where `source` says yes of the same `terms`, or the reverse; both texts folded.

    Each clause of the claim is held against the fewest neighbouring clauses of the source that share the most with it;
    two negations in them cancel out (未经批准不得外借, 经批准可以外借).
    """
    if _LIMIT.search(_bounds(claim)):
        claim, source = _bounds(claim), _bounds(source)
    clauses = [clause for clause in _CLAUSE.split(claim) if any(term in clause for term in terms)]
    if not _differs(claim, source, terms):
        return False
    return any(_differs(clause, source, terms) for clause in clauses)


def _differs(claim: str, source: str, terms: Sequence[str]) -> bool:
    shared = [term for term in terms if term in claim and term in source]
    if not shared:
        return False
    said = negations(claim) % 2
    return all(negations(window) % 2 != said or _opposite(claim, window) for window in _windows(source, shared))


def _windows(source: str, shared: Sequence[str]) -> list[str]:
    """The shortest runs of clauses that have the most of `shared`, by weight."""
    clauses = _CLAUSE.split(source)
    best: list[str] = []
    top = 0.0
    for length in range(1, min(4, len(clauses)) + 1):
        for start in range(len(clauses) - length + 1):
            window = "，".join(clauses[start : start + length])
            score = sum(weight(term) for term in shared if term in window)
            if score > top + 1e-9:
                best, top = [window], score
            elif score == top and best and length == len(_CLAUSE.split(best[0])):
                best.append(window)
    return best


def _opposite(claim: str, window: str) -> bool:
    """Whether one has a word and the other, instead of it, its opposite."""
    return any(
        (one in claim and other not in claim and other in window and one not in window)
        for pair in _OPPOSITES
        for one, other in (pair, pair[::-1])
    )
