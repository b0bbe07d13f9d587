"""The corpus as people read and edit it: Markdown with a small front matter, one file each."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token

FOLDER = Path(__file__).parent / "corpus"
ABOVE = "^^"
"""A table's cell that is one with the cell above it."""


@dataclass(frozen=True, slots=True)
class Element:
    """A heading, a paragraph, a list's item, a rule, or a table with its header row first."""

    kind: Literal["heading", "paragraph", "item", "rule", "table"]
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the corpus before it is made."""

    file: str
    """The name it will have, which says its format."""
    header: str
    """What stands at the top of every page, where the format has pages."""
    encoding: str
    """Of plain text and CSV."""
    markdown: str
    elements: tuple[Element, ...] = field(repr=False)

    @property
    def suffix(self) -> str:
        """`.docx`, `.pdf` and so on."""
        return Path(self.file).suffix


@cache
def sources() -> tuple[Source, ...]:
    """All of the corpus, by the files' names."""
    return tuple(sorted((_source(path) for path in FOLDER.glob("*.md")), key=lambda source: source.file))


def _source(path: Path) -> Source:
    _, front, markdown = path.read_text(encoding="utf-8").split("---\n", 2)
    keys = dict(line.split(": ", 1) for line in front.splitlines())
    markdown = markdown.strip() + "\n"
    return Source(
        keys["file"], keys.get("header", ""), keys.get("encoding", "utf-8"), markdown, tuple(_elements(markdown))
    )


def _elements(markdown: str) -> list[Element]:
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    found: list[Element] = []
    kind: Literal["heading", "paragraph", "item"] = "paragraph"
    level, at = 0, 0
    while at < len(tokens):
        token = tokens[at]
        if token.type == "table_open":
            end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
            found.append(Element("table", rows=_rows(tokens[at:end])))
            at = end
        elif token.type == "heading_open":
            kind, level = "heading", int(token.tag[1])
        elif token.type == "list_item_open":
            kind = "item"
        elif token.type in {"heading_close", "list_item_close"}:
            kind = "paragraph"
        elif token.type == "hr":
            found.append(Element("rule"))
        elif token.type == "inline":
            found.append(Element(kind, token.content.replace("\n", ""), level if kind == "heading" else 0))
        at += 1
    return found


def _rows(tokens: list[Token]) -> tuple[tuple[str, ...], ...]:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token.content)
    return tuple(tuple(row) for row in rows)
