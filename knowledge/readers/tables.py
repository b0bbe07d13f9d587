"""A table's rows, spoken with their header: `产品：XJ-2048；单价：1280 元`. No cell is ever lost: where the header is
not sure, cells stand side by side."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge.base import Block, Locator
from knowledge.cleaning import clean
from knowledge.readers.limits import HEADING


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One cell; a merged one is the same object at each place that it covers."""

    text: str
    is_bold: bool = False


Row = Sequence[Cell]
EMPTY = Cell("")
_FIGURE = re.compile(
    r"[^\w]*(?:USD|CNY|RMB|HKD|EUR)?[¥￥$€]?[-+]?\d[\d,.]*\s*(?:%|‰|[万亿千百]?[元天日个月年台件次小时分钟秒米岁人]{0,3}|[a-zA-Z/]{0,4})[^\w]*"
)
_DATE = re.compile(r"\d{4}[-/.年]\d{1,2}(?:[-/.月]\d{1,2}日?)?(?: \d{1,2}:\d{2}(?::\d{2})?)?")
_TITLE_WORD = re.compile(
    r"(?:名称|项目|内容|说明|型号|单价|价格|金额|费用|数量|库存|编号|序号|代码|日期|时间|期限|天数|标准|类别|类型|分类|部门|岗位|职务|姓名|"
    r"电话|手机|邮箱|地址|备注|描述|规格|参数|单位|要求|条件|范围|比例|额度|上限|问题|答案|问|答|产品|品名|级别|等级|状态|值|方式|结果|原因|"
    r"措施|处理|处置|做法|方法|办法|对策|现象|住址|周期|版本|城市|地区|负责人|联系人|审批人|审核人|经办人|责任人|联系方式|name|item|price|type|value|description|date|question|answer|model|note|unit|quantity|code)"
    r"(?: ?[（(][^）)]*[）)])?",
    re.IGNORECASE,
)


def is_figure(text: str) -> bool:
    """Whether a cell is a number, an amount or a date: what a header's cell is not."""
    return bool(_FIGURE.fullmatch(text) or _DATE.fullmatch(text))


def _is_title_word(text: str) -> bool:
    return len(text) <= 14 and not any(c.isdigit() for c in text) and _TITLE_WORD.search(text[-12:]) is not None


@dataclass(frozen=True, slots=True)
class Line:
    """A row with its number in the file, if it has one."""

    cells: Row
    number: int | None = None
    is_marked: bool = False
    """The file says that it is a header (th, w:tblHeader)."""

    def distinct(self) -> list[Cell]:
        """The cells with text, each merged one once."""
        return [c for i, c in enumerate(self.cells) if c.text and (i == 0 or c is not self.cells[i - 1])]


@dataclass(frozen=True, slots=True)
class Spoken:
    """The blocks of a table; its header and title go on below a gap."""

    blocks: Sequence[Block] = ()
    header: Sequence[str] | None = None
    titles: tuple[str, ...] = ()


def speak(lines: Sequence[Line], at: Locator, last: Spoken = Spoken()) -> Spoken:
    """The table as blocks. A title above the header joins the headings of its rows; `last` is the part above a gap."""
    width = max((len(line.cells) for line in lines), default=0)
    rows = [Line(tidy(line.cells, width), line.number, line.is_marked) for line in lines]
    rows = [row for row in rows if row.distinct()]
    blocks, titles = list[Block](), tuple[str, ...]()
    for _ in range(_titles(rows)):
        title = rows.pop(0)
        text = title.distinct()[0].text
        blocks.append(Block(text, _placed(_below(at, titles), title), is_heading=True))
        titles = (*titles, text[:HEADING])
    if rows and last.header and [c.text for c in rows[0].cells] == list(last.header):  # repeated over the page
        del rows[0]
    titles = titles or last.titles
    place, header, depth = _below(at, titles), last.header, header_depth(rows)
    if header is not None and depth and not _is_sure(rows[0]):
        depth = 0
    if depth:
        header = _header(rows[:depth], width)
    if header is None or len(header) < width:
        return Spoken([*blocks, *_headless(rows, place)], header, titles)
    body = rows[depth:]
    spoken = [Block(_with_header(header, row), _placed(place, row), is_row=True) for row in body]
    if depth and not _covers(header, body):
        spoken.insert(0, Block("；".join(filter(None, header)), _placed(place, rows[0]), is_row=True))
    return Spoken([*blocks, *spoken], header, titles)


def _below(at: Locator, titles: tuple[str, ...]) -> Locator:
    return Locator(at.page, (*at.headings, *titles), at.sheet, at.row)


def tidy(cells: Row, width: int) -> Row:
    """Cells cleaned onto one line each and filled up to the width; what is one object stays one."""
    known: dict[int, Cell] = {}
    for cell in cells:
        if id(cell) not in known:
            known[id(cell)] = Cell(" ".join(clean(cell.text).split("\n")).strip(), cell.is_bold)
    return [*(known[id(cell)] for cell in cells), *[EMPTY] * (width - len(cells))]


def _placed(at: Locator, row: Line) -> Locator:
    return Locator(at.page, at.headings, at.sheet, row.number if row.number is not None else at.row)


