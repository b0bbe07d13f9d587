"""Tables spoken row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.base import Locator
from knowledge.readers.tables import Cell, Line, Spoken, speak


def lines(*rows: str) -> list[Line]:
    """`产品|单价` a row."""
    return [Line([Cell(text) for text in row.split("|")], number) for number, row in enumerate(rows, start=1)]


def said(*rows: str) -> list[str]:
    """The table's blocks."""
    return [block.text for block in speak(lines(*rows), Locator()).blocks]


@pytest.mark.parametrize(
    ("rows", "spoken"),
    [
        (("退货期限|15天",), ["退货期限：15天"]),
        (("退货期限|15天", "换货期限|30天"), ["退货期限：15天", "换货期限：30天"]),
        (("联系人|张三", "电话|010-88886666"), ["联系人：张三", "电话：010-88886666"]),
        (("产品|单价", "XJ-2048|1280 元"), ["产品：XJ-2048；单价：1280 元"]),
        (("城市|补贴", "北京|500", "上海|450"), ["城市：北京；补贴：500", "城市：上海；补贴：450"]),
        (("假别|天数|工资", "婚假|10|全额"), ["假别：婚假；天数：10；工资：全额"]),
        (("姓名|张三|部门|研发部",), ["姓名：张三；部门：研发部"]),
        (("姓名|张三|部门|研发部", "电话|8001|邮箱|a@b.c"), ["姓名：张三；部门：研发部", "电话：8001；邮箱：a@b.c"]),
        (("1|2|3", "4|5|6"), ["1；2；3", "4；5；6"]),
        (("产品|单价|备注", "XJ-1|9|"), ["产品；单价；备注", "产品：XJ-1；单价：9"]),
        (("只有一格",), ["只有一格"]),
        (("产品|单价|库存", "XJ-1|9|1", "以上含税||"), ["产品：XJ-1；单价：9；库存：1", "以上含税"]),
    ],
)
def test_rows_are_spoken(rows: tuple[str, ...], spoken: list[str]) -> None:
    """With the header where there is one; as key and value, or side by side, where there is none."""
    assert said(*rows) == spoken


def test_title_is_a_heading_of_its_rows() -> None:
    """The row above the header names the table, and each row carries the name and its own number."""
    title, row = speak(lines("2026 年价格表||", "产品|单价|库存", "XJ-1|9|1"), Locator(sheet="价格")).blocks
    assert (title.text, title.is_heading, title.at.row) == ("2026 年价格表", True, 1)
    assert row.at == Locator(None, ("2026 年价格表",), "价格", 3)


def test_merged_cells_are_said_once_a_row_and_in_each() -> None:
    """Across columns once; down rows in each, since a row is found on its own."""
    wide, tall = Cell("合计"), Cell("年假")
    rows = [
        Line([Cell("类别"), Cell("条件"), Cell("天数")]),
        Line([tall, Cell("满一年"), Cell("5")]),
        Line([tall, Cell("满十年"), Cell("10")]),
        Line([wide, wide, Cell("15")]),
    ]
    texts = [block.text for block in speak(rows, Locator()).blocks]
    assert texts == ["类别：年假；条件：满一年；天数：5", "类别：年假；条件：满十年；天数：10", "类别：合计；天数：15"]


def test_header_of_two_rows_is_joined() -> None:
    """A header cell across two columns stands before the names below it."""
    price = Cell("单价")
    rows = [
        Line([Cell("产品"), price, price]),
        Line([Cell(""), Cell("含税"), Cell("不含税")]),
        Line([Cell("XJ-1"), Cell("113"), Cell("100")]),
    ]
    assert [b.text for b in speak(rows, Locator()).blocks] == ["产品：XJ-1；单价·含税：113；单价·不含税：100"]


def test_header_goes_on_below_a_gap() -> None:
    """Rows after an empty one keep the header and the title, unless they surely have a header of their own."""
    first = speak(lines("价格表||", "产品|单价|库存", "XJ-1|9|1"), Locator())
    second = speak(lines("甲款|贵|多", "乙款|贱|少"), Locator(), first)
    assert [b.text for b in second.blocks] == ["产品：甲款；单价：贵；库存：多", "产品：乙款；单价：贱；库存：少"]
    assert second.blocks[0].at.headings == ("价格表",)
    third = speak(lines("部门|电话", "研发部|8001"), Locator(), second)
    assert [b.text for b in third.blocks] == ["部门：研发部；电话：8001"]


CELLS = st.text("甲乙丙1290年月|：名称价格 ", max_size=6).map(lambda text: Cell(text.strip()))


@given(
    st.lists(st.lists(CELLS, max_size=5), max_size=6), st.lists(st.booleans(), min_size=6, max_size=6), st.booleans()
)
def test_no_cell_is_lost(grid: list[list[Cell]], marks: list[bool], goes_on: bool) -> None:
    """Whatever the heuristics take for a header or a title, each cell's text is in a block."""
    last = speak(lines("产品|单价|库存", "XJ-1|9|1"), Locator()) if goes_on else Spoken()
    marked = iter(range(0x5E00, 0x5F00))
    grid = [[Cell(cell.text and cell.text + chr(next(marked))) for cell in row] for row in grid]
    rows = [Line(row, is_marked=mark) for row, mark in zip(grid, marks, strict=False)]
    blocks = speak(rows, Locator(), last).blocks
    everything = "".join(block.text for block in blocks)
    assert all(cell.text[-1:] in everything for row in rows for cell in row.cells)
    assert all(
        "".join(cell.text.split()) in "".join(everything.split())
        for row in rows
        for cell in row.cells
        if "：" not in cell.text
    )
