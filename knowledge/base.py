"""What the parts of the library hand to each other."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from engine.errors import RequestError
from engine.words import Words


class FileRefused(RequestError):
    """A file is not taken into the library; `words` names the remedy."""


@dataclass(frozen=True, slots=True)
class Locator:
    """Where in its file a text stands; what a kind of file has not is None or empty."""

    page: int | None = None
    """From 1: a PDF's page, a presentation's slide."""
    headings: tuple[str, ...] = ()
    """The headings above it, outermost first."""
    sheet: str | None = None
    row: int | None = None
    """From 1, as the spreadsheet program numbers it."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a heading, or a table's row as a reader found it, in the document's order."""

    text: str
    at: Locator
    is_heading: bool = False
    is_row: bool = False
    """A table's row spoken with its header (`产品：XJ-2048；单价：1280 元`): a passage of its own, never joined to another."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader made of one file."""

    blocks: tuple[Block, ...]
    pages: int = 0
    """Pages, slides or sheets in the file, read or not; 0 where the kind has none."""
    warnings: tuple[Words, ...] = ()
    """What was left out, and why: scanned pages, garbled pages, a limit reached."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file that can be found and quoted: a clause, a paragraph or two, a table's row."""

    text: str
    at: Locator


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the library."""

    origin: str
    """What a newer version replaces it by: the absolute path it was added from, or `upload:` and its name."""
    digest: str
    """SHA-256 of its bytes, in hexadecimal; the original lies under this name."""
    name: str
    """As people know it, without folders."""
    size: int
    """Bytes."""
    pages: int
    passages: int
    added_at: str
    """ISO 8601, UTC."""
    warnings: tuple[Words, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found, with what speaks for it."""

    passage: Passage
    file: SourceFile
    chat: str | None
    """The chat whose own file it is; None for the shared library's."""
    bm25: float
    """Full-text score; 0 where no term is shared."""
    cosine: float | None
    """Between question and passage; None without an embedder."""
    relevance: float = 0.0
    """Calibrated probability that the passage answers the question, 0 to 1 (see knowledge/relevance.py)."""


class Stage(StrEnum):
    """How far a file is."""

    WAITING = "waiting"
    READING = "reading"
    SPLITTING = "splitting"
    INDEXING = "indexing"
    READY = "ready"


Progress = Callable[[Stage, float | None], None]
"""Called with the stage and the share of it that is done, where that is known; from any thread."""
