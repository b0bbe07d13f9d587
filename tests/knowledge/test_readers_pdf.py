"""PDFs: fonts, pages, places, locks."""

from pathlib import Path

import pytest

from knowledge.base import FileRefused, Reading
from knowledge.reading_child import read
from tests.knowledge import made_files


def texts(reading: Reading) -> list[str]:
    """The blocks' texts."""
    return [block.text for block in reading.blocks]


def refusal(path: Path) -> str:
    """Why it is refused."""
    with pytest.raises(FileRefused) as caught:
        read(path, path.name)
    return caught.value.words.zh


def test_gbk_font_without_a_map_is_read(tmp_path: Path) -> None:
    """GBK-EUC-H without ToUnicode gives the right text (pypdf#2330)."""
    assert texts(read(made_files.gbk_pdf(tmp_path / "a.pdf", "员工每年享有15天年假。"), "a.pdf")) == [
        "员工每年享有15天年假。"
    ]


def test_garbage_is_refused_and_named(tmp_path: Path) -> None:
    """A subset font that maps no glyph to a character makes no passage."""
    said = refusal(made_files.unmapped_pdf(tmp_path / "a.pdf"))
    assert "乱码" in said or "未提取到文字" in said


def test_garbled_pages_are_left_out_by_number(tmp_path: Path) -> None:
    """The pages with text are read, the others named."""
    garbage = "年假规定按工龄计算".encode("gbk").decode("latin-1")
    pages = [["第一页的正文在这里。"], ["\ue001\ue002\ue003\ue004"], ["第三页的正文在这里。"]]
    reading = read(_with_helvetica(tmp_path / "a.pdf", pages, garbage), "a.pdf")
    assert texts(reading) == ["第一页的正文在这里。", "第三页的正文在这里。"]
    assert [w.zh for w in reading.warnings] == ["第 2 页的文字是乱码，已跳过。"]


def _with_helvetica(path: Path, pages: list[list[str]], garbage: str) -> Path:
    """The second page's text set as Latin letters, as a program does that reads GBK for Latin-1."""
    from reportlab.pdfgen import canvas  # type: ignore[import-untyped]  # has no types

    made_files.pdf(path, [["x"]])  # registers the font
    sheet = canvas.Canvas(str(path))
    for number, lines in enumerate(pages, start=1):
        sheet.setFont("Helvetica" if number == 2 else made_files.FONT, 12)
        sheet.drawString(72, 700, garbage if number == 2 else lines[0])
        sheet.showPage()
    sheet.save()
    return path


def test_scanned_pages_are_named(tmp_path: Path) -> None:
    """Pages 1-2 text, 3-10 pictures: two are read, eight named (cherry-studio#19095)."""
    path = made_files.pdf(tmp_path / "a.pdf", [["第一页的正文。"], ["第二页的正文。"], *[[]] * 8])
    reading = read(path, "a.pdf")
    assert [(b.text, b.at.page) for b in reading.blocks] == [("第一页的正文。", 1), ("第二页的正文。", 2)]
    assert reading.pages == 10
    assert [w.zh for w in reading.warnings] == ["第 3–10 页没有文字（可能是扫描件），已跳过。"]


def test_scan_alone_is_refused(tmp_path: Path) -> None:
    """Nothing in it, so never ready; blank pages neither."""
    assert "未提取到文字（可能是扫描件）" in refusal(made_files.pdf(tmp_path / "a.pdf", [[], []]))
    assert "未提取到文字（可能是扫描件）" in refusal(made_files.pdf(tmp_path / "b.pdf", [[" "]]))


def test_passwords(tmp_path: Path) -> None:
    """A user's password locks; an owner's alone, AES-256, does not (pypdf#1088)."""
    assert "文件已加密" in refusal(made_files.encrypted_pdf(tmp_path / "user.pdf", "secret", "owner"))
    path = made_files.encrypted_pdf(tmp_path / "owner.pdf", "", "owner")
    assert texts(read(path, "owner.pdf")) == ["口令更换周期为 90 天。"]


def test_too_many_pages_are_refused(tmp_path: Path) -> None:
    """With the number and the limit."""
    assert "共 2001 页，超过 2000 页" in refusal(made_files.pdf(tmp_path / "a.pdf", [["正文。"]] * 2001))


def test_headers_footers_and_page_numbers_go(tmp_path: Path) -> None:
    """What stands on most pages is said on none; what differs stays, also where it looks alike."""
    pages = [
        [
            "知答科技 内部资料",
            f"型号 XJ-{2048 + n} 的说明在此。",
            f"价格为 {n}00 元整。",
            "敬请参阅。",
            f"第 {n + 1} 页 共 6 页",
        ]
        for n in range(6)
    ]
    found = texts(read(made_files.pdf(tmp_path / "a.pdf", pages), "a.pdf"))
    assert not [t for t in found if "内部资料" in t or "共 6 页" in t]
    for n in range(6):
        assert any(f"XJ-{2048 + n}" in t for t in found)
        assert any(f"价格为 {n}00 元" in t for t in found)


