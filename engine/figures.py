"""vLLM's own figures, under today's names and those before 0.11, from its registry or from a server's page."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

RUNNING = ("vllm:num_requests_running",)
WAITING = ("vllm:num_requests_waiting",)
KV_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
"""The second is the name before vLLM 0.11."""
PREEMPTIONS = ("vllm:num_preemptions_total", "vllm:num_preemptions")
GENERATED = ("vllm:generation_tokens_total", "vllm:generation_tokens")
"""A counter shows with or without its ending, as vLLM's release and prometheus_client's see fit."""
NAMES = RUNNING + WAITING + KV_USE + PREEMPTIONS + GENERATED


@dataclass(frozen=True, slots=True)
class Figures:
    """How an engine is doing; None, never 0, where it does not say."""

    running: int | None = None
    waiting: int | None = None
    kv_use: float | None = None
    """Share of the KV cache, 0 to 1."""
    preemptions: int | None = None
    generated: int | None = None
    """Answer tokens since it started."""


def from_samples(samples: Iterable[tuple[str, float]]) -> Figures:
    """From samples by name: requests and counters summed over an engine's cores, KV use averaged over them."""
    values: dict[str, list[float]] = {}
    for name, value in samples:
        if name in NAMES and math.isfinite(value):
            values.setdefault(name, []).append(value)

    def total(names: tuple[str, ...]) -> int | None:
        found = next((values[name] for name in names if name in values), None)
        return None if found is None else round(sum(found))

    kv_use = next((values[name] for name in KV_USE if name in values), None)
    return Figures(
        running=total(RUNNING),
        waiting=total(WAITING),
        kv_use=None if kv_use is None else sum(kv_use) / len(kv_use),
        preemptions=total(PREEMPTIONS),
        generated=total(GENERATED),
    )


def from_registry(registry: CollectorRegistry) -> Figures:
    """From the registry of this process."""
    metrics = registry.restricted_registry(NAMES).collect()
    return from_samples((sample.name, sample.value) for metric in metrics for sample in metric.samples)


def from_text(exposition: str) -> Figures:
    """From a Prometheus page. Raises ValueError where one of our lines is none of Prometheus'."""
    lines = "\n".join(line for line in exposition.splitlines() if line.startswith(NAMES))
    families = text_string_to_metric_families(lines + "\n")
    return from_samples((sample.name, float(sample.value)) for family in families for sample in family.samples)
