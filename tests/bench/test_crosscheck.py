"""The comparison with vLLM's own benchmark, as far as it needs none."""

import pytest

from bench.crosscheck import Figures, best, figures
from engine.errors import ConfigurationError

RESULT = {"completed": 8, "output_throughput": 100.0, "mean_ttft_ms": 50.0, "mean_tpot_ms": 9.0}


def test_their_result_is_read() -> None:
    """From the names in vLLM's file."""
    assert figures(RESULT, 8) == Figures(100.0, 50.0, 9.0)


def test_requests_left_out_are_no_result() -> None:
    """Its reader skips what it finds too long, in silence."""
    with pytest.raises(ConfigurationError, match="8/9"):
        figures(RESULT, 9)


def test_the_best_round() -> None:
    """The most tokens a second, the least milliseconds."""
    rounds = [Figures(100.0, 50.0, 9.0), Figures(90.0, 40.0, 10.0)]
    assert [best(name, rounds) for name in ("tokens_per_s", "first_ms", "per_token_ms")] == [100.0, 40.0, 9.0]
