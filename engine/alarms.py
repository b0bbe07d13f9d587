"""What the app warns of by itself, and when."""

from collections.abc import Mapping
from enum import StrEnum

from engine.history import SPAN_S, History, percentiles
from engine.words import Words

KV_FULL, KV_EASED = 0.95, 0.90
"""It begins above the one and ends below the other, so that a cache at the brink does not warn over and over."""
RECENT_S = 120.0
RECENT_ANSWERS, EARLIER_ANSWERS = 5, 10
SLOW_FACTOR, SLOW_FROM_S = 2.0, 0.1
"""A first token after twice the time, and one that a person would notice."""
ERROR_SHARE, ERRORS_FROM = 0.01, 2
"""A single failure is an accident; a second among a few questions is not."""


class Alarm(StrEnum):
    """What can be wrong with a running engine."""

    KV_CACHE = "kv_cache"
    FIRST_TOKEN = "first_token"
    ERRORS = "errors"


def alarms(kv_use: float | None, history: History, before: Mapping[Alarm, Words]) -> dict[Alarm, Words]:
    """What holds now; `before` is what held at the last look."""
    found = {
        Alarm.KV_CACHE: _kv(kv_use, Alarm.KV_CACHE in before),
        Alarm.FIRST_TOKEN: _slow(history),
        Alarm.ERRORS: _errors(history.outcomes()),
    }
    return {alarm: words for alarm, words in found.items() if words}


def _kv(use: float | None, is_on: bool) -> Words | None:
    if use is None or use <= (KV_EASED if is_on else KV_FULL):
        return None
    return Words(
        f"KV 缓存已用 {use:.0%}：再多的回答会互相挤出、变慢。请减少同时的回答（ENGINE_MAX_CONCURRENT）或缩短上下文。",
        f"The KV cache is {use:.0%} full: more answers will push each other out. Lower ENGINE_MAX_CONCURRENT or the window.",
    )


def _slow(history: History) -> Words | None:
    """P95 of the last RECENT_S against that of the rest of the quarter of an hour, both from answers enough."""
    recent, earlier = history.first_tokens(RECENT_S), history.first_tokens(SPAN_S, RECENT_S)
    if len(recent) < RECENT_ANSWERS or len(earlier) < EARLIER_ANSWERS:
        return None
    now, usual = (percentiles(values, 0.95)[0] or 0.0 for values in (recent, earlier))
    if now < SLOW_FROM_S or now < SLOW_FACTOR * usual:
        return None
    return Words(
        f"首字变慢：最近 2 分钟 P95 为 {now:.2f} 秒，之前是 {usual:.2f} 秒。",
        f"First tokens are slow: P95 {now:.2f} s in the last 2 minutes, {usual:.2f} s before.",
    )


def _errors(outcomes: list[str]) -> Words | None:
    failed = outcomes.count("failed")
    if failed < ERRORS_FROM or failed <= ERROR_SHARE * len(outcomes):
        return None
    return Words(
        f"出错偏多：最近 15 分钟 {len(outcomes)} 个问题中有 {failed} 个失败（{failed / len(outcomes):.1%}）。",
        f"Many errors: {failed} of {len(outcomes)} questions in the last 15 minutes failed ({failed / len(outcomes):.1%}).",
    )
