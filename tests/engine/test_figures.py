"""E16: vLLM's figures under new names, old names, both or neither: a value or None, never 0."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge

from engine.figures import Figures, from_registry, from_text

NEW = {
    "vllm:num_requests_running": 3.0, "vllm:num_requests_waiting": 2.0, "vllm:kv_cache_usage_perc": 0.5,
    "vllm:num_preemptions_total": 7.0, "vllm:generation_tokens_total": 900.0,
}  # fmt: skip
OLD = {
    "vllm:num_requests_running": 3.0, "vllm:num_requests_waiting": 2.0, "vllm:gpu_cache_usage_perc": 0.5,
    "vllm:num_preemptions": 7.0, "vllm:generation_tokens": 900.0,
}  # fmt: skip
KNOWN = Figures(running=3, waiting=2, kv_use=0.5, preemptions=7, generated=900)


def page(values: dict[str, float]) -> str:
    """A server's page with these samples among others."""
    lines = [f'{name}{{engine="0",model_name="m"}} {value}' for name, value in values.items()]
    return "\n".join(
        ["# TYPE python_info gauge", "python_info 1.0", 'vllm:num_requests_waiting_by_reason{reason="x"} 9', *lines]
    )


@pytest.mark.parametrize(
    ("values", "figures"),
    [
        (NEW, KNOWN),
        (OLD, KNOWN),
        (OLD | NEW | {"vllm:gpu_cache_usage_perc": 0.1}, KNOWN),
        ({}, Figures()),
        ({"vllm:kv_cache_usage_perc": float("nan")}, Figures()),
        ({"vllm:kv_cache_usage_perc": 0.0}, Figures(kv_use=0.0)),
    ],
    ids=["new", "old", "both", "neither", "nan", "zero"],
)
def test_from_a_servers_page(values: dict[str, float], figures: Figures) -> None:
    """A value under either name, the new one first; None where there is neither; 0 only where it says 0."""
    assert from_text(page(values)) == figures


@pytest.mark.parametrize("kv_name", ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", None])
def test_from_this_process(kv_name: str | None) -> None:
    """The same from a registry, where prometheus_client names counters its own way; an empty one knows nothing."""
    registry = CollectorRegistry()
    if kv_name:
        Gauge(kv_name, "KV", ["engine"], registry=registry).labels("0").set(0.5)
        Gauge("vllm:num_requests_running", "Running", ["engine"], registry=registry).labels("0").set(3)
        Gauge("vllm:num_requests_waiting", "Waiting", ["engine"], registry=registry).labels("0").set(2)
        Counter("vllm:num_preemptions", "Preemptions", ["engine"], registry=registry).labels("0").inc(7)
        Counter("vllm:generation_tokens_total", "Tokens", ["engine"], registry=registry).labels("0").inc(900)
    assert from_registry(registry) == (KNOWN if kv_name else Figures())


def test_several_cores_are_added_up() -> None:
    """Requests and counters are summed, KV use is the mean."""
    two = "\n".join(f'{name}{{engine="{core}"}} {value}' for core in (0, 1) for name, value in NEW.items())
    assert from_text(two) == Figures(running=6, waiting=4, kv_use=0.5, preemptions=14, generated=1800)


def test_a_broken_line_is_an_error_and_not_a_number() -> None:
    """Whoever reads a page decides what a broken one means."""
    with pytest.raises(ValueError, match="hello"):
        from_text("vllm:num_requests_running hello")
