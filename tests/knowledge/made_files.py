"""Files of every kind that the readers are tried on, made on the spot."""

import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docx import Document
from openpyxl import Workbook  # type: ignore[import-untyped]  # has no types
from pptx import Presentation
from pypdf import PdfReader, PdfWriter
from reportlab.lib.utils import ImageReader  # type: ignore[import-untyped]  # has no types
from reportlab.pdfbase import pdfmetrics  # type: ignore[import-untyped]
from reportlab.pdfbase.cidfonts import UnicodeCIDFont  # type: ignore[import-untyped]
from reportlab.pdfgen import canvas  # type: ignore[import-untyped]

FONT = "STSong-Light"
TOP, PITCH, LEFT = 760, 20, 72


def pdf(path: Path, pages: Sequence[Sequence[str]], size: int = 12) -> Path:
    """One string a line; a line with tabs is set in columns. A page without lines is a picture and nothing else."""
    pdfmetrics.registerFont(UnicodeCIDFont(FONT))
    sheet = canvas.Canvas(str(path))
    for lines in pages:
        if not lines:
            sheet.drawImage(_picture(), 0, 0, 595, 842)
        sheet.setFont(FONT, size)
        for i, line in enumerate(lines):
            for column, text in enumerate(line.split("\t")):
                sheet.drawString(LEFT + 130 * column, TOP - PITCH * i, text)
        sheet.showPage()
    sheet.save()
    return path


def _picture() -> Any:
    from PIL import Image

    return ImageReader(Image.new("L", (60, 80), 200))


def raw_pdf(path: Path, font: str, content: bytes) -> Path:
    """A page of one font, both written out as PDF: what no library would write."""
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        font.encode(),
    ]
    data, offsets = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    data += b"xref\n0 6\n0000000000 65535 f \n%strailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        table,
        len(data),
    )
    path.write_bytes(data)
    return path


def gbk_pdf(path: Path, text: str) -> Path:
    """In GBK-EUC-H without ToUnicode (pypdf#2330)."""
    return raw_pdf(path, _composite("GBK-EUC-H", "GB1"), _shown(text.encode("gbk")))


def unmapped_pdf(path: Path) -> Path:
    """Glyph numbers of a subset font that says nothing about characters."""
    codes = b"".join(struct.pack(">H", 0xE000 + i * 7) for i in range(60))
    return raw_pdf(path, _composite("Identity-H", "Identity"), _shown(codes))


def _composite(encoding: str, ordering: str) -> str:
    return (
        f"<< /Type /Font /Subtype /Type0 /BaseFont /SimSun /Encoding /{encoding} /DescendantFonts [ << /Type /Font /Subtype /CIDFontType2 "
        f"/BaseFont /SimSun /CIDSystemInfo << /Registry (Adobe) /Ordering ({ordering}) /Supplement 2 >> /DW 1000 "
        "/FontDescriptor << /Type /FontDescriptor /FontName /SimSun /Flags 6 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /Ascent 880 "
        "/Descent -120 /CapHeight 700 /StemV 80 >> >> ] >>"
    )


def _shown(codes: bytes) -> bytes:
    return b"BT /F1 14 Tf 72 700 Td <%s> Tj ET" % codes.hex().encode()


def encrypted_pdf(path: Path, user: str, owner: str) -> Path:
    """AES-256 over a page of text."""
    writer = PdfWriter(clone_from=PdfReader(pdf(path.with_suffix(".plain"), [["口令更换周期为 90 天。"]])))
    writer.encrypt(user, owner, algorithm="AES-256")
    writer.write(path)
    return path


def docx_table(path: Path, rows: Sequence[Sequence[str]]) -> Any:
    """A Word document with one table, not saved yet; `.save(path)` does."""
    document = Document()
    add_table(document, rows)
    document.save(str(path))
    return document


def add_table(parent: Any, rows: Sequence[Sequence[str]]) -> Any:
    """A table below a document or inside a cell."""
    table = parent.add_table(len(rows), len(rows[0]))
    for line, row in zip(rows, table.rows, strict=True):
        for text, cell in zip(line, row.cells, strict=True):
            cell.text = text
    return table


def xlsx(path: Path, rows: Sequence[Sequence[object]], title: str = "价格") -> Path:
    """A workbook of one sheet."""
    book = Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(list(row))
    book.save(path)
    return path


def pptx(path: Path, title: str, text: str) -> Path:
    """One slide with a title and a text box."""
    show = Presentation()
    slide: Any = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = title
    slide.shapes.add_textbox(0, 0, 99, 99).text_frame.text = text
    show.save(str(path))
    return path


def bomb(path: Path, mib: int) -> Path:
    """A docx whose body inflates to so many MiB, a thousand times what it takes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("word/document.xml", "w", force_zip64=True) as body:
            for _ in range(mib):
                body.write(b" " * 2**20)
    return path


def liar(path: Path, size: int, claimed: int) -> Path:
    """A docx whose headers claim that its body inflates to `claimed` bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", b" " * size)
    data = path.read_bytes().replace(struct.pack("<I", size), struct.pack("<I", claimed))
    path.write_bytes(data)
    return path


def with_part(source: Path, path: Path, name: str, content: bytes) -> Path:
    """A copy of an Office file with one member replaced or added."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            if member != name:
                new.writestr(member, old.read(member))
        new.writestr(name, content)
    return path


def ole(path: Path, stream: str) -> Path:
    """The head of an old Office file, and the name of one of its streams as its directory has it."""
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + stream.encode("utf-16-le") + bytes(512))
    return path
