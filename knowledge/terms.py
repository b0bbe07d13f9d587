"""The words of a question that carry its meaning, their weights, and the names in it that must match exactly.

Weights are the inverse document frequencies that jieba ships (analyse/idf.txt, 270,000 words of general Chinese), so
that a word weighs the same in a library of four files and of four thousand.
"""

import re
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType

from knowledge.stop_words import QUESTION_WORDS, STOP_WORDS

UNKNOWN_WEIGHT = 10.0
"""For words that jieba's table lacks: rarer than most, short of its rarest (13.9)."""
CODE_WEIGHT = 13.0
"""For codes and model numbers."""
NUMBER_WEIGHT = 4.0
"""For bare numbers: 迟到15分钟 is answered by a passage about 10 to 30 minutes."""

CODE = re.compile(
    r"(?<![a-z0-9])(?=[a-z0-9./_-]*[a-z])(?=[a-z0-9./_-]*\d)[a-z0-9]+(?:[-_./][a-z0-9]+)*(?![a-z0-9])", re.ASCII
)
_YEAR = re.compile(
    r"(?<![\d.a-z_-])((?:19|20)\d\d)(?=\s*(?:年|版|财年|届|[-/.]\d{1,2}(?!\d)))|(?<![\d.])(2\d)(?=年(?:的|度|版))",
    re.ASCII,
)
_TITLE_YEAR = re.compile(r"(?<![\da-z-])((?:19|20)\d\d)(?=(?:[01]\d(?:[0-3]\d)?)?(?!\d))")
_CHINESE_YEAR = re.compile(r"([一二][〇零○九][〇零○一二三四五六七八九]{2})(?=年)")
_CLAUSE = re.compile(r"第\s*([〇零一二两三四五六七八九十百]+|\d+(?:\.\d+)*)\s*(条|款|章|节|项|部分)")
_DIGITS = str.maketrans("〇○零一二三四五六七八九", "000123456789")
_WORD = re.compile(r"[\w一-鿿]")


def fold(text: str) -> str:
    """`text` with full-width forms and case levelled (NFKC, lower case)."""
    return unicodedata.normalize("NFKC", text).lower()


def cutter() -> ModuleType:
    """jieba, as `knowledge.tokens` loads it."""
    from knowledge import tokens  # which imports this module

    jieba: ModuleType = tokens.cutter()
    return jieba


@cache
def _weights() -> dict[str, float]:
    table = Path(str(cutter().__file__)).with_name("analyse").joinpath("idf.txt").read_text(encoding="utf-8")
    return {word: float(weight) for word, weight in (line.split(" ") for line in table.splitlines())}


def weight(term: str) -> float:
    """How much a term tells: its inverse document frequency in general Chinese, 1 to 14."""
    if term.isdigit():
        return NUMBER_WEIGHT
    if term.isascii() and any(character.isdigit() for character in term):
        return CODE_WEIGHT
    return _weights().get(term, UNKNOWN_WEIGHT)


@lru_cache(maxsize=4096)
def content(text: str) -> tuple[str, ...]:
    """The content words of a text, folded, each once: no stop words, no question words; codes whole.

    Neighbouring single characters that are a word of jieba's table together are joined (年, 假: 年假).
    """
    folded = fold(text)
    found: dict[str, None] = dict.fromkeys(codes(text))
    for cut in _joined([word for word in cutter().cut(CODE.sub(" ", folded)) if _WORD.match(word)]):
        word = _bare(cut)
        if word and word not in STOP_WORDS and word not in QUESTION_WORDS:
            found[word] = None
    return tuple(found)


def _bare(word: str) -> str:
    """Without the particles that jieba, guessing at a word it does not know, has taken along (价是: 价)."""
    if word in _weights():
        return word
    while word and word[-1] in STOP_WORDS:
        word = word[:-1]
    while word and word[0] in STOP_WORDS:
        word = word[1:]
    return word


def _joined(words: list[str]) -> list[str]:
    joined: list[str] = []
    for word in words:
        before = joined[-1] if joined else ""
        if len(word) == 1 and len(before) == 1 and before + word in _weights():
            joined[-1] = before + word
        else:
            joined.append(word)
    return joined


def codes(text: str) -> tuple[str, ...]:
    """Model numbers and codes, folded: letters with digits (XJ-2048, GB/T19001, A4)."""
    return tuple(dict.fromkeys(CODE.findall(fold(text))))


def years(text: str) -> tuple[str, ...]:
    """Calendar years, as four digits (2025年, 2025-03-01, 24年的, 二〇二五年)."""
    folded = fold(text)
    chinese = [year.translate(_DIGITS) for year in _CHINESE_YEAR.findall(text)]
    found = [full or f"20{short}" for full, short in _YEAR.findall(folded)]
    return tuple(dict.fromkeys([*found, *chinese]))


def title_years(title: str) -> tuple[str, ...]:
    """Calendar years in a file's name, where they stand bare too (产品价格表2024.xlsx, 纪要20250417.docx)."""
    return tuple(dict.fromkeys(_TITLE_YEAR.findall(fold(title))))


def clauses(text: str) -> tuple[str, ...]:
    """Clause numbers, the number in digits (第十二条 and 第12条: 12条)."""
    found = ((cardinal(number), unit) for number, unit in _CLAUSE.findall(fold(text)))
    return tuple(dict.fromkeys(f"{number}{unit}" for number, unit in found))


def cardinal(number: str) -> str:
    """A whole number below 10,000 in Chinese or Arabic figures, in Arabic ones; other text as it is."""
    if number.isascii():
        return number
    if not set(number) & set("十百千"):
        return number.replace("两", "二").translate(_DIGITS).lstrip("0") or "0"
    total, digit = 0, 0
    for character in number.replace("两", "二"):
        if scale := {"十": 10, "百": 100, "千": 1000}.get(character):
            total, digit = total + (digit or 1) * scale, 0
        else:
            digit = int(character.translate(_DIGITS))
    return str(total + digit)
