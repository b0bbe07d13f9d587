"""What files are called where people see it. Names come with anything in them: line breaks, terminal codes, no end."""

import re
import unicodedata
from pathlib import PurePosixPath

LONGEST = 400
"""Characters of a name; its suffix stays."""
UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode's categories of what breaks a line, steers a terminal or turns the writing's direction."""


def shown(raw: str) -> str:
    """The name without its folders, without characters that show nothing or turn the writing's direction."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", raw))[-1]
    clean = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in last)
    name = re.sub(r" +", " ", clean).strip(" .") or "未命名"
    suffix = PurePosixPath(name).suffix[:12]
    return name if len(name) <= LONGEST else name[: LONGEST - len(suffix) - 1] + "…" + suffix


def visible(text: str) -> str:
    """For a terminal: what would steer it stands there as Python writes it (a line break as \\n)."""
    return "".join(
        each.encode("unicode_escape").decode("ascii") if unicodedata.category(each) in UNSEEN else each
        for each in text
    )
