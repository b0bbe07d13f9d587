"""The last turns condensed into the question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.condense import condense

AGAIN = [
    ("年假有几天", "那病假呢？", "病假有几天"),
    ("XJ-2048 多少钱", "那 XJ-3000 呢", "XJ-3000 多少钱"),
    ("XJ-2048 Pro多少钱", "XJ-2048呢", "XJ-2048多少钱"),
    ("2023年的营收是多少", "2024年的呢", "2024年的营收是多少"),
    ("按2024版住宿标准是多少", "2025版呢", "按2025版住宿标准是多少"),
    ("丧假有几天", "2024年的呢", "2024年 丧假有几天"),
    ("武汉办事处的电话", "那长沙办事处呢", "长沙办事处的电话"),
    ("甲公司的合同什么时候到期", "那乙公司呢", "乙公司的合同什么时候到期"),
    ("一类城市住宿标准", "二类城市呢", "二类城市住宿标准"),
    ("主管的餐补是多少", "那总监呢", "总监的餐补是多少"),
    ("安全手册第三条规定了什么", "第四条呢", "安全手册第四条规定了什么"),
    ("出境要谁批准", "境内的呢", "境内 出境要谁批准"),
]
REFERRING = [
    ("XJ-2048 保修多久", "它多少钱", "XJ-2048多少钱"),
    ("XJ-2048 保修多久", "这款机器的重量", "XJ-2048的重量"),
    ("XJ-2048的额定负载是多少", "重量呢", "XJ-2048 重量"),
]
BARE = [
    ("怎么申请出差", "需要谁批准", ["出差", "需要谁批准"]),
    ("病假工资怎么发", "多少钱", ["病假", "多少钱"]),
    ("会议室怎么预订", "要提前多久", ["会议室", "要提前多久"]),
    ("安全手册第三条规定了什么", "第二款讲什么", ["第三条", "第二款讲什么"]),
    ("年假有几天", "为什么", ["年假", "为什么"]),
]
ALONE = [
    ("年假有几天", "XJ-2048的保修期多长"),
    ("年假有几天", "食堂几点开饭"),
    ("年休假怎么规定的", "婚假有几天"),
    ("退货期限几天", "运费谁出"),
    ("年假有几天", "谢谢"),
    ("年假有几天", "你好"),
    ("年假有几天", "工作满十年的员工能休几天年假"),
    ("你好", "年假几天"),
    ("年假有几天", ""),
]


@pytest.mark.parametrize(("earlier", "question", "condensed"), [*AGAIN, *REFERRING])
def test_subject_is_replaced(earlier: str, question: str, condensed: str) -> None:
    """What is named now takes the place of its like; a pronoun gives way to what it stands for."""
    assert condense(question, [earlier]) == condensed


@pytest.mark.parametrize(("earlier", "question", "parts"), BARE)
def test_subject_is_added(earlier: str, question: str, parts: list[str]) -> None:
    """A question that names too little is asked with the earlier subject before it."""
    condensed = condense(question, [earlier])
    assert all(part in condensed for part in parts), condensed
    assert condensed.endswith(question)


@pytest.mark.parametrize(("earlier", "question"), ALONE)
def test_question_that_stands_alone(earlier: str, question: str) -> None:
    """It is returned as it is."""
    assert condense(question, [earlier]) == question


def test_codes_are_replaced_not_gathered() -> None:
    """Through several turns the latest code, and the latest thing asked of it, are what is left."""
    condensed = condense("那 XJ-3000 呢", ["XJ-2048 多少钱", "它保修多久"])
    assert condensed == "XJ-3000保修多久"
    assert "2048" not in condense("那XJ-512呢", ["XJ-2048 多少钱", "它保修多久", "那 XJ-3000 呢"])


def test_first_question() -> None:
    """Without earlier questions there is nothing to add."""
    assert condense("那病假呢", []) == "那病假呢"


@given(
    st.text(max_size=60),
    st.lists(st.text(max_size=40) | st.sampled_from(["年假有几天", "那XJ-3000呢", "它呢", "第二条"]), max_size=8),
)
def test_any_text(question: str, earlier: list[str]) -> None:
    """Nothing raises, nothing grows without end."""
    assert len(condense(question, earlier)) <= len(question) + sum(map(len, earlier)) + 2 * len(earlier) + 2