def _titles(rows: Sequence[Line]) -> int:
    """How many rows at the top are titles: of one text, above one of several."""
    count = next((i for i, row in enumerate(rows) if not _is_title(row)), 0)
    return count if count and len(rows[count].distinct()) > 1 else 0


def _is_title(row: Line) -> bool:
    """One text: across all columns, or in the first with nothing beside it."""
    distinct = row.distinct()
    across = len(row.cells) > 1 and all(c is row.cells[0] for c in row.cells)
    alone = len(row.cells) > 2 and bool(row.cells[0].text)
    return len(distinct) == 1 and (across or alone) and len(distinct[0].text) <= 60


def header_depth(rows: Sequence[Line]) -> int:
    """How many rows are the header: 0, 1, or 2 where the first has cells merged across some columns."""
    if len(rows) < 2 or len(rows[0].cells) < 2:
        return 0
    first, second = rows[0], rows[1]
    if not (first.is_marked or _looks_like_header(rows)):
        return 0
    if len(rows) > 2 and _has_span(first) and not any(is_figure(c.text) for c in second.distinct()):
        return 2
    return 1


def _has_span(row: Line) -> bool:
    pairs = list(zip(row.cells, row.cells[1:], strict=False))
    return any(a is b and a.text for a, b in pairs) and not all(a is b for a, b in pairs)


def _is_sure(row: Line) -> bool:
    cells = row.distinct()
    return row.is_marked or all(c.is_bold for c in cells) or all(_is_title_word(c.text) for c in cells)


def _looks_like_header(rows: Sequence[Line]) -> bool:
    cells = rows[0].distinct()
    texts = [c.text for c in cells]
    if len(cells) < 2 or any(is_figure(t) or len(t) > 30 or t.endswith(("：", ":", "。")) for t in texts):
        return False
    if all(c.is_bold for c in cells) and not all(c.is_bold for row in rows[1:] for c in row.distinct()):
        return True
    if len(rows[0].cells) == 2:
        return _is_pair_header(rows)
    if _is_form(rows):
        return False
    return len(set(texts)) == len(texts) and 2 * len(texts) > len(rows[0].cells)


def _is_pair_header(rows: Sequence[Line]) -> bool:
    """Of two columns, `产品 | 单价` is a header and `退货期限 | 15天` or `联系人 | 张三` is not."""
    key, value = (c.text for c in rows[0].cells)
    if any(c.isdigit() for c in key + value):
        return False
    values = [row.cells[1].text for row in rows[1:]]
    keys = [row.cells[0].text for row in rows[1:]]
    if _is_title_word(value) or (len(values) >= 2 and all(is_figure(v) for v in values)):
        return True
    is_shortest = (
        max(len(key), len(value)) <= 4
        and all(len(key) < len(k) for k in keys)
        and all(len(value) < len(v) for v in values)
    )
    return len(values) >= 2 and is_shortest and not any(_is_title_word(k) for k in keys)


def _is_form(rows: Sequence[Line]) -> bool:
    """`姓名 | 张三 | 工号 | 0012`: labels and values in turn."""
    width = len(rows[0].cells)
    if width % 2 or width < 4:
        return False
    labels = [row.cells[i].text for row in rows for i in range(0, width, 2)]
    values = [rows[0].cells[i].text for i in range(1, width, 2)]
    short = all(len(t) <= 8 and not any(c.isdigit() for c in t) for t in labels)
    return short and not all(_is_title_word(v) for v in values) and all(_is_title_word(t) for t in labels if t)


def _header(rows: Sequence[Line], width: int) -> list[str]:
    names = []
    for column in range(width):
        parts: list[str] = []
        for row in rows:
            text = row.cells[column].text
            if text and text not in parts:
                parts.append(text)
        names.append("·".join(parts).rstrip("：:"))
    return names


def _with_header(header: Sequence[str], row: Line) -> str:
    """A row of one text is no record: a note, or a name for the rows below it."""
    if len(row.distinct()) == 1:
        return row.distinct()[0].text
    said: list[str] = []
    for i, cell in enumerate(row.cells):
        if not cell.text or (i > 0 and cell is row.cells[i - 1]):
            continue
        name = header[i] if i < len(header) else ""
        said.append(f"{name}：{cell.text}" if name and name != cell.text else cell.text)
    return "；".join(said)


def _covers(header: Sequence[str], body: Sequence[Line]) -> bool:
    """Whether each of the header's names is spoken with some row."""
    records = [row.cells for row in body if len(row.distinct()) > 1]
    return all(
        not name or any(cells[i].text and (i == 0 or cells[i] is not cells[i - 1]) for cells in records)
        for i, name in enumerate(header)
    )


def _headless(rows: Sequence[Line], at: Locator) -> Iterator[Block]:
    form = bool(rows) and _is_form(rows)
    for row in rows:
        texts = [c.text for c in row.distinct()]
        if form:
            text = "；".join(_pair(row.cells[i].text, row.cells[i + 1].text) for i in range(0, len(row.cells), 2))
        elif len(texts) == 2:
            text = _pair(*texts)
        else:
            text = "；".join(texts)
        yield Block(text.strip("；"), _placed(at, row), is_row=True)


def _pair(key: str, value: str) -> str:
    return f"{key.rstrip('：:')}：{value}" if key and value else key or value
