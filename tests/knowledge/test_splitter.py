"""Passages out of blocks."""

from hypothesis import given
from hypothesis import strategies as st

from knowledge.base import Block, Locator, Passage, Reading
from knowledge.splitter import LIST_MOST, MOST, pieces, split


def texts(*blocks: Block) -> list[str]:
    """The passages' texts."""
    return [passage.text for passage in split(Reading(blocks), "手册")]


def block(text: str, *headings: str, page: int | None = None) -> Block:
    """A paragraph below headings."""
    return Block(text, Locator(page, headings))


def heading(text: str, *above: str) -> Block:
    """A heading below others."""
    return Block(text, Locator(headings=above), is_heading=True)


def test_sections_are_never_mixed() -> None:
    """Short texts under one heading join; under two they do not, and the headings go with them."""
    found = split(
        Reading(
            (
                heading("年假"),
                block("满一年五天。", "年假"),
                block("满十年十天。", "年假"),
                heading("病假"),
                block("凭病历。", "病假"),
            )
        ),
        "手册",
    )
    assert found == [
        Passage("满一年五天。\n满十年十天。", Locator(headings=("年假",))),
        Passage("凭病历。", Locator(headings=("病假",))),
    ]


def test_heading_without_text_is_a_passage() -> None:
    """Its words would be lost otherwise; one above texts is in their locators instead."""
    assert texts(heading("第一章"), heading("第二章"), block("正文。", "第二章")) == ["第一章", "正文。"]


def test_titles_heading_is_not_said_again() -> None:
    """A document that begins with its own title does not put it above each passage."""
    (found,) = split(Reading((heading("手册"), block("正文。", "手册", "总则"))), "手册")
    assert found.at.headings == ("总则",)


def test_list_stays_with_its_lead() -> None:
    """A lead-in and its items are one passage; where they are too long, the lead-in stands above each part."""
    lead, items = "有下列情形之一的，可以解除合同：", [f"（{n}）严重违反规章制度；" for n in "一二三"]
    before = block("甲" * 200 + "。", "第二条")
    assert texts(before, *(block(t, "第二条") for t in (lead, *items)))[1] == "\n".join([lead, *items])
    many = [f"（{n}）" + "严重违反规章制度。" * 6 for n in "一二三四五六七八九十"]
    parts = texts(*(block(t) for t in (lead, *many)))
    assert len(parts) > 1
    assert all(part.startswith(lead) and len(part) <= MOST for part in parts)


def test_question_stays_with_its_answer() -> None:
    """Each pair is a passage of its own."""
    assert texts(block("问：年假几天？"), block("答：五天。"), block("问：病假呢？"), block("答：凭病历。")) == [
        "问：年假几天？\n答：五天。",
        "问：病假呢？\n答：凭病历。",
    ]


def test_rows_stand_alone() -> None:
    """Two rows of a table are two passages."""
    rows = [Block(f"产品：XJ-{n}；单价：9", Locator(sheet="价格", row=n), is_row=True) for n in (2, 3)]
    assert split(Reading(tuple(rows)), "") == [Passage(r.text, r.at) for r in rows]


def test_passage_over_two_pages_has_the_first() -> None:
    """A citation opens where the passage begins."""
    (found,) = split(Reading((block("上一页。", page=3), block("下一页。", page=4))), "")
    assert found.at.page == 3


def test_long_text_is_cut_at_the_ends_of_sentences() -> None:
    """No sentence is cut that fits, and no code or number ever."""
    sentence = "型号 XJ-2048-B 的价格为 1,280.50 元，自 2026-03-01 起执行。"
    for piece in pieces(sentence * 30, MOST):
        assert len(piece) <= MOST
        assert piece.endswith("。")
        assert len(piece) > MOST // 4
    for piece in pieces("XJ-2048/1,280.50 " * 60, 100):
        assert set(piece.split()) == {"XJ-2048/1,280.50"}


TEXTS = st.text("年假退货。；，：\n 12.-ABXJ（一）问答", min_size=1, max_size=900)
PATHS = st.lists(st.sampled_from(["第一章", "第二条", "一、范围"]), max_size=2, unique=True).map(tuple)


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """Blocks in any order, pages going up."""
    blocks = []
    for page in range(1, draw(st.integers(1, 8))):
        at = Locator(page, draw(PATHS), None, None)
        blocks.append(Block(draw(TEXTS), at, draw(st.booleans()), draw(st.booleans())))
    return Reading(tuple(blocks))


@given(readings())
def test_nothing_is_lost_and_bounds_hold(reading: Reading) -> None:
    """Every character of the blocks is in a passage or in the headings above one; none is too long or out of its place."""
    passages = split(reading, "手册")
    assert all(0 < len(p.text) <= LIST_MOST for p in passages)
    said = iter("".join(p.text for p in passages))
    above = {name for p in passages for name in p.at.headings}
    for found in reading.blocks:
        if not (found.is_heading and " ".join(found.text.split()) in above):
            assert all(c in said for c in found.text if not c.isspace()), "in order: `in` takes from the iterator"
    places = {(b.at.page, b.at.headings) for b in reading.blocks}
    assert all((p.at.page, p.at.headings) in places for p in passages)
    pages = [p.at.page or 0 for p in passages]
    assert pages == sorted(pages)


@given(st.text("年假。，; 12.AB\n", max_size=2000), st.integers(40, 400))
def test_pieces_are_the_text(text: str, most: int) -> None:
    """In order, whole, and within bounds: only spaces at the cuts go."""
    cut = pieces(text, most)
    assert "".join("".join(cut).split()) == "".join(text.split())
    assert all(0 < len(piece) <= most for piece in cut)
