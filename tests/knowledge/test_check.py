"""An answer held against its passages."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.check import MARK, check
from tests.knowledge.made_hits import made_hit

LEAVE = made_hit(
    "第九条 年休假为15天，工作满1年的员工可以申请。年休假不得跨年使用。",
    "考勤管理办法（2025版）.docx",
    ("第三章 休假",),
)
PRICE = made_hit("产品：XJ-2048；单价：1,280元；保修期：24个月", "价格表.xlsx")
RETURNS = made_hit("退货期限为签收后7日内，运费由公司承担。设备不得外借。", "售后政策.md")
PASSAGES = [LEAVE, PRICE, RETURNS]

SUPPORTED = [
    ("年休假为15天。", "年休假为15天[1]。"),
    ("年休假为15天[1]。", "年休假为15天[1]。"),
    ("年休假为15天。[1]", "年休假为15天。[1]"),
    ("年休假为十五天[2]。", "年休假为十五天[1]。"),
    ("年休假为15天[7]。", "年休假为15天[1]。"),
    ("年休假为 15 天【1】。", "年休假为 15 天[1]。"),
    ("根据资料1，年休假为15天。", "根据资料1，年休假为15天[1]。"),
    ("XJ-2048的单价是1280元，保修期24个月。", "XJ-2048的单价是1280元，保修期24个月[2]。"),
    ("设备不得外借。", "设备不得外借[3]。"),
    ("设备不能外借。", "设备不能外借[3]。"),
    ("年休假15天，XJ-2048单价1280元，退货期限为7天。", "年休假15天，XJ-2048单价1280元，退货期限为7天[1][2][3]。"),
    ("年休假15天[1]，退货期限7日。", "年休假15天[1]，退货期限7日[3]。"),
    ("**年休假为15天。**退货期限7日。", "**年休假为15天[1]。**退货期限7日[3]。"),
    ("1. 年休假为15天\n2. 退货期限7日", "1. 年休假为15天[1]\n2. 退货期限7日[3]"),
    ("- 年休假：15天；\n- 退货期限：7日。", "- 年休假：15天[1]；\n- 退货期限：7日[3]。"),
    ("| 产品 | 单价 |\n|---|---|\n| XJ-2048 | 1280元 |", "| 产品 | 单价 |\n|---|---|\n| XJ-2048 | 1280元[2] |"),
    ("> 年休假为15天", "> 年休假为15天[1]"),
    ("以下是规定：\n年休假为15天。", "以下是规定：\n年休假为15天[1]。"),
    ("```\n年休假15天\n```", "```\n年休假15天\n```"),
    ("不可以。", "不可以[3]。"),
]


@pytest.mark.parametrize(("answer", "shown"), SUPPORTED)
def test_supported(answer: str, shown: str) -> None:
    """What a passage says stays as it is, with the right citations."""
    checked = check(answer, PASSAGES, "设备可以外借吗")
    assert checked.text == shown
    assert (checked.marked, checked.numbers_marked, checked.fallback) == (0, 0, False)
    assert checked.supported


UNSUPPORTED = [
    ("年休假为20天。", 1),
    ("年休假为15元。", 1),
    ("年休假为15天，另有3天路程假。", 1),
    ("年休假可以跨年使用。", 0),
    ("设备可以外借。", 0),
    ("运费由客户承担。", 0),
    ("公司每天提供免费午餐。", 0),
    ("XJ-2048的单价是15元。", 1),
    ("XJ-2048的单价为1,380元。", 1),
    ("XJ-3000的保修期是24个月。", 1),
    ("年休假自2024年3月1日起为15天。", 1),
    ("| XJ-2048 | 1380元 |", 1),
    ("```\n年休假16天\n```", 1),
    ("## 年休假30天", 1),
    ("可以。", 0),
    ("打折后便宜百分之三十。", 1),
    ("1. 年休假\n45. 天", 1),
]


@pytest.mark.parametrize(("answer", "unknown"), UNSUPPORTED)
def test_unsupported(answer: str, unknown: int) -> None:
    """What no passage says is marked; figures that none has are counted; the rest of the answer stays."""
    checked = check(f"退货期限为7日。\n\n{answer}", PASSAGES, "设备可以外借吗")
    assert checked.text.count(MARK) == 1
    assert checked.text.startswith("退货期限为7日[3]。\n\n")
    assert (checked.marked, checked.numbers_marked > 0) == (1, unknown > 0)
    assert not checked.fallback


def test_number_of_the_question_alone_is_marked() -> None:
    """A figure that only the question has is no fact."""
    checked = check("年休假为15天。工作满30年的员工可以申请年休假。", PASSAGES, "工作满30年的员工有几天年休假")
    assert checked.text == f"年休假为15天[1]。工作满30年的员工可以申请年休假。{MARK}"


def test_mark_survives_markdown() -> None:
    """In a table the mark stands inside the cell; behind a code block on a line of its own."""
    row = check("年休假为15天。\n| XJ-2048 | 1380元 |", PASSAGES, "")
    assert row.text.endswith(f"| XJ-2048 | 1380元{MARK} |")
    code = check("年休假为15天。\n```\n12345\n```\n", PASSAGES, "")
    assert code.text.endswith(f"```\n12345\n```\n{MARK}\n")


@pytest.mark.parametrize(
    "answer",
    [
        "抱歉，资料中没有提到年休假。",
        "根据提供的资料，无法回答这个问题。",
        "我不知道。",
        "资料中未找到相关内容。",
        "",
        "好的。",
        "年休假为99天。",
        "Sorry, I cannot answer that.",
    ],
)
def test_fallback(answer: str) -> None:
    """A refusal, an empty answer, and one without a sentence that holds give way to the best passage verbatim."""
    checked = check(answer, PASSAGES, "年休假有几天")
    assert checked.fallback
    assert LEAVE.passage.text in checked.text
    assert [citation.number for citation in checked.citations] == [1]
    assert "15天" in LEAVE.passage.text[slice(*checked.citations[0].spans[0])]


@pytest.mark.parametrize("answer", ["抱歉，资料中没有提到年休假。", "根据资料，无法回答。"])
def test_refusal_is_told_from_nonsense(answer: str) -> None:
    """A refusal counts as one, and is not marked."""
    assert check(answer, PASSAGES, "").refused
    assert check(answer, PASSAGES, "").marked == 0
    assert not check("年休假为99天。", PASSAGES, "").refused


def test_partial_refusal_stays() -> None:
    """An answer that holds in part, and says what it lacks, is shown as it is."""
    checked = check("年休假为15天。资料中没有提到病假。", PASSAGES, "年休假和病假")
    assert checked.text == "年休假为15天[1]。资料中没有提到病假。"
    assert not checked.refused


def test_citation_opens_the_sentence() -> None:
    """Three facts of three files: each number opens the sentence that says it."""
    checked = check("年休假为15天。XJ-2048的保修期为24个月。设备不得外借。", PASSAGES, "")
    said = {c.number: [c.hit.passage.text[start:end] for start, end in c.spans] for c in checked.citations}
    assert said[1] == ["第九条 年休假为15天，工作满1年的员工可以申请。"]
    assert any("24个月" in part for part in said[2])
    assert said[3] == ["设备不得外借。"]
    assert all(c.hit is PASSAGES[c.number - 1] for c in checked.citations)


@pytest.mark.parametrize("answer", ["见3.5节", "第1.2条", "详见 https://a.example/x?y=1!z=2.html。", "价格是 3.5 元。"])
def test_sentences_are_not_cut_inside(answer: str) -> None:
    """Decimal points, clause numbers and addresses do not end a sentence: there is one mark, at the end."""
    checked = check(f"年休假为15天。{answer}", PASSAGES, "")
    assert checked.text.count(MARK) == 1
    assert checked.text.removesuffix(MARK).endswith(answer)


def test_what_is_copied_from_the_prompt_goes() -> None:
    """A passage's number before its text, and its file's name behind it: the right number stands after the sentence."""
    name = PASSAGES[0].file.name.rpartition(".")[0]
    checked = check(f"[3] 年休假为15天。（{name}）", PASSAGES, "年休假有几天")
    assert checked.text == "年休假为15天[1]。"


def test_the_question_said_again_is_no_answer() -> None:
    """A small model may repeat what it was asked: the passage is shown instead."""
    for answer in ("XJ-2048的保修期", "XJ-2048的保修期[2]。"):
        assert check(answer, PASSAGES, "XJ-2048的保修期是多久").fallback
    assert "24个月" in check("XJ-2048的保修期为24个月。", PASSAGES, "XJ-2048的保修期是多久").text


def test_one_citation_for_clauses_of_one_passage() -> None:
    """Neighbouring clauses that rest on the same passage carry it once, behind the last."""
    checked = check("年休假为15天；工作满1年的员工可以申请。", PASSAGES, "年休假")
    assert checked.text == "年休假为15天；工作满1年的员工可以申请[1]。"


@pytest.mark.parametrize(
    ("claim", "is_backed"), [("最多结转5天", True), ("结转不超过5天", True), ("可以超过5天", False)]
)
def test_a_limit_is_no_negation(claim: str, is_backed: bool) -> None:
    """不得超过5天 says 最多5天, and not 可以超过5天."""
    passage = made_hit("每人结转不得超过5天。", "休假.docx")
    assert bool(check(f"{claim}。", [passage], "结转").supported) is is_backed


def test_without_passages() -> None:
    """Nothing given, nothing backed."""
    checked = check("年休假为15天。", [], "")
    assert checked.text == f"年休假为15天。{MARK}"
    assert not checked.fallback


PIECES = st.sampled_from(
    ["年休假", "为15天", "15天", "16天", "1280元", "XJ-2048", "保修期24个月", "退货期限", "7日", "不得外借", "可以", "抱歉", "无法回答", "[1]", "[2]", "[3][1]", "[9]", "【2】",
     "[1, 3]", "。", "，", "；", "！", "\n", "\n\n", "- ", "1. ", "2. ", "15. ", "**", "`", "```\n", "| ", " |", "|---|", "## ", "> ", " ", ".", "![", "](", "https://a.b/c?d=1",
     "设备", "运费由公司承担", "第九条", "2025年3月1日", "50%", "：", "（1）", "一、", "[", "]", MARK, "1", "~", "e.g. "]
)  # fmt: skip
ANSWERS = st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=60)


def bare(text: str) -> str:
    """Without marks, citations and space."""
    text = text.replace(f"\n{MARK}", "").replace(MARK, "")
    return re.sub(r"[\[［【]\s*\d{1,2}(?:\s*[,，、]\s*\d{1,2})*\s*[\]］】](?!\()|\s", "", text)


PROSE = st.lists(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(
            ["年休假为15天", "年休假为16天", "退货期限为7日", "设备不得外借", "运费由公司承担", "今天天气很好"]
        ),
        st.sampled_from(["", "[1]", "[2]", "[3][1]", "[9]"]),
        st.sampled_from(["。", "；", "！"]),
    ),
    max_size=6,
).map("".join)


@settings(max_examples=500, deadline=None)
@given(ANSWERS, st.sampled_from(["", "设备可以外借吗", "年休假有几天"]))
def test_nothing_is_lost(answer: str, question: str) -> None:
    """The text stays but for marks and citations, and every citation has its passage."""
    checked = check(answer, PASSAGES, question)
    assert all(1 <= c.number <= len(PASSAGES) and c.spans for c in checked.citations)
    assert all(0 <= start < end <= len(c.hit.passage.text) for c in checked.citations for start, end in c.spans)
    if checked.fallback:
        return
    assert bare(checked.text) == bare(answer)
    assert checked.text.count(MARK) == checked.marked


@given(PROSE)
def test_nothing_changes_twice(answer: str) -> None:
    """A second check of prose finds it right: marks and citations stand where it would set them."""
    checked = check(answer, PASSAGES, "")
    if not checked.fallback:
        assert check(checked.text, PASSAGES, "").text == checked.text


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["年休假为15天。", "退货期限为7日。\n\n", "- 设备不得外借\n- ", "| XJ-2048 | 1280元 |\n"]),
    ANSWERS,
    st.integers(31, 10**7).filter(lambda number: number not in {1280, 2048}),
    st.sampled_from(["天", "元", "%", "", " 个工作日", "年", "人", "万元", "号"]),
    ANSWERS,
)
def test_a_number_of_no_passage_is_always_marked(start: str, before: str, number: int, unit: str, after: str) -> None:
    """Wherever in an answer it stands."""
    answer = f"{start}{before}，共{number}{unit}，{after}"
    checked = check(answer, PASSAGES, f"是{number}{unit}吗")
    assert checked.fallback or (checked.numbers_marked and MARK in checked.text)
