"""The process that reads one file: `python -m knowledge.reading_child PATH NAME`, limits first, then the parser.

Says on its standard output one JSON array a line: `["block", …]` for each block, then `["end", pages, warnings]`, or
`["refused", zh, en, why]` alone.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from knowledge.base import FileRefused, Reading
from knowledge.cleaning import is_garbled
from knowledge.readers import limits
from knowledge.readers.kinds import tell
from knowledge.readers.refusals import DAMAGED, GARBLED, NO_TEXT, TOO_MUCH

_FILES, _WRITTEN = 64, limits.MIB
_SAMPLE = 200_000


def confine() -> None:
    """Lowest priority, so that answers keep streaming, and limits that the kernel enforces."""
    os.nice(19)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for kind, value in (
        (resource.RLIMIT_CPU, limits.CPU_S),
        (resource.RLIMIT_AS, limits.ADDRESS_SPACE),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_FSIZE, _WRITTEN),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
    # openpyxl and others import it when it is there: 0.1 s and 100 MiB for nothing.
    sys.modules["numpy"] = None  # type: ignore[assignment]


def read(path: Path, name: str) -> Reading:
    """In this process. Raises FileRefused, or whatever a parser raises at a broken file."""
    reader = import_module(f"knowledge.readers.{tell(path, name)}")
    reading: Reading = reader.read(path)
    if not any(block.text.strip() for block in reading.blocks):
        raise FileRefused(NO_TEXT)
    if sum(len(block.text) for block in reading.blocks) > limits.CHARACTERS:
        raise FileRefused(TOO_MUCH)
    if is_garbled("".join(block.text for block in reading.blocks[:2000])[:_SAMPLE]):
        raise FileRefused(GARBLED)
    return reading


def report(path: Path, name: str) -> Iterator[list[Any]]:
    """What is said to the parent."""
    try:
        reading = read(path, name)
    except FileRefused as error:
        yield ["refused", error.words.zh, error.words.en, ""]
        return
    except MemoryError:
        yield ["refused", TOO_MUCH.zh, TOO_MUCH.en, "MemoryError"]
        return
    except Exception as error:  # a broken file makes a parser raise anything at all
        yield ["refused", DAMAGED.zh, DAMAGED.en, f"{type(error).__name__}: {error}"[:500]]
        return
    for block in reading.blocks:
        at = block.at
        yield ["block", block.text, at.page, at.headings, at.sheet, at.row, block.is_heading, block.is_row]
    yield ["end", reading.pages, [[words.zh, words.en] for words in reading.warnings]]


def main() -> None:
    """Parsers that print do so elsewhere."""
    confine()
    with os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace", buffering=1 << 16) as said:
        os.dup2(2, 1)
        for line in report(Path(sys.argv[1]), sys.argv[2]):
            said.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
