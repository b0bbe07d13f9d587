"""The gate, and what it goes by."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.base import Hit
from knowledge.relevance import FEATURES, GATE, decide, features, rate
from tests.knowledge.made_hits import made_hit


def feature(name: str, question: str, *hits: Hit) -> list[float]:
    """One feature of each hit."""
    return [row[FEATURES.index(name)] for row in features([question], hits, 0.8)]


def test_gate_has_a_number_for_each_feature() -> None:
    """gate.json belongs to these features, with vectors and without; without them meaning weighs nothing."""
    told = json.loads(GATE.read_text(encoding="utf-8"))
    assert {*told} >= {"meaning", "words"}
    for case in ("meaning", "words"):
        assert list(told[case]["weights"]) == list(FEATURES)
        assert 0 < told[case]["threshold"] < 1
    assert not any(told["words"]["weights"][name] for name in ("cosine", "margin", "gap"))


def test_words_of_the_question() -> None:
    """Covered in the passage, its headings or its title; question words do not count."""
    assert feature("coverage", "年假有几天？", made_hit("年假15天"), made_hit("午餐12元", "食堂.txt")) == [1.0, 0.0]
    assert feature("coverage", "年假有几天", made_hit("每年15天", headings=("年假",))) == [1.0]
    assert feature("body", "年假有几天", made_hit("每次15天", headings=("年假",))) == [0.0]


def test_code_that_no_file_has() -> None:
    """A code, a clause number or a year that is nowhere in a file speaks against it, however the code is written."""
    price = made_hit("型号：XJ-2048；单价：1280元", "价格表2025.xlsx")
    assert feature("missing", "xj2048多少钱", price) == [0]
    assert feature("missing", "XJ-4096多少钱", price) == [1]
    assert feature("missing", "2025年XJ-2048多少钱", price) == [0]
    assert feature("missing", "2023年XJ-2048多少钱", price) == [1]
    assert feature("missing", "第十二条讲什么", made_hit("第12条 调休"), made_hit("第十三条", "另.docx")) == [0, 1]


def test_year_asked_for() -> None:
    """The title's year decides; without a year asked for, the later of two versions is preferred."""
    old, new = made_hit("年假5天", "考勤（2024版）.docx"), made_hit("年假6天", "考勤（2025版）.docx")
    assert feature("year", "2024年的年假几天", old, new) == [1.0, -1.0]
    assert feature("year", "年假几天", old, new) == [0.0, 0.0]
    assert feature("outdated", "年假几天", old, new) == [1.0, 0.0]
    assert feature("outdated", "2024年的年假几天", old, new) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("question", "passage", "expected"),
    [("年假有几天", "15天", 1), ("年假有几天", "由经理批准", -1), ("单价多少钱", "1280元", 1), ("单价多少钱", "蓝色", -1), ("售后电话多少", "400-820-2048", 1), ("找谁批准", "部门经理", 1), ("食堂在哪", "一号楼", 1), ("比例是多少", "30%", 1), ("几点上班", "9:00", 1), ("怎么办理", "填表", 0)],
)  # fmt: skip
def test_type_of_answer(question: str, passage: str, expected: float) -> None:
    """A passage with an amount, a date, a person where one is asked for."""
    assert feature("type", question, made_hit(passage)) == [expected]


@pytest.mark.parametrize("cosine", [None, 0.86])
def test_right_year_first(cosine: float | None) -> None:
    """2024 asked: 2024's passage is first; no year asked: the later one."""
    old = made_hit("工作满1年的，年休假5天。", "考勤（2024版）.docx", cosine=cosine)
    new = made_hit("工作满1年的，年休假6天。", "考勤（2025版）.docx", cosine=cosine)
    for question, first in (("2024年年休假几天", old), ("2025版年休假几天", new), ("年休假几天", new)):
        for hits in ([old, new], [new, old]):
            assert rate([question], hits, 0.8)[0].passage == first.passage


@pytest.mark.parametrize(("has_vectors", "cosine"), [(True, 0.9), (False, None)])
def test_plain_cases(has_vectors: bool, cosine: float | None) -> None:
    """What stands there is let through; what nothing speaks of is not, and neither is an unknown code."""
    far = None if cosine is None else 0.83
    others = [
        made_hit(text, f"{text}.docx", bm25=0.0, cosine=far) for text in ("食堂早餐7点", "班车路线", "工牌补办30元")
    ]
    right = made_hit("XJ-2048的保修期为24个月。", "售后政策.docx", bm25=12.0, cosine=cosine)
    known = ["XJ-2048的保修期多久"]
    rated = rate(known, [*others, right], 0.8 if has_vectors else None)
    assert rated[0].passage == right.passage
    assert decide(known, rated).sure
    for unknown in ("公司附近有什么好吃的烧烤", "帮我写一首关于春天的诗"):
        flat = [made_hit(hit.passage.text, hit.file.name, bm25=0.0, cosine=far) for hit in (*others, right)]
        assert not decide([unknown], rate([unknown], flat, 0.8 if has_vectors else None)).sure


def test_nothing_found() -> None:
    """No hits, no answer."""
    assert rate(["年假"], [], None) == []
    assert not decide(["年假"], []).sure
    assert decide(["年假"], []).relevance == 0


TEXTS = st.text(max_size=40) | st.text(st.sampled_from("年假XJ-2048第十二条2025年，。几天多少 \n"), max_size=40)


@given(TEXTS, st.lists(st.tuples(TEXTS, TEXTS, st.floats(0, 50), st.none() | st.floats(-1, 1)), max_size=6))
def test_any_text(question: str, found: list[tuple[str, str, float, float | None]]) -> None:
    """Whatever is asked and found: every hit comes back once, with a probability, in their order."""
    hits = [made_hit(text, name, bm25=bm25, cosine=cosine) for text, name, bm25, cosine in found]
    rated = rate([question], hits, 0.8)
    assert sorted(map(repr, (hit.passage for hit in rated))) == sorted(map(repr, (hit.passage for hit in hits)))
    assert all(0 <= hit.relevance <= 1 for hit in rated)
    assert [hit.relevance for hit in rated] == sorted((hit.relevance for hit in rated), reverse=True)
