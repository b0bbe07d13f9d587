"""Figures in one notation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.figures import facts, figures, is_backed, level

SAME = [
    ("15天", "15 天"),
    ("15天", "十五天"),
    ("15天", "15日"),
    ("15天", "１５天"),
    ("1,280元", "1280 元"),
    ("¥1,280", "1280元"),
    ("1.5万元", "15000元"),
    ("两万元", "20000 元"),
    ("一百二十元", "120块"),
    ("2025年3月1日", "2025-03-01"),
    ("2025年3月1日", "2025/3/1"),
    ("2025年3月1日", "二〇二五年三月一日"),
    ("3月1日", "三月一日"),
    ("50%", "百分之五十"),
    ("2.5%", "百分之二点五"),
    ("下午2点", "14:00"),
    ("九点半", "9:30"),
    ("上午九点", "9:00"),
    ("第十二条", "第12条"),
    ("xj-2048", "XJ-2048"),
    ("5kg", "5公斤"),
    ("5千克", "5 kg"),
    ("3个工作日", "三个工作日"),
    ("半年", "0.5年"),
]
OTHER = [
    ("15天", "15元"),
    ("15天", "16天"),
    ("15天", "15个工作日"),
    ("2025年3月1日", "2025年3月2日"),
    ("2025年3月1日", "2024年3月1日"),
    ("50%", "5%"),
    ("下午2点", "2:00"),
    ("XJ-2048", "XJ-2049"),
    ("第十二条", "第二条"),
    ("3个月", "3天"),
    ("1.5万元", "1.5元"),
    ("400-820-2048", "400-820-2049"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same_figure(one: str, other: str) -> None:
    """Two ways of writing a figure back each other."""
    for written, source in ((one, other), (other, one)):
        assert figures(written), written
        assert all(is_backed(figure, facts(source)) for figure in figures(written))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_other_figure(one: str, other: str) -> None:
    """Another value or another unit does not back a figure."""
    assert not all(is_backed(figure, facts(other)) for figure in figures(one))


@pytest.mark.parametrize(
    "text", ["一般情况", "万一", "一个部门", "统一办理", "第一步", "十分满意", "一次性", "一旦", "三方协议"]
)
def test_no_figure(text: str) -> None:
    """Words that happen to hold a numeral are no figures."""
    assert figures(text) == []


def test_range_shares_its_unit() -> None:
    """In 3-5天 both are days."""
    assert [figure.facts for figure in figures("3-5天")] == [(("3", "天"),), (("5", "天"),)]
    assert not all(is_backed(figure, facts("3元，5元")) for figure in figures("3~5天"))


def test_date_backs_its_parts() -> None:
    """A year alone, or a month alone, is backed by a whole date; a whole date is not backed by its year."""
    whole = facts("2025年3月1日起施行")
    for part in ("2025年", "3月", "3月1日"):
        assert all(is_backed(figure, whole) for figure in figures(part)), part
    assert not all(is_backed(figure, facts("2025年")) for figure in figures("2025年3月1日"))


@given(
    st.text(st.sampled_from("0123456789.,年月日元天%一二三十百千万亿点半第条-/: 　XJ０～ab￥"), max_size=40)
    | st.text(max_size=40)
)
def test_any_text(text: str) -> None:
    """Offsets lie within the text and in order; every figure backs itself; nothing raises."""
    assert len(level(text)) == len(text)
    found = figures(text)
    places = [place for figure in found for place in (figure.start, figure.end)]
    assert places == sorted(places)
    assert all(0 <= place <= len(text) for place in places)
    assert all(is_backed(figure, facts(text)) for figure in found)


@given(st.integers(0, 10**9))
def test_every_arabic_number_is_seen(number: int) -> None:
    """No plain number goes by unseen."""
    assert [fact for figure in figures(f"共计{number}份") for fact in figure.facts]
