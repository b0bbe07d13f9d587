"""What is measured of one request, and how many of them become a row of figures."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from bench.memory import Resources

POINTS = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Sample:
    """One request, by the client's clock: `submitted` is a time.perf_counter, which all processes of a machine share.

    `first_s` and `total_s` are seconds from then to the first text and to the end. `error` is what went wrong.
    """

    submitted: float
    first_s: float | None
    total_s: float
    prompt_tokens: int = 0
    answer_tokens: int = 0
    characters: int = 0
    error: str | None = None

    @property
    def per_token_s(self) -> float | None:
        """Mean time of a token after the first; None for answers of one token."""
        if self.first_s is None or self.answer_tokens < 2:
            return None
        return (self.total_s - self.first_s) / (self.answer_tokens - 1)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles of one quantity, in seconds: numpy's default method, linear between neighbours."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread | None":
        """None where there is nothing to take a mean of."""
        if not values:
            return None
        p50, p90, p99 = (float(value) for value in np.percentile(values, POINTS))
        return cls(float(np.mean(values)), p50, p90, p99)


@dataclass(frozen=True, slots=True)
class Level:
    """One row: a load, and what it came to. Rates are over `wall_s`, from the start to the last answer's end."""

    load: str
    wall_s: float
    requests: int
    answered: int
    errors: dict[str, int]
    prompt_tokens: tuple[int, int]
    """Fewest and most of an answered request."""
    answer_tokens: int
    characters: int
    tokens_per_s: float
    requests_per_s: float
    first_s: Spread | None
    per_token_s: Spread | None
    total_s: Spread | None
    most_at_once: int
    client_cpu: float | None = None
    """Share of a core that the busiest process of load generators used; near 1 it is the bench that is measured."""
    resources: Resources = field(default_factory=Resources)

    def json(self) -> dict[str, object]:
        """As plain data."""
        return asdict(self)


def summarise(
    load: str, samples: Sequence[Sample], began: float, resources: Resources, cpu: float | None = None
) -> Level:
    """The row of `samples`; `began` is when the first request was allowed to go."""
    good = [sample for sample in samples if sample.error is None]
    wall_s = max((sample.submitted + sample.total_s for sample in samples), default=began) - began
    tokens, rate = sum(sample.answer_tokens for sample in good), 1 / wall_s if wall_s > 0 else 0.0
    sizes = [sample.prompt_tokens for sample in good] or [0]
    return Level(
        load=load,
        wall_s=wall_s,
        requests=len(samples),
        answered=len(good),
        errors=dict(Counter(sample.error for sample in samples if sample.error)),
        prompt_tokens=(min(sizes), max(sizes)),
        answer_tokens=tokens,
        characters=sum(sample.characters for sample in good),
        tokens_per_s=tokens * rate,
        requests_per_s=len(good) * rate,
        first_s=Spread.of([sample.first_s for sample in good if sample.first_s is not None]),
        per_token_s=Spread.of([sample.per_token_s for sample in good if sample.per_token_s is not None]),
        total_s=Spread.of([sample.total_s for sample in good]),
        most_at_once=most_at_once(samples),
        client_cpu=cpu,
        resources=resources,
    )


def most_at_once(samples: Iterable[Sample]) -> int:
    """The most requests that were under way at one moment; one that ends as another begins does not overlap it."""
    moments = [(s.submitted, 1) for s in samples] + [(s.submitted + s.total_s, -1) for s in samples]
    running = most = 0
    for _, step in sorted(moments):
        running += step
        most = max(most, running)
    return most
