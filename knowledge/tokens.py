"""A text as the words that full-text search goes by: jieba's search-mode cut, and the exact codes, numbers and dates."""

import logging
import re
import tempfile
import warnings
from functools import cache
from typing import Any

from knowledge.stop_words import QUESTION_WORDS, STOP_WORDS
from knowledge.terms import CODE, cardinal, clauses, codes, fold, years

_WORD = re.compile(r"\w")
_CHINESE = "〇零一二两三四五六七八九十百千"
_DATE = re.compile(r"(\d{4})\s*[年/.-]\s*(\d{1,2})\s*[月/.-]\s*(\d{1,2})(?!\d)")
_UNITS = (
    "个工作日|个自然日|工作日|自然日|个月|个小时|个季度|小时|分钟|周岁|人民币|万元|亿元|千元|百元|元|角|分|天|日|周|月|年|岁|秒|次|人|名|份|台|件|套|倍|折|级|页|米|"
    "公里|公斤|千克|克|吨|升|毫升|毫米|厘米|平方米|%|％|‰|℃|kg|km|mm|cm|gb|tb|mb|kb|kw|mah|hz|v|w|a|g|m"
)
_QUANTITY = re.compile(rf"(\d[\d,]*(?:\.\d+)?|[{_CHINESE}]+)\s*({_UNITS})(?![a-z])")
_GROUPS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SEPARATORS = re.compile(r"[-_./]")
_CELL = re.compile(r"(?:^|:)[ \t]*([^:;\n]{2,40}?)[ \t]*(?=;|$)", re.MULTILINE)
_MODEL = re.compile(rf"{CODE.pattern}(?:[ \t]+[a-z]+)?")


@cache
def cutter() -> Any:
    """The jieba module, its dictionary loaded: 0.8 s and 150 MB, once; not for the event loop's thread.

    jieba keeps a marshal file in the shared temporary folder, where anybody could put another, and gains nothing by it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import asks setuptools for a file, and an old regular expression
        import jieba
    jieba.setLogLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="zhida-jieba-") as folder:
        jieba.dt.tmp_dir = folder
        jieba.initialize()
    return jieba


def cut(text: str) -> str:
    """The words of `text` with blanks between, repeated as often as they occur: what the `tokens` column holds."""
    folded = _GROUPS.sub("", fold(text))
    words = [word for word in cutter().cut_for_search(folded) if _WORD.search(word)]
    return " ".join([*words, *exact(folded), *_cells(folded)])


def _cells(folded: str) -> list[str]:
    """A row's cells that are a model's name and nothing else (=xj-2048): the row that is about it, among all that
    name it."""
    return [_whole(cell) for cell in dict.fromkeys(_CELL.findall(folded)) if _MODEL.fullmatch(cell)]


def _whole(model: str) -> str:
    return "=" + "".join(model.split())


def cut_question(text: str) -> str:
    """The same for a question, each word once, without the words that every question has (if others are left)."""
    named = map(_whole, _MODEL.findall(fold(text)))
    words = dict.fromkeys([*cut(text).split(), *named])
    telling = [word for word in words if word not in QUESTION_WORDS and word not in STOP_WORDS]
    return " ".join(telling or words)


def exact(text: str) -> list[str]:
    """What must be found to the letter: codes (also without their hyphens), clauses, dates, years, quantities."""
    found = [word for code in codes(text) for word in (code, _SEPARATORS.sub("", code))]
    found += [*clauses(text), *years(text)]
    found += ["{}-{}-{}".format(*map(int, date)) for date in _DATE.findall(text)]
    found += [f"{cardinal(number)}{unit}" for number, unit in _QUANTITY.findall(text)]
    return list(dict.fromkeys(found))
