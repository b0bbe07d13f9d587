"""The figures in a text - amounts, periods, dates, times, percentages, codes, clause numbers - in one notation each.

15天, 15 天 and 十五天 are the same; so are 1,280元 and 1280 元, 2025年3月1日 and 2025-03-01, 50% and 百分之五十,
下午2点 and 14:00, 1.5万元 and 15000元.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from knowledge.units import SPOKEN_UNITS, UNITS

Fact = tuple[str, str]
"""A value and its unit, both in the one notation; the unit is empty where the text names none that is known."""

_HAN = "〇零一二两三四五六七八九十百千万亿"
_DIGIT = {character: value for value, character in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_SCALE = {"十": 10, "百": 100, "千": 1000}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and where it stands; all of its `facts` have to be found for it to be found."""

    start: int
    end: int
    facts: tuple[Fact, ...]


def level(text: str) -> str:
    """`text` with full-width forms and case levelled, character by character: offsets stay."""
    return "".join(_level(character) for character in text)


def _level(character: str) -> str:
    code = ord(character)
    if 0xFF01 <= code <= 0xFF5E:
        character = chr(code - 0xFEE0)
    elif code == 0x3000:
        return " "
    lower = character.lower()
    return lower if len(lower) == 1 else character


def value(number: str) -> str | None:
    """A number in Arabic or Chinese figures in the one notation; None where it is none."""
    plain = number.replace(",", "").replace(" ", "")
    if not plain:
        return None
    factor = 1
    while len(plain) > 1 and plain[-1] in "万亿" and plain[0] not in "万亿":
        factor *= 10_000 if plain[-1] == "万" else 100_000_000
        plain = plain[:-1]
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", plain):
        return _plain(Decimal(plain) * factor)
    if plain == "半":
        return "0.5"
    whole, _, fraction = plain.partition("点")
    spoken = _spoken(whole)
    if spoken is None or (fraction and not all(c in _DIGIT for c in fraction)):
        return None
    return _plain(Decimal(f"{spoken}.{''.join(str(_DIGIT[c]) for c in fraction) or 0}") * factor)


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _spoken(number: str) -> int | None:
    """一百二十: 120; 二〇二五: 2025; 一万二千: 12000."""
    if not number or any(c not in _HAN for c in number):
        return None
    if all(c in _DIGIT for c in number):
        return int("".join(str(_DIGIT[c]) for c in number))
    total, section, digit = 0, 0, 0
    for character in number:
        if character in _SCALE:
            section, digit = section + (digit or 1) * _SCALE[character], 0
        elif character in "万亿":
            total, section, digit = (total + section + digit) * (10_000 if character == "万" else 10**8), 0, 0
        else:
            digit = _DIGIT[character]
    return total + section + digit


_UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_SPOKEN_UNIT = "|".join(sorted(SPOKEN_UNITS, key=len, reverse=True))
_LATIN_END = r"(?![a-z])"
_PATTERN = re.compile(
    rf"""
    (?P<url>(?:https?://|www\.)[a-z0-9\-._~/?\#@&=%+:;,!$*]+ | [a-z0-9_.+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+)
  | (?P<date>(?<![0-9])(?:19|20)[0-9]{{2}}\s*(?:[-/.]\s*[0-9]{{1,2}}\s*[-/.]\s*[0-9]{{1,2}}(?![0-9])|年\s*[0-9]{{1,2}}\s*月(?:\s*[0-9]{{1,2}}\s*[日号]?)?)
      | (?<![0-9])(?:19|20)[0-9]{{2}}[-/](?:0[1-9]|1[0-2])(?![0-9])
      | [{_HAN}]{{4}}年[一二三四五六七八九十]{{1,2}}月(?:[一二三四五六七八九十]{{1,3}}[日号]?)?)
  | (?P<year>(?<![0-9])(?:19|20)[0-9]{{2}}\s*(?:年|版|财年) | [一二][〇零九][〇零一二三四五六七八九]{{2}}年)
  | (?P<monthday>(?<![0-9.])[0-9]{{1,2}}\s*月\s*(?:[0-9]{{1,2}}\s*[日号]?|份)? | [一二三四五六七八九十]{{1,2}}月(?:[一二三四五六七八九十]{{1,3}}[日号]|份)?)
  | (?P<clause>第\s*(?:[{_HAN}]+|[0-9]+(?:\.[0-9]+)*)\s*(?:条|款|章|节|项|部分|季度|届|期|版|页|层|级))
  | (?P<ordinal>第\s*(?:[{_HAN}]+|[0-9]+))
  | (?P<percent>[0-9][0-9,]*(?:\.[0-9]+)?\s*% | 百分之[{_HAN}点半]+ | 百分之[0-9]+(?:\.[0-9]+)?)
  | (?P<time>(?:上午|早上|清晨|凌晨|中午|下午|晚上|晚|早)?\s*(?<![0-9])(?:[01]?[0-9]|2[0-4]):[0-5][0-9](?![0-9])
      | (?:上午|早上|清晨|凌晨|中午|下午|晚上|晚|早)\s*(?:[0-9]{{1,2}}|[一二两三四五六七八九十]{{1,3}})\s*[点时](?:半|整|[0-9]{{1,2}}分?|[一二三四五六七八九十]+分)?
      | (?<![0-9.])[0-9]{{1,2}}\s*[点时](?:半|整|[0-9]{{1,2}}分?)?(?![间候])
      | [一二两三四五六七八九十]{{1,3}}点(?:半|整|[一二三四五六七八九十]+分))
  | (?P<whole>(?<![0-9-])(?:0[0-9]{{2,3}}-[0-9]{{7,8}}|[48]00-[0-9]{{3,4}}-[0-9]{{3,4}}|1[0-9]{{10}})(?![0-9]) | (?<![0-9.])v?[0-9]+(?:\.[0-9]+){{2,}})
  | (?P<measured>(?<![a-z0-9._-])[0-9][0-9,]*(?:\.[0-9]+)?\s?(?:kg|g|km|cm|mm|ml|mah|min|gb|tb|mb|kw|w|v|l|m2|m²|m|h|s|t|rmb|usd|℃|°c)(?![a-z0-9]))
  | (?P<code>(?<![a-z0-9])(?=[a-z0-9./_-]*[a-z])(?=[a-z0-9./_-]*[0-9])[a-z0-9]+(?:[-_./][a-z0-9]+)*(?![a-z0-9]))
  | (?P<number>[¥￥$]?\s?[0-9][0-9,]*(?:\.[0-9]+)?\s*(?:[万亿]|[千百](?![克瓦米]))*[多余]?(?:\s*(?:{_UNIT}){_LATIN_END})?)
  | (?P<spoken>(?:[一二两三四五六七八九十百][{_HAN}]*(?:点[一二三四五六七八九零]+)?|半)(?:多|余)?(?:{_SPOKEN_UNIT})(?!性|旦|概|样|致))
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(
    r"([¥￥$]?)\s?([0-9][0-9,]*(?:\.[0-9]+)?)\s*((?:[万亿]|[千百](?![克瓦米]))*)[多余]?\s*(.*)", re.DOTALL
)
_SPOKEN = re.compile(rf"([{_HAN}点]+?|半)(?:多|余)?({_SPOKEN_UNIT})")
_RANGE = re.compile(r"\s*(?:[-~—–]|至|到)+\s*")
_AFTERNOON, _PARTS = re.compile("下午|晚"), re.compile(rf"[0-9]+|[{_HAN}]+")


def figures(text: str) -> list[Figure]:
    """All figures of a text, in its order."""
    levelled = level(text)
    found = [figure for match in _PATTERN.finditer(levelled) if (figure := _figure(match))]
    return list(_with_range_units(levelled, found))


def _figure(match: re.Match[str]) -> Figure | None:
    kind = match.lastgroup or ""
    facts = _FACTS[kind](match.group())
    return Figure(match.start(), match.end(), tuple(facts)) if facts else None


def _with_range_units(text: str, found: list[Figure]) -> Iterator[Figure]:
    """3-5天: the first of the two has the second's unit."""
    for place, figure in enumerate(found):
        if place + 1 < len(found) and len(figure.facts) == 1 and figure.facts[0][1] == "":
            following = found[place + 1]
            if _RANGE.fullmatch(text[figure.end : following.start]):
                figure = replace(figure, facts=((figure.facts[0][0], following.facts[0][1]),))
        yield figure


def _dated(text: str) -> list[Fact]:
    year, month, *day = (value(part) or "" for part in _PARTS.findall(text))
    return [(year, "年份"), *_month(month, day)]


def _month(month: str, day: list[str]) -> list[Fact]:
    return [(f"{month}/{day[0]}", "月日")] if day else [(month, "月份")]


def _monthday(text: str) -> list[Fact]:
    month, *day = (value(part) or "" for part in _PARTS.findall(text))
    return _month(month, day)


def _year(text: str) -> list[Fact]:
    return [(value(_PARTS.findall(text)[0]) or "", "年份")]


def _clause(text: str) -> list[Fact]:
    number = re.sub(r"[^0-9.]", "", text) or value("".join(c for c in text if c in _HAN)) or ""
    unit = re.sub(rf"[第\s0-9.{_HAN}]", "", text)
    return [(number, f"第{unit}")]


def _percent(text: str) -> list[Fact]:
    number = value(text.replace("百分之", "").rstrip("% "))
    return [(number, "%")] if number else []


def _time(text: str) -> list[Fact]:
    parts = [value(part) or "0" for part in _PARTS.findall(text)]
    hour, minute = int(Decimal(parts[0])), int(Decimal(parts[1])) if len(parts) > 1 else 30 if "半" in text else 0
    if _AFTERNOON.search(text) and hour < 12:
        hour += 12
    return [(f"{hour}:{minute:02d}", "时刻")]


def _verbatim(text: str) -> list[Fact]:
    return [(text.strip("./-"), "原样")]


def _number(text: str) -> list[Fact]:
    match = _NUMBER.fullmatch(text.strip())
    if not match:
        return []
    currency, digits, scale, unit = match.groups()
    factor = {"千": 1000, "百": 100}
    number = Decimal(value(digits) or "0")
    for character in scale:
        number *= factor.get(character) or (10_000 if character == "万" else 10**8)
    return [(_plain(number), "元" if currency in {"¥", "￥"} else UNITS.get(unit.strip(), ""))]


def _said(text: str) -> list[Fact]:
    match = _SPOKEN.fullmatch(text)
    number = value(match.group(1)) if match else None
    return [(number, UNITS[match.group(2)])] if match and number else []


def _nothing(_: str) -> list[Fact]:
    return []


_FACTS: dict[str, Callable[[str], list[Fact]]] = {
    "url": _verbatim, "date": _dated, "year": _year, "monthday": _monthday, "clause": _clause, "ordinal": _nothing,
    "percent": _percent, "time": _time, "whole": _verbatim, "measured": _number, "code": _verbatim,
    "number": _number, "spoken": _said,
}  # fmt: skip


def facts(text: str) -> frozenset[Fact]:
    """Everything that the figures of a text say; a date says its year and its month too."""
    return frozenset(said for figure in figures(text) for fact in figure.facts for said in _implied(fact))


def _implied(fact: Fact) -> Iterable[Fact]:
    yield fact
    number, unit = fact
    if unit == "月日":
        yield number.partition("/")[0], "月份"
        yield number.partition("/")[2], "天"


def is_backed(figure: Figure, known: frozenset[Fact]) -> bool:
    """Whether `known` has the figure: value and unit, or the value where either side names no unit."""
    values = {number for number, _ in known}
    return all(
        fact in known or (fact[0], "") in known or (fact[1] == "" and fact[0] in values) for fact in figure.facts
    )
