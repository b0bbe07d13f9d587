"""Web pages: what a reader would see. Scripts, styles and hidden elements say nothing; tables row by row."""

import re
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser, LexborNode

from knowledge.base import Reading
from knowledge.readers.assembly import Paragraph, Table, assemble
from knowledge.readers.decoding import decode
from knowledge.readers.tables import Cell, Line

_SILENT = {"script", "style", "noscript", "template", "head", "iframe", "object", "svg", "math", "canvas", "select", "button",
           "textarea"}  # fmt: skip
_INLINE = {"a", "abbr", "b", "bdi", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd", "label", "mark", "q",
           "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "img"}  # fmt: skip
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])", re.IGNORECASE)
_SPAN = 64


def read(path: Path) -> Reading:
    """Raises FileRefused for what is no text."""
    return Reading(tuple(assemble(_items(LexborHTMLParser(decode(path)).body))))


def plain(markup: str) -> str:
    """A fragment's text."""
    body = LexborHTMLParser(markup).body
    return "\n".join(item.text for item in _items(body) if isinstance(item, Paragraph))


def _items(body: LexborNode | None) -> list[Paragraph | Table]:
    walk = _Walk()
    if body is not None:
        walk.run(body)
    return walk.items


class _Walk:
    """Over a tree of any depth, so with a stack of its own and no recursion."""

    def __init__(self) -> None:
        self.items: list[Paragraph | Table] = []
        self._text = ""

    def _flush(self, level: int | None = None) -> None:
        lines = self._text.split("\0")
        text = "\n".join(line.strip() for line in lines).strip()
        if text == "-":  # a list item whose text is a paragraph of its own
            return
        if text:
            self.items.append(Paragraph(text, level))
        self._text = ""

    def run(self, root: LexborNode) -> None:
        """Fill `items`."""
        todo: list[LexborNode | int | None] = [None, *_children(root)]
        while todo:
            node = todo.pop()
            if node is None or isinstance(node, int):
                self._flush(node)
            elif node.tag in ("-text", "#text"):
                self._text += re.sub(r"\s+", " ", node.text_content or "")
            elif node.tag == "br":
                self._text += "\0"
            elif node.tag == "pre":
                self._flush()
                self._text = node.text().replace("\n", "\0")
                self._flush()
            elif node.tag == "table" and not node.css_first("table table"):
                self._flush()
                self.items.extend(Paragraph(_said(caption)) for caption in node.css("caption"))
                self.items.append(Table(_rows(node)))
            elif _is_seen(node):
                self._open(node, todo)

    def _open(self, node: LexborNode, todo: list[LexborNode | int | None]) -> None:
        tag = node.tag or ""
        if tag in _INLINE:
            todo.extend(_children(node))
            return
        self._flush()
        todo.append(int(tag[1]) if re.fullmatch("h[1-6]", tag) else None)
        todo.extend(_children(node))
        if tag == "li":
            self._text = "- "


def _children(node: LexborNode) -> list[LexborNode]:
    """Last first, as a stack wants them."""
    return list(node.iter(include_text=True))[::-1]


def _is_seen(node: LexborNode) -> bool:
    attributes = node.attributes
    return not (
        node.tag in _SILENT
        or (node.tag or "-").startswith(("-", "#", "!"))
        or "hidden" in attributes
        or _HIDDEN.search(attributes.get("style") or "")
    )


def _rows(table: LexborNode) -> list[Line]:
    lines, below = list[Line](), dict[tuple[int, int], Cell]()
    for r, row in enumerate(table.css("tr")):
        cells = list[Cell]()
        headers = 0
        for raw in (node for node in row.iter() if node.tag in ("td", "th")):
            while (r, len(cells)) in below:
                cells.append(below[r, len(cells)])
            cell, headers = Cell(_said(raw), raw.tag == "th"), headers + (raw.tag == "th")
            for _ in range(_number(raw, "colspan")):
                below.update({(r + down, len(cells)): cell for down in range(1, _number(raw, "rowspan"))})
                cells.append(cell)
        while (r, len(cells)) in below:
            cells.append(below[r, len(cells)])
        lines.append(Line(cells, is_marked=r == 0 and headers > 1))
    return lines


def _number(node: LexborNode, name: str) -> int:
    text = node.attributes.get(name) or ""
    return min(int(text), _SPAN) or 1 if text.isdigit() and len(text) < 6 else 1


def _said(node: LexborNode) -> str:
    walk = _Walk()
    walk.run(node)
    return " ".join(item.text for item in walk.items if isinstance(item, Paragraph))
