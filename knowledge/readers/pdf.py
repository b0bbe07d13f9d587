"""PDF by PDFium: lines with their places, and from them paragraphs, headings and simple tables, page by page."""

from pathlib import Path

import pypdfium2  # type: ignore[import-untyped]  # has no types
import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

from engine.words import Words
from knowledge.base import FileRefused, Reading
from knowledge.cleaning import is_garbled
from knowledge.readers import limits
from knowledge.readers.assembly import assemble
from knowledge.readers.pdf_layout import Layout
from knowledge.readers.pdf_lines import TextLine, text_lines
from knowledge.readers.refusals import DAMAGED, ENCRYPTED, GARBLED, NO_TEXT, TOO_MUCH, garbled, refused, scanned

_STAMP = 20
"""Characters: a page with a picture and no more text than this, such as a page number, is a scan."""


def read(path: Path) -> Reading:
    """Raises FileRefused for an encrypted, damaged, scanned or garbled file, or one with too many pages."""
    document = _open(path)
    count = len(document)
    if count > limits.PAGES:
        raise refused(
            f"共 {count} 页，超过 {limits.PAGES} 页的上限。请拆成几个文件再上传。",
            f"{count} pages: more than {limits.PAGES}. Split the file.",
        )
    pages, scans, broken, size = dict[int, list[TextLine]](), list[int](), list[int](), 0
    for number in range(1, count + 1):
        text, lines, has_picture = _page(document, number)
        size += len(text)
        if size > limits.CHARACTERS:
            raise FileRefused(TOO_MUCH)
        if is_garbled(text):
            broken.append(number)
        elif has_picture and len(text.split()) <= _STAMP and len("".join(text.split())) <= _STAMP:
            scans.append(number)
        else:
            pages[number] = lines
    return _reading(pages, count, scans, broken)


def _reading(pages: dict[int, list[TextLine]], count: int, scans: list[int], broken: list[int]) -> Reading:
    blocks = tuple(assemble(Layout(pages).items()))
    if not blocks:
        raise FileRefused(GARBLED if broken else NO_TEXT)
    warnings: list[Words] = []
    if scans:
        warnings.append(scanned(scans))
    if broken:
        warnings.append(garbled(broken))
    return Reading(blocks, count, tuple(warnings))


def _open(path: Path) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        is_locked = error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY)
        raise FileRefused(ENCRYPTED if is_locked else DAMAGED) from error


def _page(document: pypdfium2.PdfDocument, number: int) -> tuple[str, list[TextLine], bool]:
    """Its text as it stands there, its lines, and whether something is drawn that may be the text of a page without."""
    try:
        page = document[number - 1]
    except pypdfium2.PdfiumError:  # one damaged page; it has no text
        return "", [], True
    textpage = page.get_textpage()
    text = textpage.get_text_range()
    is_short = len("".join(text.split())) <= _STAMP
    has_picture = is_short and _is_drawn(page, has_text=bool(text.strip()))
    lines = text_lines(textpage, text, page.get_width())
    textpage.close()
    page.close()
    return text, lines, has_picture


def _is_drawn(page: pypdfium2.PdfPage, has_text: bool) -> bool:
    """A picture over half of the page; without any text, anything at all (letters may be drawn as curves)."""
    width, height = page.get_size()
    for found in page.get_objects(max_depth=3):
        if not has_text:
            return True
        if found.type == pdfium.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = found.get_bounds()
            if (right - left) * (top - bottom) > width * height / 2:
                return True
    return False
