"""The engine's state as JSON: in short for probes and the page's strip, in full for the console."""

from typing import Any

from assistant import texts
from engine.base import EngineState
from engine.history import SPAN_S
from engine.host import EngineHost
from engine.machine_use import MachineUse
from engine.words import Words


def readiness(host: EngineHost) -> dict[str, Any]:
    """The state as the page's status strip takes it: texts in both languages, `fraction` 0 to 1 or null."""
    engine, loading = host.engine, host.loading
    message = host.reason
    if host.state is EngineState.LOADING:
        message = loading.step
    return {
        "state": host.state.value,
        "message": both(message),
        "fraction": loading.fraction if host.state is EngineState.LOADING else None,
        "demo": both(texts.DEMO_BANNER) if engine and engine.info.is_demo else None,
        "model": engine.info.model if engine else None,
        "running": host.limiter.running,
        "queued": host.limiter.waiting,
    }


def both(words: Words | None) -> dict[str, str] | None:
    """A sentence in both languages, as the page takes it."""
    return {"zh": words.zh, "en": words.en} if words else None


def full_status(host: EngineHost, use: MachineUse, elsewhere: bool) -> dict[str, Any]:
    """Everything that the panel shows; null is what nobody knows. Times in seconds, shares 0 to 1, memory in bytes.

    `elsewhere`: the engine is a server's, whose memory and profile this app knows nothing of. Warnings are apart:
    not everybody sees them.
    """
    now, plan, engine = host.vitals(), host.plan, host.engine
    choice = plan.choice if plan else None
    on_gpu = bool(choice and choice.profile.on_gpu)
    profile = choice and {"name": choice.profile.name, "title": choice.profile.title, "reason": both(choice.reason)}
    return {
        **readiness(host),
        "window": engine.info.window if engine else None,
        "profile": profile,
        "wanted": host.wanted,
        "elsewhere": elsewhere,
        "uptime_s": now.uptime_s,
        "concurrent": now.concurrent,
        "max_queued": now.max_queued,
        "engine_running": now.health.running,
        "engine_waiting": now.health.waiting,
        "kv_use": now.health.kv_use,
        "preemptions": now.health.preemptions,
        "tokens_s": now.tokens_s,
        "first_p50": now.first_p50,
        "first_p95": now.first_p95,
        "ended": now.ended,
        "failed": now.failed,
        "refused": now.refused,
        "on_gpu": on_gpu,
        "gpu": use.gpu and {"used": use.gpu.used, "total": use.gpu.total, "busy": use.gpu.busy},
        "memory": use.resident,
        "cpu_use": use.cpu_use,
        "span_s": SPAN_S,
        "points": [
            [
                round(sample.at - now.at, 1),
                sample.tokens_s and round(sample.tokens_s, 1),
                sample.running,
                sample.waiting,
            ]
            for sample in now.samples
        ],
    }
