"""The figures of the knowledge bench, checked against counts made by hand."""

import pytest

from bench.knowledge.claims import claims, has_facts, numbers, unsupported
from bench.knowledge.metrics import Asked, Ranking, Refusing, percentiles_ms, rankings, refusing
from bench.knowledge.questions import ABSENT, Answer, Question
from knowledge.base import Hit, Locator, Passage, SourceFile
from knowledge.check import MARK

LEAVE = "第十四条 年休假天数：满1年不满10年的，每年6天。"
TRAVEL = "出差伙食补助为每人每天120元。"


def hit(text: str, name: str = "考勤.docx", headings: tuple[str, ...] = ()) -> Hit:
    """A passage found in a file of that name."""
    file = SourceFile(name, "", name, 1, 0, 1, "")
    return Hit(Passage(text, Locator(headings=headings)), file, None, 1.0, None)


def question(kind: str = "plain", quote: str = "每年6天", facts: tuple[str, ...] = ("6天",)) -> Question:
    """One whose answer stands in 考勤.docx, or nowhere."""
    answers = () if kind == ABSENT else (Answer("考勤.docx", quote),)
    return Question("1", kind, "年假几天", (), answers, facts)


def asked(of: Question, *hits: Hit, is_sure: bool = True) -> Asked:
    """It was searched, and this was found."""
    return Asked(of, (of.text,), hits, (hits or (hit("甲"),)) if is_sure else (), 0.01)


def test_a_quote_is_told_by_content() -> None:
    """Layout does not matter, gaps may hold anything, and the file and all parts have to be right."""
    assert Answer("a", "每年6天").stands_in("每年\n6 天")
    assert Answer("a", "XJ-2048…51528").stands_in("型号：XJ-2048；含税价：51,528.00")
    assert not Answer("a", "XJ-2048…51528").stands_in("型号：XJ-2048；含税价：88,705.00")
    assert question().rank_in([hit(LEAVE, "别的.docx"), hit(TRAVEL), hit(LEAVE)]) == 3
    assert question(quote="第二章…6天").rank_in([hit("每年6天", headings=("第二章 假期",))]) == 1
    assert question().rank_in([hit(TRAVEL)]) is None


def test_ranking() -> None:
    """Ranks 1, 2, 4 and none: a quarter at 1, half within 3, (1 + 1/2 + 1/4) / 4."""
    found = Ranking.of([1, 2, 4, None])
    assert (found.questions, found.hit1, found.hit3) == (4, 0.25, 0.5)
    assert found.mrr == pytest.approx(0.4375)


def test_rankings_leave_out_what_has_no_answer() -> None:
    """By kind, then the total; absent questions are the gate's."""
    found = rankings(
        [
            asked(question(), hit(LEAVE)),
            asked(question("code"), hit(TRAVEL), hit(LEAVE)),
            asked(question(ABSENT, facts=()), hit(LEAVE)),
        ]
    )
    assert list(found) == ["plain", "code", "total"]
    assert found["total"] == Ranking(2, 0.5, 1.0, 0.75)


def test_refusing() -> None:
    """Three to refuse, of which two were, and one refused in error: precision 2/3, recall 2/3, F1 2/3."""
    absent, present = question(ABSENT, facts=()), question()
    found = refusing(
        [
            asked(absent, is_sure=False),
            asked(absent, is_sure=False),
            asked(absent),
            asked(present, is_sure=False),
            asked(present),
        ]
    )
    assert found == Refusing(3, 3, 2)
    assert found.precision == found.recall == found.f1 == pytest.approx(2 / 3)


def test_refusing_nothing() -> None:
    """Nothing refused is precise, and recalls nothing."""
    found = Refusing.of([(True, False), (False, False)])
    assert (found.precision, found.recall, found.f1) == (1.0, 0.0, 0.0)
    assert Refusing.of([]).f1 == 1.0


def test_percentiles_are_milliseconds() -> None:
    """The median of 10, 20 and 30 ms, and 9/10 of the way from 20 to 30."""
    assert percentiles_ms([0.01, 0.02, 0.03]) == pytest.approx((20.0, 29.0))


def test_claims_end_at_their_citations() -> None:
    """A citation before or behind the full stop belongs to the sentence before it; one before all words to none."""
    found = claims("[2] 年假每年6天[1]。补助每天120元。[1][2] 好的。")
    assert [(claim.text.strip(), claim.cited) for claim in found] == [("年假每年6天", (1,)), ("补助每天120元", (1, 2))]


def test_a_right_citation_has_the_figures_and_the_words() -> None:
    """Another passage's number, another figure, or a number that opens nothing is wrong."""
    passages = [hit(LEAVE), hit(TRAVEL)]
    right = claims("满1年不满10年的，每年6天[1]。出差伙食补助每人每天120元[2]。")
    assert [claim.is_right(passages) for claim in right] == [True, True]
    wrong = claims("每年6天[2]。每年7天[1]。每年6天[3]。出差伙食补助为每人每天[1]。")
    assert [claim.is_right(passages) for claim in wrong] == [False, False, False, False]


def test_unsupported_numbers() -> None:
    """Counted with the figures that the passages and the question have; marked sentences are out, citations too."""
    passages = [hit(LEAVE)]
    assert unsupported("每年6天[1]，最多7天。", passages, "") == (2, 1)
    assert unsupported(f"每年6天[1]。最多7天。{MARK}", passages, "") == (1, 0)
    assert unsupported("工龄3年的，每年6天。", passages, "工龄3年有几天") == (2, 0)


def test_numbers_are_compared_by_value() -> None:
    """Commas of amounts and idle zeros say nothing."""
    assert numbers("共51,528.00元，0.50，10台") == {"51528", "0.5", "10"}


@pytest.mark.parametrize(
    ("text", "facts", "has"),
    [
        ("每年 6 天[1]", ("6天",), True),
        ("每年16天", ("6",), False),
        ("余 6 台", ("6",), True),
        ("2025-09-11上课[1]", ("09-11／9月11日",), True),
        ("10月11日", ("09-11／9月11日",), False),
        (r"XJ\-2048", ("XJ-2048",), True),
        ("6天", ("6天", "半天"), False),
    ],
)
def test_facts(text: str, facts: tuple[str, ...], has: bool) -> None:
    """All have to be said, each in one of its ways; a bare number as a number of its own."""
    assert has_facts(text, question(facts=facts)) is has
