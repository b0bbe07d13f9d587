"""Figures from what was found: ranks and refusals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.knowledge.questions import Question
from knowledge.base import Hit


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the app would have searched for it."""

    question: Question
    texts: tuple[str, ...]
    """As asked, and condensed with the earlier ones."""
    hits: tuple[Hit, ...]
    """Best first."""
    passages: tuple[Hit, ...]
    """Those for the model."""
    seconds: float

    @property
    def is_sure(self) -> bool:
        """The gate lets the model answer."""
        return bool(self.passages)

    @property
    def rank(self) -> int | None:
        """Place of the first passage with the answer, from 1."""
        return self.question.rank_in(self.hits)


@dataclass(frozen=True, slots=True)
class Ranking:
    """How high the right passage stands, over answerable questions; shares from 0 to 1."""

    questions: int
    hit1: float
    hit3: float
    mrr: float
    """Mean reciprocal rank; 0 for a question whose passage was not found."""

    @classmethod
    def of(cls, ranks: Sequence[int | None]) -> "Ranking":
        """Of at least one question."""
        count = len(ranks)
        places = [rank for rank in ranks if rank is not None]
        return cls(
            count,
            sum(rank == 1 for rank in places) / count,
            sum(rank <= 3 for rank in places) / count,
            sum(1 / rank for rank in places) / count,
        )


@dataclass(frozen=True, slots=True)
class Refusing:
    """How well the gate refuses; the positives are the questions to refuse."""

    absent: int
    refused: int
    rightly: int
    """Of the refused, those to refuse."""

    @classmethod
    def of(cls, outcomes: Iterable[tuple[bool, bool]]) -> "Refusing":
        """Of pairs: is it to be refused, was it."""
        pairs = list(outcomes)
        return cls(sum(a for a, _ in pairs), sum(r for _, r in pairs), sum(a and r for a, r in pairs))

    @property
    def precision(self) -> float:
        """Of what was refused, the share to refuse; 1 where nothing was."""
        return self.rightly / self.refused if self.refused else 1.0

    @property
    def recall(self) -> float:
        """Of what is to be refused, the share that was; 1 where there is none."""
        return self.rightly / self.absent if self.absent else 1.0

    @property
    def f1(self) -> float:
        """The harmonic mean of the two."""
        total = self.refused + self.absent
        return 2 * self.rightly / total if total else 1.0

    def json(self) -> dict[str, float]:
        """As plain data."""
        return {"absent": self.absent, "refused": self.refused, "rightly": self.rightly,
                "precision": self.precision, "recall": self.recall, "f1": self.f1}  # fmt: skip


def rankings(asked: Sequence[Asked]) -> dict[str, Ranking]:
    """By kind, the commonest first, and `total`."""
    kinds: dict[str, list[int | None]] = {}
    for one in asked:
        if not one.question.is_absent:
            kinds.setdefault(one.question.kind, []).append(one.rank)
    ordered = sorted(kinds.items(), key=lambda item: -len(item[1]))
    total = [rank for _, ranks in ordered for rank in ranks]
    return {**{kind: Ranking.of(ranks) for kind, ranks in ordered}, **({"total": Ranking.of(total)} if total else {})}


def refusing(asked: Iterable[Asked]) -> Refusing:
    """What the gate did with them."""
    return Refusing.of((one.question.is_absent, not one.is_sure) for one in asked)


def percentiles_ms(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th, in milliseconds; of at least one."""
    median, p95 = np.percentile(seconds, (50, 95))
    return float(median) * 1000, float(p95) * 1000