def test_header_of_two_pages_goes(tmp_path: Path) -> None:
    """The same text at the same height, and no page is cut in two by it."""
    pages = [["合同编号 XH-0306", "第一条 甲方按期交货。", "其余不变。"], ["合同编号 XH-0306", "第二条 乙方按期付款。"]]
    assert texts(read(made_files.pdf(tmp_path / "a.pdf", pages), "a.pdf")) == [
        "第一条 甲方按期交货。",
        "其余不变。",
        "第二条 乙方按期付款。",
    ]


def test_pages_of_one_counting_line_keep_it(tmp_path: Path) -> None:
    """A page's only text is no footer."""
    pages = [[f"第 {n} 批货物的验收单。"] for n in range(1, 6)]
    assert texts(read(made_files.pdf(tmp_path / "a.pdf", pages), "a.pdf")) == [lines[0] for lines in pages]


def test_broken_lines_join_into_paragraphs(tmp_path: Path) -> None:
    """Without a space in Chinese; a clause begins a paragraph, a page's end does not end one."""
    full = "员工连续工作满一年的，享受带薪年休假，其天数按照累计工作的年限"
    page = [f"第一条 {full[:-4]}", full, "计算。", f"第二条 {full[:-4]}", full]
    path = made_files.pdf(tmp_path / "a.pdf", [page, [full, "计算。"]])
    reading = read(path, "a.pdf")
    assert texts(reading) == [f"第一条 {full[:-4]}{full}计算。", f"第二条 {full[:-4]}{full}{full}计算。"]
    assert [b.at.page for b in reading.blocks] == [1, 1]


def test_columns_are_a_table(tmp_path: Path) -> None:
    """Lines with cells below cells are spoken with their header; key and value stand together."""
    path = made_files.pdf(
        tmp_path / "a.pdf",
        [["价格如下：", "产品\t单价\t库存", "XJ-2048\t1280 元\t12", "XJ-3000\t99 元\t7", "以上含税。"]],
    )
    assert texts(read(path, "a.pdf")) == [
        "价格如下：", "产品：XJ-2048；单价：1280 元；库存：12", "产品：XJ-3000；单价：99 元；库存：7", "以上含税。",
    ]  # fmt: skip
    path = made_files.pdf(tmp_path / "b.pdf", [["退货期限\t15天", "换货期限\t30天"]])
    assert texts(read(path, "b.pdf")) == ["退货期限：15天", "换货期限：30天"]


def _table_pdf(path: Path, rows: list[list[str]], widths: list[int], repeat: int = 0) -> Path:
    """A table as reports set it: long cells wrapped, over as many pages as it takes."""
    from reportlab.lib.styles import ParagraphStyle  # type: ignore[import-untyped]  # has no types
    from reportlab.platypus import Paragraph, SimpleDocTemplate, Table, TableStyle  # type: ignore[import-untyped]

    made_files.pdf(path, [["x"]])  # registers the font
    style = ParagraphStyle("cell", fontName=made_files.FONT, fontSize=10, leading=13, wordWrap="CJK")
    cells = [[Paragraph(text, style) for text in row] for row in rows]
    table = Table(cells, colWidths=widths, repeatRows=repeat)
    table.setStyle(TableStyle([("VALIGN", (0, 0), (-1, -1), "MIDDLE")]))
    SimpleDocTemplate(str(path)).build([table])
    return path


def test_wrapped_cells_are_whole(tmp_path: Path) -> None:
    """Lines of one cell belong together, whatever else stands beside them."""
    rows = [
        ["代码", "含义", "处理方法"],
        ["E101", "母线电压过低", "测量输入电压，低于 198 V 时加装稳压器，并检查电源线是否过长"],
        ["E102", "编码器电池的电压低", "更换电池"],
        ["E103", "过热", "清洁滤网，更换风扇 FN-8025，检查环境温度是否过高，必要时停机"],
    ]
    found = texts(read(_table_pdf(tmp_path / "a.pdf", rows, [60, 70, 160]), "a.pdf"))
    assert found == [f"代码：{code}；含义：{meaning}；处理方法：{remedy}" for code, meaning, remedy in rows[1:]]


@pytest.mark.parametrize("repeat", [0, 1])
def test_table_goes_on_over_the_page(tmp_path: Path, repeat: int) -> None:
    """Rows of the next page have the header of the first, repeated there or not, and their own page."""
    rows = [
        ["城市", "负责人", "备注"],
        *[[f"城市{n}号", f"甲乙{'丙丁戊己庚'[n % 5]}", "每周一例会"] for n in range(60)],
    ]
    reading = read(_table_pdf(tmp_path / "a.pdf", rows, [100, 100, 120], repeat), "a.pdf")
    assert texts(reading) == [f"城市：{a}；负责人：{b}；备注：{c}" for a, b, c in rows[1:]]
    assert {block.at.page for block in reading.blocks} == {1, 2}
