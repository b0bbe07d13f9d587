"""Time budgets: what steps will take, and how much shorter their answers become."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.findings import MORE, STEPS, steps
from bench.pace import SHORTEST, Pace, Step, fitting

SLOW = Pace(0.005, 0.08, 0.16, 8)


def test_a_step_alone() -> None:
    """Its prompt, and its answer token by token."""
    assert SLOW.seconds(Step("1", 1, 1, (256,), 512)) == pytest.approx(256 * 0.005 + 512 * 0.08)


def test_more_at_once_than_the_engine_takes_is_waves() -> None:
    """16 requests on 8 places are two rounds of answers, each at the pace of 8."""
    assert SLOW.seconds(Step("16", 16, 16, (256,), 512)) == pytest.approx(16 * 256 * 0.005 + 2 * 512 * 0.16)


def test_a_history_is_computed_once_a_client() -> None:
    """The cache knows it afterwards."""
    assert Step("m", 2, 8, (64,), 200, history=1200).prompt_tokens == 8 * 64 + 2 * 1200


@given(at_once=st.integers(1, 64))
def test_the_pace_lies_between_its_ends(at_once: int) -> None:
    """Slower the more there are, up to the engine's own limit."""
    assert 0.08 <= SLOW.token(at_once) <= SLOW.token(at_once + 1) <= 0.16


@given(budget=st.floats(1, 5000))
def test_what_fits_fits(budget: float) -> None:
    """Whatever is found keeps to the budget, unless even the shortest does not; a larger budget never shortens."""
    share = fitting(STEPS, SLOW, budget)
    took = sum(SLOW.seconds(step.scaled(share)) for step in STEPS)
    shortest = sum(SLOW.seconds(step.scaled(0.0)) for step in STEPS)
    assert took <= max(budget, shortest * 1.2)
    assert fitting(STEPS, SLOW, budget * 2) >= share


def test_a_fast_engine_runs_the_full_lengths() -> None:
    """Nothing is shortened where there is time."""
    fast = Pace(0.00001, 0.002, 0.003, 256)
    assert fitting(STEPS, fast, 400) == 1.0
    assert [step.scaled(1.0) for step in STEPS] == list(STEPS)


def test_no_answer_is_shorter_than_the_shortest() -> None:
    """And none is made longer by being scaled."""
    assert Step("1", 1, 1, (256,), 512).scaled(0.001).answer == SHORTEST
    assert Step("1", 1, 1, (256,), 8).scaled(0.5).answer == 8


def test_without_a_budget_there_are_more_requests() -> None:
    """Of the same lengths."""
    assert [step.requests for step in steps(budgeted=False)] == [MORE * step.requests for step in STEPS]
