"""Cell values as the spreadsheet shows them: 2026-03-01, 15%, ¥1,280.00, 15天."""

import re
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal

_IGNORED = re.compile(r"\[(?:[A-Za-z]+\d*|[<>=]+[\d.]+)\]|[_*].")
_CURRENCY = re.compile(r"\[\$([^\]-]*)(?:-[0-9A-Fa-f]+)?\]")
_LITERAL = re.compile(r'"([^"]*)"|\\(.)')
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.[#0?]*)?,*|\.[0#?]+")


def shown(value: object, form: str = "General") -> str:
    """A value as people see it; `form` is the cell's number format."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, (date, time, timedelta)):
        return str(value)
    if isinstance(value, (int, float)):
        return _formatted(value, form)
    return str(value).strip()


def _moment(value: datetime) -> str:
    if value.time() == time(0):
        return value.date().isoformat()
    return value.strftime("%Y-%m-%d %H:%M" if not value.second else "%Y-%m-%d %H:%M:%S")


def _general(value: int | float) -> str:
    if isinstance(value, int) or value.is_integer():
        return str(int(value)) if abs(value) < 1e15 else f"{value:g}"
    return f"{value:.10g}"


def _formatted(value: int | float, form: str) -> str:
    if isinstance(value, float) and not (abs(value) < 1e300):
        return str(value)
    sections = form.split(";")
    is_below = value < 0 and len(sections) > 1 and bool(sections[1])
    section = _CURRENCY.sub(lambda f: f'"{f[1]}"', sections[1] if is_below else sections[0])
    section = _IGNORED.sub("", section)
    bare = _LITERAL.sub("", section)
    digits = _DIGITS.search(bare)
    if form == "General" or digits is None or re.search(r"[Ee][+-]|/|General|@", bare):
        return _general(value)
    pattern = digits[0]
    number = Decimal(repr(abs(value) if is_below else value)) * (100 if "%" in bare else 1)
    number = number.scaleb(-3 * (len(pattern) - len(pattern.rstrip(","))))
    text = _placed(number, pattern.rstrip(","))
    return _around(section, pattern, text)


def _placed(number: Decimal, pattern: str) -> str:
    """With the pattern's decimals: zeros are always shown, # only where there is a digit."""
    _, _, decimals = pattern.partition(".")
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    text = f"{rounded:,f}" if "," in pattern else f"{rounded:f}"
    optional = len(decimals) - len(decimals.rstrip("#?"))
    while optional and text.endswith("0"):
        text, optional = text[:-1], optional - 1
    return text.rstrip(".") if "." in text else text


def _around(section: str, pattern: str, text: str) -> str:
    """The number in its literals: `"约"0"天"`."""
    plain = _LITERAL.sub(lambda f: "".join(chr(0xE000 + i) for i in range(len(f[1] or f[2] or ""))), section)
    start = plain.find(pattern)
    literals = iter("".join(f[1] or f[2] or "" for f in _LITERAL.finditer(section)))
    shell = f"{plain[:start]}\0{plain[start + len(pattern) :]}"
    said = "".join(next(literals) if 0xE000 <= ord(c) < 0xF000 else c for c in shell)
    before, _, after = said.partition("\0")
    sign = "-" if text.startswith("-") else ""
    return f"{sign}{before}{text.removeprefix('-')}{after}".strip()
