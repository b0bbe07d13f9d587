"""Everything that the console in the page and /metrics say of the engine, at one moment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.alarms import Alarm
from engine.base import EngineHealth, EngineState
from engine.history import History, Sample, percentiles
from engine.limits import Limiter
from engine.machine_use import MachineUse
from engine.words import Words

UNKNOWN = EngineHealth(EngineState.LOADING)


@dataclass(frozen=True, slots=True)
class Vitals:
    """None where it is not known. First-token times (s), outcomes and `samples` are of the last 15 minutes; `at` and the
    samples' times are of one clock."""

    at: float
    uptime_s: float | None
    health: EngineHealth
    running: int
    queued: int
    concurrent: int
    max_queued: int
    tokens_s: float | None
    first_p50: float | None
    first_p95: float | None
    ended: int
    failed: int
    refused: int
    alarms: Mapping[Alarm, Words]
    samples: tuple[Sample, ...]


def gather(
    uptime_s: float | None,
    health: EngineHealth | None,
    limiter: Limiter,
    history: History,
    alarms: Mapping[Alarm, Words],
) -> Vitals:
    """Vitals of now."""
    outcomes = history.outcomes()
    first_p50, first_p95 = percentiles(history.first_tokens(), 0.5, 0.95)
    return Vitals(
        at=history.now,
        uptime_s=uptime_s,
        health=health or UNKNOWN,
        running=limiter.running,
        queued=limiter.waiting,
        concurrent=limiter.concurrent,
        max_queued=limiter.queued,
        tokens_s=history.tokens_s,
        first_p50=first_p50,
        first_p95=first_p95,
        ended=len(outcomes),
        failed=outcomes.count("failed"),
        refused=history.refused(),
        alarms=dict(alarms),
        samples=tuple(history.samples),
    )


def exposition(vitals: Vitals, use: MachineUse) -> bytes:
    """As a Prometheus page; what is unknown is left out."""
    registry = CollectorRegistry()
    registry.register(_Page(vitals, use))
    return generate_latest(registry)


class _Page(Collector):
    def __init__(self, vitals: Vitals, use: MachineUse) -> None:
        self._vitals, self._use = vitals, use

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        now, use = self._vitals, self._use
        gauges = (
            ("zhida_uptime_seconds", "Since the engine became ready", now.uptime_s),
            ("zhida_kv_use_ratio", "Share of the KV cache in use", now.health.kv_use),
            ("zhida_tokens_per_second", "Answer tokens a second, now", now.tokens_s),
            ("zhida_memory_bytes", "Resident memory of the app and its engine", use.resident),
            ("zhida_cpu_use_ratio", "Their share of all cores", use.cpu_use),
            ("zhida_gpu_use_ratio", "Share of time in which the card worked", use.gpu.busy if use.gpu else None),
        )
        for name, text, value in gauges:
            if value is not None:
                yield GaugeMetricFamily(name, text, value)
        if now.health.preemptions is not None:
            yield CounterMetricFamily(
                "zhida_preemptions", "Answers put back for want of KV cache", now.health.preemptions
            )
        if use.gpu:
            yield _labelled(
                "zhida_gpu_memory_bytes", "Memory of the card", {"used": use.gpu.used, "total": use.gpu.total}
            )
        yield _labelled(
            "zhida_limit",
            "Answers at once, and places in the queue",
            {"concurrent": now.concurrent, "queued": now.max_queued},
        )
        yield _labelled("zhida_warning", "1 while the app warns of it", {alarm: alarm in now.alarms for alarm in Alarm})


def _labelled(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["kind"])
    for kind, value in values.items():
        family.add_metric([str(kind)], float(value))
    return family
