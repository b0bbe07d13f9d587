"""Why files are refused and what readers leave out, in words."""

from collections.abc import Iterable

from engine.words import Words
from knowledge.base import FileRefused


def refused(zh: str, en: str) -> FileRefused:
    """The refusal to raise."""
    return FileRefused(Words(zh, en))


EMPTY = Words("文件是空的（0 字节），请检查后重新上传。", "The file is empty (0 bytes): check it and add it again.")
NO_TEXT = Words(
    "未提取到文字（可能是扫描件）。请先用 OCR 软件识别成带文字的 PDF 或 Word 再上传。",
    "No text was found (perhaps a scan). Make it a PDF or Word file with text by OCR, and add that.",
)
ENCRYPTED = Words(
    "文件已加密，需要密码才能打开。请去掉密码（另存为不加密的文件）后重新上传。",
    "The file is encrypted. Save it without its password and add it again.",
)
DAMAGED = Words(
    "文件已损坏或不完整，无法读取。请用原来的软件打开并重新保存后再上传。",
    "The file is damaged or incomplete. Open it in its own program, save it again and add that.",
)
GARBLED = Words(
    "文字是乱码（字体没有文字对照表，或编码不对），没有收录。请用原来的软件重新导出，或用 OCR 识别后再上传。",
    "The text is garbled (its fonts have no character map, or the encoding is wrong): nothing was taken in. "
    "Export the file again, or run OCR over it.",
)
BOMB = Words(
    "文件解压后过大，可能有问题，已拒绝读取。请用原来的软件重新保存，或拆成几个小文件。",
    "The file inflates to far more than its size: refused. Save it again in its own program, or split it.",
)
TOO_MUCH = Words(
    "文件内容太多或太复杂，超出读取的时间或内存上限。请拆成几个小文件再上传。",
    "The file takes more time or memory than one file may have. Split it into smaller ones.",
)
CRASHED = Words(
    "读取这个文件时出错，已跳过；其他文件不受影响。请用原来的软件重新保存后再上传。",
    "Reading this file failed; other files are not affected. Save it again in its own program and add that.",
)


def page_list(pages: Iterable[int]) -> str:
    """`[3, 4, 5, 9]` -> `3–5、9`."""
    runs: list[list[int]] = []
    for page in sorted(pages):
        if runs and page == runs[-1][1] + 1:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    return "、".join(f"{first}–{last}" if last > first else f"{first}" for first, last in runs)


def scanned(pages: list[int]) -> Words:
    """Some pages have pictures and no text."""
    listed = page_list(pages)
    return Words(
        f"第 {listed} 页没有文字（可能是扫描件），已跳过。",
        f"No text on page {listed.replace('、', ', ')} (perhaps scans): left out.",
    )


def garbled(pages: list[int]) -> Words:
    """Some pages have text that is none."""
    listed = page_list(pages)
    return Words(
        f"第 {listed} 页的文字是乱码，已跳过。", f"The text of page {listed.replace('、', ', ')} is garbled: left out."
    )
