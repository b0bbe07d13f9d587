"""Markdown: headings, paragraphs, lists, code, and tables row by row. HTML inside is text without its tags."""

from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from knowledge.base import Reading
from knowledge.readers.assembly import Paragraph, Table, assemble
from knowledge.readers.decoding import decode
from knowledge.readers.html import plain
from knowledge.readers.tables import Cell, Line


def read(path: Path) -> Reading:
    """Raises FileRefused for what is no text."""
    tokens = MarkdownIt("commonmark").enable("table").parse(decode(path))
    return Reading(tuple(assemble(_Walk(tokens).items)))


class _Walk:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self.items: list[Paragraph | Table] = []
        self._lists: list[int | None] = []
        self._mark = ""
        self._lines: list[Line] = []
        self._cells: list[Cell] = []
        self._level: int | None = None
        self._in_table = False
        for token in tokens:
            self._take(token)

    def _take(self, token: Token) -> None:
        kind = token.type
        if kind == "heading_open":
            self._level = int(token.tag[1:])
        elif kind == "heading_close":
            self._level = None
        elif kind in ("bullet_list_open", "ordered_list_open"):
            self._lists.append(int(token.attrs.get("start", 1)) if kind.startswith("ordered") else None)
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self._lists.pop()
        elif kind == "list_item_open":
            self._item()
        elif kind in ("fence", "code_block"):
            self._say(token.content)
        elif kind == "html_block":
            self._say(plain(token.content))
        elif kind == "inline":
            self._inline(_text(token.children or []))
        else:
            self._table(kind)

    def _item(self) -> None:
        number = self._lists[-1]
        self._mark = "- " if number is None else f"{number}. "
        if number is not None:
            self._lists[-1] = number + 1

    def _inline(self, text: str) -> None:
        if self._in_table:
            self._cells.append(Cell(text))
        else:
            self._say(text)

    def _say(self, text: str) -> None:
        self.items.append(Paragraph(self._mark + text, self._level, may_be_heading=not self._lists))
        self._mark = ""

    def _table(self, kind: str) -> None:
        if kind == "table_open":
            self._in_table, self._lines = True, []
        elif kind == "tr_open":
            self._cells = []
        elif kind == "tr_close":
            self._lines.append(Line(self._cells, is_marked=not self._lines and len(self._cells) > 2))
        elif kind == "table_close":
            self._in_table = False
            self.items.append(Table(self._lines))


def _text(tokens: Sequence[Token]) -> str:
    said = []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            said.append("\n")
        elif token.type == "image":
            said.append(_text(token.children or []))
        elif token.type == "html_inline":
            said.append("\n" if token.content.lower().startswith("<br") else "")
        else:
            said.append(token.content)
    return "".join(said)
