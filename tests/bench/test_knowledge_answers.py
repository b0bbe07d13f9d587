"""Answers of the knowledge bench: a scripted engine, the app's own prompt and check, and the counts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.knowledge.answering import Answerer, summary
from bench.knowledge.questions import ABSENT
from engine.scripted import ScriptedEngine
from engine.settings import Settings
from knowledge.grounding import NOT_FOUND
from tests.bench.test_knowledge_metrics import LEAVE, TRAVEL, asked, hit, question

SCRIPT = """
[engine]
[[rules]]
match = "年假几天"
text = "满1年不满10年的，年休假每年6天[1]。公司还另外赠送年休假99天。"
[[rules]]
text = "不该问到这里"
"""


@pytest.fixture
async def answerer(tmp_path: Path) -> AsyncIterator[Answerer]:
    """Over SCRIPT."""
    (tmp_path / "script.toml").write_text(SCRIPT, encoding="utf-8")
    engine = ScriptedEngine(tmp_path / "script.toml")
    await engine.start(lambda loading: None)
    yield Answerer(engine, Settings())
    await engine.stop()


async def test_an_answer_is_counted(answerer: Answerer) -> None:
    """One right citation, one number that no passage has and that is marked in the end, the fact said."""
    answered = await answerer.answer(asked(question(), hit(LEAVE), hit(TRAVEL)), 1)
    assert answered.error is None
    found = summary([answered])
    assert found["asked_the_model"] == found["answerable_answered"] == 1
    assert found["citations"] == found["citations_right"] == found["answers_citing_the_right_passage"] == 1
    assert found["numbers_unsupported_before"] == 1
    assert found["numbers_unsupported_after"] == 0
    assert found["answers_with_all_facts"] == 1
    assert answered.seconds > 0


async def test_below_the_gate_the_model_is_not_asked(answerer: Answerer) -> None:
    """The refusal stands in the answer's place, and counts as one."""
    answered = await answerer.answer(asked(question(ABSENT, facts=()), hit(LEAVE), is_sure=False), 1)
    assert NOT_FOUND.zh in answered.text
    found = summary([answered])
    assert (found["asked_the_model"], found["refused_by_gate"]) == (0, 1)


async def test_a_failing_engine_is_counted(tmp_path: Path) -> None:
    """The other questions go on."""
    (tmp_path / "script.toml").write_text('[[rules]]\ntext = "一"\nerror = "EngineBusy"\n', encoding="utf-8")
    engine = ScriptedEngine(tmp_path / "script.toml")
    await engine.start(lambda loading: None)
    answered = await Answerer(engine, Settings()).answer(asked(question(), hit(LEAVE)), 1)
    await engine.stop()
    assert answered.error == "EngineBusy"
    assert summary([answered])["errors"] == 1
