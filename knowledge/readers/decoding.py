"""Plain text by trial: byte order marks, UTF-8, UTF-16, GB18030, then what charset-normalizer thinks."""

import codecs
from pathlib import Path

from knowledge.base import FileRefused
from knowledge.cleaning import is_garbled
from knowledge.readers.refusals import GARBLED, refused

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BROKEN = 0.002
"""Share of characters that may be cut or damaged."""


def decode(path: Path) -> str:
    """The file's text. Raises FileRefused where no encoding makes text of it."""
    data = path.read_bytes()
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data[:65536]:
        return _wide(data)
    for encoding in ("utf-8", "gb18030", "big5"):
        text = data.decode(encoding, "replace")
        if text.count("\ufffd") <= _BROKEN * len(text) + (1 if len(text) > 100 else 0) and not is_garbled(
            text[:20_000]
        ):
            return text
    return _guess(data)


def _wide(data: bytes) -> str:
    """UTF-16 without a mark has zeros at every other byte of its ASCII; other zeros are no text."""
    for encoding in ("utf-16-le", "utf-16-be"):
        text = data.decode(encoding, "replace")
        if text.count("\ufffd") <= _BROKEN * len(text) and "\0" not in text and not is_garbled(text[:20_000]):
            return text
    raise refused(
        "文件不是文本（含有二进制内容）。请用原来的软件另存为 .docx、.pdf 或 .txt 后再上传。",
        "The file is no text: save it as .docx, .pdf or .txt in its own program.",
    )


def _guess(data: bytes) -> str:
    from charset_normalizer import from_bytes  # slow to import, and seldom needed

    best = from_bytes(data[:200_000]).best()
    if best is None or is_garbled(text := data.decode(best.encoding, "replace")):
        raise FileRefused(GARBLED)
    return text
