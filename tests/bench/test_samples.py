"""Figures of requests: percentiles, rates, and what ran at once."""

import pytest

from bench.memory import Resources
from bench.samples import Sample, Spread, most_at_once, summarise


def sample(submitted: float, total_s: float = 1.0, error: str | None = None, tokens: int = 11) -> Sample:
    """A request that got its first text after 0.2 s."""
    return Sample(submitted, None if error else 0.2, total_s, 100, tokens, 2 * tokens, error)


def test_percentiles_lie_between_neighbours() -> None:
    """Linear between the two nearest values, as numpy does it."""
    spread = Spread.of([1.0, 2.0, 3.0, 4.0])
    assert spread is not None
    assert (spread.mean, spread.p50) == (2.5, 2.5)
    assert spread.p90 == pytest.approx(3.7)
    assert spread.p99 == pytest.approx(3.97)


def test_nothing_has_no_percentiles() -> None:
    """A level without an answer has no figures, rather than zeros."""
    assert Spread.of([]) is None


def test_a_token_takes_what_follows_the_first() -> None:
    """Time after the first text over tokens after the first; an answer of one token says nothing."""
    assert sample(0).per_token_s == pytest.approx(0.08)
    assert sample(0, tokens=1).per_token_s is None


def test_rates_are_over_the_time_to_the_last_end() -> None:
    """Failed requests count as errors by kind, and neither as tokens nor as requests a second."""
    samples = [sample(10.0), sample(10.0, 2.0), sample(11.0, 0.1, "EngineBusy"), sample(11.0, 0.1, "EngineBusy")]
    level = summarise("2", samples, 9.0, Resources(ram_mib=5.0))
    assert level.wall_s == pytest.approx(3.0)
    assert (level.requests, level.answered, level.errors) == (4, 2, {"EngineBusy": 2})
    assert level.tokens_per_s == pytest.approx(22 / 3)
    assert level.requests_per_s == pytest.approx(2 / 3)
    assert level.prompt_tokens == (100, 100)
    assert level.resources.ram_mib == 5.0


def test_a_level_without_requests_is_empty() -> None:
    """No division by zero, and no invented figure."""
    level = summarise("1", [], 5.0, Resources())
    assert (level.tokens_per_s, level.requests_per_s, level.first_s) == (0.0, 0.0, None)


def test_most_at_once() -> None:
    """A request that begins as another ends does not overlap it."""
    assert most_at_once([sample(0), sample(1), sample(2)]) == 1
    assert most_at_once([sample(0), sample(0.5), sample(0.9), sample(3)]) == 3
