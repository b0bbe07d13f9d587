"""The whole app's figures, for Prometheus and for the last 15 minutes, kept by the process's one EngineHost."""

from collections.abc import Callable

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Enum, Gauge, Histogram, generate_latest

from engine.base import Delta, EngineState
from engine.history import History

FIRST_TOKEN_S = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 3, 5, 8, 13, 21)
PER_TOKEN_S = (0.002, 0.004, 0.007, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.4, 1)
WAIT_S = (0.01, 0.1, 0.5, 1, 2, 5, 10, 20, 40, 60, 120, 300, 600)
OUTCOMES = (
    "answered", "length", "not_found", "stopped", "left", "superseded", "refused", "share", "too_long", "failed",
)  # fmt: skip
"""not_found: the documents do not say; refused: the queue was full; share: two questions of that chat were unanswered; too_long: it does not fit the window."""


class Metrics:
    """Questions by outcome, token times, and gauges read when scraped; `history` has the recent ones."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.history = History()
        self._questions = Counter("zhida_questions", "Questions by outcome", ["outcome"], registry=self.registry)
        for outcome in OUTCOMES:
            self._questions.labels(outcome)
        self._first = Histogram(
            "zhida_first_token_seconds",
            "From admission to the first text",
            buckets=FIRST_TOKEN_S,
            registry=self.registry,
        )
        self._each = Histogram(
            "zhida_per_token_seconds",
            "Mean time of a token after the first",
            buckets=PER_TOKEN_S,
            registry=self.registry,
        )
        self._wait = Histogram(
            "zhida_queue_wait_seconds", "From arrival to a slot", buckets=WAIT_S, registry=self.registry
        )
        self._tokens = Counter("zhida_tokens", "Answer tokens by the engine's count", registry=self.registry)
        self._state = Enum(
            "zhida_engine_state",
            "State of the engine",
            states=[state.value for state in EngineState],
            registry=self.registry,
        )
        self._running = Gauge("zhida_running", "Answers being generated", registry=self.registry)
        self._queued = Gauge("zhida_queued", "Questions waiting for a slot", registry=self.registry)

    def question(self, outcome: str) -> None:
        """Count one question that ended as one of OUTCOMES."""
        self._questions.labels(outcome).inc()
        self.history.ended(outcome)

    def waited(self, seconds: float) -> None:
        """Record how long a question that was admitted had waited for its slot."""
        self._wait.observe(seconds)

    def received(self, tokens: int) -> None:
        """Tokens that have just come, as far as one can tell before the answer ends."""
        self.history.tokens(tokens)

    def answer(self, last: Delta) -> None:
        """Record the times that an answer's last Delta carries."""
        if last.timings is None or last.usage is None or last.usage.answer_tokens < 1:
            return
        self._tokens.inc(last.usage.answer_tokens)
        self._first.observe(last.timings.first_token_s)
        self.history.first_token(last.timings.first_token_s)
        if last.usage.answer_tokens > 1:
            decoding = last.timings.total_s - last.timings.first_token_s
            self._each.observe(decoding / (last.usage.answer_tokens - 1))

    def state(self, state: EngineState) -> None:
        """Record a change of the engine's state."""
        self._state.state(state.value)

    def watch(self, running: Callable[[], int], queued: Callable[[], int]) -> None:
        """Where the gauges read their values."""
        self._running.set_function(running)
        self._queued.set_function(queued)

    def text(self) -> bytes:
        """The exposition: this app's figures, then the process's own and an in-process vLLM's."""
        return generate_latest(self.registry) + generate_latest(REGISTRY)
