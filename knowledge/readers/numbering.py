"""Word's automatic numbers (第一条, （二）, 1.1), which stand in no paragraph's text."""

from collections import defaultdict
from typing import Any

from docx.oxml.ns import qn

_DIGITS = "零一二三四五六七八九"
_CHINESE = ("chineseCounting", "chineseCountingThousand", "japaneseCounting", "taiwaneseCounting",
            "taiwaneseCountingThousand", "ideographDigital", "chineseLegalSimplified")  # fmt: skip


def chinese(number: int) -> str:
    """`12` -> `十二`; below 10,000, else figures."""
    if not 0 < number < 10_000:
        return str(number)
    text, gap = "", False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit = number // unit % 10
        if digit:
            text += ("零" if gap and text else "") + _DIGITS[digit] + name
        gap = not digit
    return text.removeprefix("一") if 10 <= number < 20 else text


def _roman(number: int) -> str:
    text = ""
    for value, sign in ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
                        (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")):  # fmt: skip
        text += sign * (number // value)
        number %= value
    return text


def shown(number: int, form: str) -> str:
    """A number as Word's `w:numFmt` has it."""
    if form in _CHINESE:
        return chinese(number)
    if form in ("lowerLetter", "upperLetter"):
        letter = chr(ord("a") + (number - 1) % 26)
        return letter.upper() if form == "upperLetter" else letter
    if form in ("lowerRoman", "upperRoman"):
        roman = _roman(min(number, 4000))
        return roman.upper() if form == "upperRoman" else roman
    if form.startswith("decimalEnclosedCircle") and 0 < number <= 20:
        return chr(0x245F + number)
    return str(number)


class Numbering:
    """Counts along the document. `root` is the `w:numbering` element, None without one."""

    def __init__(self, root: Any) -> None:
        self._levels: dict[str, dict[int, tuple[str, str, int]]] = {}
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        self._abstract: dict[str, str] = {}
        if root is not None:
            self._read(root)

    def _read(self, root: Any) -> None:
        for abstract in root.iter(qn("w:abstractNum")):
            levels = {_number(level.get(qn("w:ilvl"))): _level(level) for level in abstract.iter(qn("w:lvl"))}
            self._levels[abstract.get(qn("w:abstractNumId"), "")] = levels
        for num in root.iter(qn("w:num")):
            self._abstract[num.get(qn("w:numId"), "")] = _value(num, "w:abstractNumId", "")

    def label(self, num: str, level: int) -> str:
        """The next number of list `num` at `level` (from 0), as it is printed; empty for none."""
        key = self._abstract.get(num, "")
        levels = self._levels.get(key, {})
        if level not in levels:
            return ""
        counts = self._counts[key]
        counts[level] = counts.get(level, levels[level][2] - 1) + 1
        for deeper in [d for d in counts if d > level]:
            del counts[deeper]
        form, text, _ = levels[level]
        if form == "bullet":
            return "• "
        for i in range(level + 1):
            known = levels.get(i, ("decimal", "", 1))
            text = text.replace(f"%{i + 1}", shown(counts.get(i, known[2]), known[0]))
        return text if not text or text[-1] in "）)、：" else text + " "


def _value(element: Any, tag: str, default: str) -> str:
    child = element.find(qn(tag))
    return default if child is None else str(child.get(qn("w:val"), default))


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() and len(text) < 6 else 0


def _level(element: Any) -> tuple[str, str, int]:
    """Format, pattern (`第%1条`) and first number."""
    return (
        _value(element, "w:numFmt", "decimal"),
        _value(element, "w:lvlText", ""),
        _number(_value(element, "w:start", "1")),
    )
