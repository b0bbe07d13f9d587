"""From settings to an engine: which backend, with which weights, under which profile."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.base import Engine, OnLoading
from engine.endpoint import is_this_machine
from engine.hardware import detect_card
from engine.host import Plan, Planner
from engine.machine_use import Where
from engine.preflight import refuse_what_never_fits
from engine.profiles import Choice, choose
from engine.settings import Settings
from engine.weights import ModelFolder, resolve

SERVER_CONCURRENT, SERVER_QUEUED = 64, 256
"""The server schedules by itself; these only keep one app from flooding it."""
IN_PROCESS_RESTARTS = 3


def planner(settings: Settings) -> Planner:
    """The Planner of the backend that `settings` ask for."""

    folder: ModelFolder | None = None

    def find(on_loading: OnLoading) -> ModelFolder:
        nonlocal folder
        folder = resolve(settings.engine_model, settings.engine_hub, on_loading)
        return folder

    def plan_for(profile: str) -> Plan:
        if settings.backend == "inprocess":
            card = detect_card()
            plan = in_process(settings, choose(profile, card, settings.engine_profiles), find)
            if folder and plan.choice:  # a switch: what cannot fit is refused while the old engine still answers
                refuse_what_never_fits(folder.path, plan.choice.profile, settings.engine_max_model_len, card)
            return plan
        build = _server if settings.backend == "server" else _scripted
        return Plan(
            choice=None,
            build=lambda on_loading: build(settings),
            concurrent=settings.engine_max_concurrent or SERVER_CONCURRENT,
            queued=SERVER_QUEUED if settings.engine_max_queued is None else settings.engine_max_queued,
            restarts=None,
            where=_where(settings),
        )

    return plan_for


def in_process(settings: Settings, choice: Choice, find: Callable[[OnLoading], ModelFolder]) -> Plan:
    """The profile with the limits that `settings` put in its place; vLLM is told the same number of answers at once.

    `find` fetches the model's folder.
    """
    profile = settings.limited(choice.profile)

    def build(on_loading: OnLoading) -> Engine:
        from engine.inprocess import InProcessEngine

        return InProcessEngine(find(on_loading), profile, settings.engine_max_model_len, settings.data_dir)

    return Plan(
        choice=replace(choice, profile=profile),
        build=build,
        concurrent=profile.max_concurrent,
        queued=profile.max_queued,
        restarts=IN_PROCESS_RESTARTS,
    )


def _where(settings: Settings) -> Where:
    """Raises ConfigurationError where the server's address is none."""
    if settings.backend != "server" or settings.engine_base_url is None:
        return Where.INSIDE
    return Where.BESIDE if is_this_machine(settings.engine_base_url) else Where.ELSEWHERE


def _server(settings: Settings) -> Engine:
    from engine.server import ServerEngine

    assert settings.engine_base_url
    local = Path(settings.engine_model).expanduser()
    return ServerEngine(
        settings.engine_base_url,
        settings.engine_api_key,
        settings.engine_max_model_len,
        tokenizer_folder=local if local.is_dir() else None,
        model=settings.engine_model,
    )


def _scripted(settings: Settings) -> Engine:
    from engine.scripted import ScriptedEngine

    return ScriptedEngine(settings.engine_script)
