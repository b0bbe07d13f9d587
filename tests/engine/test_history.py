"""The last 15 minutes: bounded, in rates, and what is warned of."""

import pytest

from engine.alarms import Alarm, alarms
from engine.base import EngineHealth, EngineState
from engine.history import MOST_ANSWERS, SPAN_S, STEP_S, History, percentiles
from engine.words import Words


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """One for each test."""
    return Clock()


def ready(generated: int | None = None, kv_use: float | None = None) -> EngineHealth:
    """What a ready engine says."""
    return EngineHealth(EngineState.READY, kv_use=kv_use, generated=generated)


def test_rates_from_the_engines_own_count(clock: Clock) -> None:
    """Tokens a second between looks; None at the first look, and after the count began anew."""
    history = History(clock)
    for count in (100, 150, 350, 20):
        history.look(ready(count), 1, 0)
        clock.now += STEP_S
    assert [sample.tokens_s for sample in history.samples] == [None, 10.0, 40.0, None]
    assert history.tokens_s is None


def test_rates_from_what_the_app_received(clock: Clock) -> None:
    """An engine that keeps no count: this app's own tokens; and never a rate across two ways of counting."""
    history = History(clock)
    history.look(ready(), 1, 0)
    history.tokens(30)
    clock.now += STEP_S
    history.look(ready(), 1, 0)
    assert history.tokens_s == 6.0
    clock.now += STEP_S
    history.look(ready(50_000), 1, 0)
    assert history.tokens_s is None
    clock.now += STEP_S
    history.look(ready(50_010), 1, 0)
    assert history.tokens_s == 2.0


def test_samples_are_seconds_apart_and_no_older_than_the_span(clock: Clock) -> None:
    """Looked at every 2 s for an hour, a sample is kept every 6 s, for 15 minutes."""
    history = History(clock)
    for second in range(0, 3600, 2):
        clock.now = 1000.0 + second
        history.look(ready(), second % 7, 0)
    ages = [clock.now - sample.at for sample in history.samples]
    assert max(ages) <= SPAN_S
    assert len(ages) == SPAN_S // 6
    clock.now += 2 * SPAN_S
    assert history.samples == []


def test_memory_is_bounded(clock: Clock) -> None:
    """However many answers come, so many are kept."""
    history = History(clock)
    for _ in range(MOST_ANSWERS + 5):
        history.first_token(0.1)
        history.ended("answered")
    assert len(history.first_tokens()) == len(history.outcomes()) == MOST_ANSWERS


def test_old_answers_no_longer_count(clock: Clock) -> None:
    """First-token times and outcomes of 16 minutes ago are gone; refusals are counted apart from errors."""
    history = History(clock)
    history.first_token(9.0)
    history.ended("failed")
    clock.now += 960
    history.first_token(0.5)
    for outcome in ("answered", "refused", "superseded"):
        history.ended(outcome)
    assert history.first_tokens() == [0.5]
    assert (history.outcomes(), history.refused()) == (["answered"], 1)


def test_percentiles() -> None:
    """Of nothing, nothing; P50 and P95 of a hundred."""
    assert percentiles([], 0.5, 0.9) == [None, None]
    assert percentiles([7.0], 0.95) == [7.0]
    hundred = [float(n) for n in range(100, 0, -1)]
    assert percentiles(hundred, 0.5, 0.95) == [51.0, 96.0]


def test_kv_cache_warning_begins_above_95_and_ends_below_90(clock: Clock) -> None:
    """Unknown use warns of nothing."""
    history, on = History(clock), []
    before: dict[Alarm, Words] = {}
    for use in (None, 0.95, 0.951, 0.93, 0.90, 0.93):
        before = alarms(use, history, before)
        on.append(Alarm.KV_CACHE in before)
    assert on == [False, False, True, True, False, False]


@pytest.mark.parametrize(
    ("earlier", "recent", "warned"),
    [
        ([0.3] * 10, [0.6] * 5, True),
        ([0.3] * 10, [0.59] * 5, False),
        ([0.3] * 9, [0.9] * 5, False),
        ([0.3] * 10, [0.9] * 4, False),
        ([0.01] * 10, [0.05] * 5, False),
    ],
    ids=["doubled", "not doubled", "too few before", "too few now", "nobody notices"],
)
def test_slow_first_tokens(clock: Clock, earlier: list[float], recent: list[float], warned: bool) -> None:
    """P95 of the last 2 minutes, twice that of the 13 before; both from enough answers."""
    history = History(clock)
    for seconds in earlier:
        history.first_token(seconds)
    clock.now += 121
    for seconds in recent:
        history.first_token(seconds)
    found = alarms(None, history, {})
    assert (Alarm.FIRST_TOKEN in found) is warned


@pytest.mark.parametrize(
    ("failed", "fine", "warned"),
    [(2, 100, True), (2, 198, False), (3, 198, True), (1, 19, False), (1, 0, False), (2, 0, True), (19, 0, True)],
)
def test_errors(clock: Clock, failed: int, fine: int, warned: bool) -> None:
    """Above 1%, and not because of a single one: few questions or many."""
    history = History(clock)
    for outcome, count in (("failed", failed), ("answered", fine), ("refused", 50)):
        for _ in range(count):
            history.ended(outcome)
    assert (Alarm.ERRORS in alarms(None, history, {})) is warned
