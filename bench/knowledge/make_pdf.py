"""A PDF of several pages from a source: title, headings, tables, a header and page numbers."""

from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

from reportlab.lib.colors import black, lightgrey  # type: ignore[import-untyped]  # has no types
from reportlab.lib.enums import TA_CENTER  # type: ignore[import-untyped]
from reportlab.lib.pagesizes import A5  # type: ignore[import-untyped]
from reportlab.lib.styles import ParagraphStyle  # type: ignore[import-untyped]
from reportlab.lib.units import mm  # type: ignore[import-untyped]
from reportlab.pdfbase.cidfonts import UnicodeCIDFont  # type: ignore[import-untyped]
from reportlab.pdfbase.pdfmetrics import registerFont  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]
from reportlab.platypus import Flowable, PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle  # type: ignore[import-untyped]

from bench.knowledge.sources import Element, Source

FONT = "STSong-Light"
MARGIN = 18 * mm


@cache
def _styles() -> dict[str, ParagraphStyle]:
    """By an element's kind; headings by their level."""
    registerFont(UnicodeCIDFont(FONT))
    body = ParagraphStyle("body", fontName=FONT, fontSize=10, leading=16, wordWrap="CJK", spaceAfter=4)
    return {
        "paragraph": ParagraphStyle("paragraph", body, firstLineIndent=20),
        "item": ParagraphStyle("item", body, leftIndent=14),
        "cell": ParagraphStyle("cell", body, fontSize=9, leading=13, spaceAfter=0),
        "1": ParagraphStyle("1", body, fontSize=18, leading=26, alignment=TA_CENTER, spaceAfter=12),
        "2": ParagraphStyle("2", body, fontSize=14, leading=22, spaceBefore=8, keepWithNext=1),
        "3": ParagraphStyle("3", body, fontSize=12, leading=19, spaceBefore=4, keepWithNext=1),
    }


def pdf(source: Source, path: Path) -> None:
    """On A5, so that even a short document has pages to tell apart."""

    def frame(canvas: Canvas, document: SimpleDocTemplate) -> None:
        canvas.setFont(FONT, 8)
        canvas.drawString(MARGIN, A5[1] - 10 * mm, source.header)
        canvas.line(MARGIN, A5[1] - 12 * mm, A5[0] - MARGIN, A5[1] - 12 * mm)
        canvas.drawCentredString(A5[0] / 2, 9 * mm, f"第 {document.page} 页")

    flowables = [_flowable(element) for element in source.elements]
    SimpleDocTemplate(
        str(path), pagesize=A5, leftMargin=MARGIN, rightMargin=MARGIN, topMargin=MARGIN, bottomMargin=MARGIN,
        title=path.stem, invariant=1,
    ).build(flowables, onFirstPage=frame, onLaterPages=frame)  # fmt: skip


def _flowable(element: Element) -> Flowable:
    styles = _styles()
    if element.kind == "rule":
        return PageBreak()
    if element.kind == "table":
        return _table(element)
    if element.kind == "heading":
        return Paragraph(escape(element.text), styles[str(element.level)])
    bullet = "· " if element.kind == "item" else ""
    return Paragraph(bullet + escape(element.text), styles[element.kind]) if element.text else Spacer(1, 6)


def _table(element: Element) -> Table:
    cells = [[Paragraph(escape(text), _styles()["cell"]) for text in row] for row in element.rows]
    longest = [max(len(row[column]) for row in element.rows) + 2 for column in range(len(element.rows[0]))]
    widths = [max(width, sum(longest) * 0.12) for width in longest]
    room = A5[0] - 2 * MARGIN
    table = Table(cells, [room * width / sum(widths) for width in widths], repeatRows=1, spaceBefore=4, spaceAfter=8)
    table.setStyle(TableStyle([("GRID", (0, 0), (-1, -1), 0.5, black), ("BACKGROUND", (0, 0), (-1, 0), lightgrey)]))
    return table
