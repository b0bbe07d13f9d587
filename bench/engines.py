"""The engine that is measured: made from the settings like the app's, without a limiter, and ended whatever happens."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from engine.base import Engine
from engine.factory import in_process, planner
from engine.host import Plan
from engine.profiles import Choice
from engine.progress import console_progress
from engine.settings import Settings
from engine.weights import resolve


@dataclass(frozen=True, slots=True)
class Running:
    """A ready engine; `load_s` from the first import to its first answer, downloads included."""

    engine: Engine
    plan: Plan
    load_s: float

    @property
    def choice(self) -> Choice | None:
        """The profile of an engine in this process."""
        return self.plan.choice


def planned(settings: Settings, eager: bool = False) -> Plan:
    """The plan in force; `eager` overrides the profile's choice. Raises ConfigurationError."""
    plan = planner(settings)(settings.engine_profile)
    if eager and plan.choice:
        profile = replace(plan.choice.profile, enforce_eager=True)
        return in_process(
            settings,
            replace(plan.choice, profile=profile),
            partial(resolve, settings.engine_model, settings.engine_hub),
        )
    return plan


@asynccontextmanager
async def running(settings: Settings, eager: bool = False) -> AsyncIterator[Running]:
    """Start it, and stop it at the end. Raises ConfigurationError or EngineDead."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # standard output is for results
    plan = planned(settings, eager)
    on_loading = console_progress()
    began = time.perf_counter()
    engine = await asyncio.to_thread(plan.build, on_loading)
    try:
        await engine.start(on_loading)
        yield Running(engine, plan, time.perf_counter() - began)
    finally:
        await engine.stop()
