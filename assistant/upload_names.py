"""What an uploaded file is called. Names come as the page sends them: with folders, without end, with anything in them."""

import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from knowledge.readers.kinds import SUFFIXES

LONGEST = 400
"""Characters of a name; its suffix stays. The page shortens what it has no room for."""
REMEDIED = frozenset({".doc", ".xls", ".ppt", ".wps", ".et", ".dps", ".rtf", ".odt", ".ods", ".odp", ".xlsb", ".docm"})
"""Not read, but a reader says what to do about them."""
WEB_PAGES = frozenset({".html", ".htm", ".xhtml"})
"""Read where an administrator adds them from a shell; taken from no page, and given back by none."""


def shown(raw: str) -> str:
    """The name without its folders, without characters that show nothing or turn the writing's direction."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", raw))[-1]
    clean = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in last)
    name = re.sub(r" +", " ", clean).strip(" .") or "未命名"
    suffix = PurePosixPath(name).suffix[:12]
    return name if len(name) <= LONGEST else name[: LONGEST - len(suffix) - 1] + "…" + suffix


def may_be_read(raw: str) -> bool:
    """Whether a file of this name is taken at all; what it really is, its bytes say later."""
    return PurePosixPath(shown(raw)).suffix.lower() in SUFFIXES - WEB_PAGES | REMEDIED


def origins(names: Iterable[str]) -> list[str]:
    """What newer versions of these files replace them by: their names, told apart where two of one drop are the same."""
    seen: dict[str, int] = {}
    found: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(f"upload:{name}" + (f"#{seen[name]}" if seen[name] > 1 else ""))
    return found


def told_apart(name: str, origin: str) -> str:
    """`name`, with its number where it is not the first of its drop: `a (2).pdf`."""
    path, number = PurePosixPath(name), origin.removeprefix(f"upload:{name}").removeprefix("#")
    return f"{path.stem} ({number}){path.suffix}" if number else name
