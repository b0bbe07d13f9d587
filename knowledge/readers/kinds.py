"""What kind of file this is: told by its bytes. A name only tells kinds of plain text apart."""

import mmap
from enum import StrEnum
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from engine.words import Words
from knowledge.base import FileRefused
from knowledge.readers.refusals import DAMAGED, EMPTY, ENCRYPTED, refused


class Kind(StrEnum):
    """A kind that is read; its value is the reader's module."""

    PDF = "pdf"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"
    HTML = "html"
    MARKDOWN = "markdown"
    CSV = "csv"
    TEXT = "text"


ACCEPTED = "PDF、Word（.docx）、Excel（.xlsx）、PPT（.pptx）、Markdown、TXT、CSV"
_ACCEPTED_EN = "PDF, Word (.docx), Excel (.xlsx), PowerPoint (.pptx), Markdown, TXT, CSV"
_TEXTS = {
    ".md": Kind.MARKDOWN,
    ".markdown": Kind.MARKDOWN,
    ".csv": Kind.CSV,
    ".tsv": Kind.CSV,
    ".txt": Kind.TEXT,
    ".text": Kind.TEXT,
    ".log": Kind.TEXT,
    "": Kind.TEXT,
    ".html": Kind.HTML,
    ".htm": Kind.HTML,
    ".xhtml": Kind.HTML,
}
SUFFIXES = frozenset({".pdf", ".docx", ".xlsx", ".xlsm", ".pptx", *_TEXTS} - {""})
"""Of the files that a folder is searched for."""
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_FOREIGN: tuple[tuple[tuple[bytes, ...], str, str], ...] = (
    ((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"\0\0\1\0", b"8BPS"), "图片", "a picture"),
    ((b"Rar!", b"7z\xbc\xaf", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"), "压缩包", "an archive"),
    ((b"MZ", b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"#!"), "程序", "a program"),
    ((b"ID3", b"OggS", b"fLaC", b"\x1aE\xdf\xa3", b"RIFF", b"FLV"), "音视频或图片", "sound, film or a picture"),
)
_PARTS = (("word/", Kind.DOCX), ("xl/", Kind.XLSX), ("ppt/", Kind.PPTX))


def tell(path: Path, name: str) -> Kind:
    """The kind of the file at `path`, called `name` by people. Raises FileRefused for what is not read."""
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise FileRefused(EMPTY)
    if b"%PDF-" in head[:1024]:
        return Kind.PDF
    if head.startswith(_OLE):
        raise FileRefused(_old_office(path))
    if head.startswith(b"PK") and head[2:4] in (b"\3\4", b"\5\6", b"\7\x08"):
        return _zipped(path)
    for magics, zh, en in _FOREIGN:
        if head.startswith(magics):
            raise _foreign(zh, en)
    if head[4:8] == b"ftyp" or head[257:262] == b"ustar":
        raise _foreign("音视频、图片或压缩包", "sound, film, a picture or an archive")
    return _plain(head, Path(name).suffix.lower())


def _foreign(zh: str, en: str) -> FileRefused:
    return refused(
        f"这是{zh}，资料库不收这种文件。可以上传：{ACCEPTED}。", f"This is {en}. Files that are read: {_ACCEPTED_EN}."
    )


def _plain(head: bytes, suffix: str) -> Kind:
    start = head.removeprefix(b"\xef\xbb\xbf").replace(b"\0", b"").lstrip(b"\xff\xfe \t\r\n").lower()
    if start.startswith(rb"{\rtf"):
        raise refused(
            "这是 RTF 文件，请在 Word 或 WPS 里另存为 .docx 后再上传。",
            "This is an RTF file: save it as .docx and add that.",
        )
    if start.startswith((b"<?xml", b"<svg", b"<!doctype svg")) and b"<html" not in start:
        raise _foreign("图形或 XML 文件（svg 等）", "a drawing or XML file (svg or the like)")
    if start.startswith((b"<!doctype html", b"<html", b"<?xml", b"<head", b"<body", b"<script")):
        if _TEXTS.get(suffix) is not Kind.HTML:
            raise refused(
                f"文件内容是网页，与扩展名 {suffix or '（无）'} 不符。请改为 .html，或另存为 .docx 后再上传。",
                "The file is a web page under another name: call it .html, or save it as .docx.",
            )
        return Kind.HTML
    if suffix in _TEXTS:
        return _TEXTS[suffix]
    if suffix in (".svg", ".xml"):
        raise _foreign("图形或 XML 文件（svg 等）", "a drawing or XML file (svg or the like)")
    if suffix in SUFFIXES:
        raise refused(
            f"文件内容不是 {suffix} 格式（可能已损坏，或只改了扩展名）。请用原来的软件重新保存后再上传。",
            f"The file is not what {suffix} says (damaged, or only renamed): save it again in its own program.",
        )
    raise refused(f"不支持这种文件（{suffix[:12]}）。可以上传：{ACCEPTED}。", f"Files that are read: {_ACCEPTED_EN}.")


def _zipped(path: Path) -> Kind:
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise FileRefused(DAMAGED) from error
    if "[Content_Types].xml" in names:
        if "xl/workbook.bin" in names:
            raise _save_as("Excel 二进制文件（.xlsb）", "an .xlsb file", ".xlsx")
        for folder, kind in _PARTS:
            if any(name.startswith(folder) for name in names):
                return kind
    if "mimetype" in names and "content.xml" in names:
        raise _save_as("OpenDocument 文件（.odt、.ods、.odp）", "an OpenDocument file", ".docx、.xlsx 或 .pptx")
    raise refused(
        f"这是压缩包，请解压后上传里面的文件。可以上传：{ACCEPTED}。",
        f"This is an archive: unpack it. Files that are read: {_ACCEPTED_EN}.",
    )


def _save_as(zh: str, en: str, suffix: str) -> FileRefused:
    return FileRefused(_save_words(zh, en, suffix))


def _save_words(zh: str, en: str, suffix: str) -> Words:
    listed = suffix.replace("、", ", ").replace(" 或 ", " or ")
    return Words(
        f"这是{zh}，请在 Word、Excel、PowerPoint 或 WPS 里另存为 {suffix} 后再上传。",
        f"This is {en}: save it as {listed} and add that.",
    )


def _old_office(path: Path) -> Words:
    """OLE files by the names of their streams, which stand in the file as UTF-16."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:

        def has(stream: str) -> bool:
            return data.find(stream.encode("utf-16-le")) >= 0

        if has("EncryptedPackage"):
            return ENCRYPTED
        if has("WordDocument"):
            return _save_words(
                "旧版 Word 或 WPS 文字文件（.doc、.wps）", "an old Word or WPS file (.doc, .wps)", ".docx"
            )
        if has("PowerPoint Document"):
            return _save_words(
                "旧版 PPT 或 WPS 演示文件（.ppt、.dps）", "an old PowerPoint or WPS file (.ppt, .dps)", ".pptx"
            )
        if has("Workbook") or has("Book"):
            return _save_words(
                "旧版 Excel 或 WPS 表格文件（.xls、.et）", "an old Excel or WPS file (.xls, .et)", ".xlsx"
            )
    return _save_words("旧版 Office 或 WPS 文件", "an old Office or WPS file", ".docx、.xlsx 或 .pptx")
