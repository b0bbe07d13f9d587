"""The gate's coefficients, fitted on the half of the questions that is for it, over what the library finds for them."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from bench.knowledge.questions import Question, questions
from bench.knowledge.searching import Shelf
from bench.words import say
from knowledge import relevance
from knowledge.base import Hit
from knowledge.condense import condense
from knowledge.library import Library

Floats = npt.NDArray[np.float64]
STRENGTH = 0.03
"""scikit-learn's C: small weights, for there are few questions."""


@dataclass(frozen=True, slots=True)
class Example:
    """One question's candidates: features, (hits, features), and which of them answer it, (hits,)."""

    is_absent: bool
    rows: Floats
    answers: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Line:
    """A logistic model over raw features, and below which relevance is refused."""

    weights: Floats
    intercept: float
    threshold: float

    def json(self) -> dict[str, object]:
        """As knowledge/relevance.py reads it."""
        return {
            "weights": {n: round(float(w), 4) for n, w in zip(relevance.FEATURES, self.weights, strict=True)},
            "intercept": round(self.intercept, 4),
            "threshold": round(self.threshold, 4),
        }


async def fit_gate(shelves: Mapping[str, Shelf]) -> None:
    """Write knowledge/gate.json: a line with vectors and one without, from the libraries by their embedders' names."""
    lines = {}
    for embedder, shelved in shelves.items():
        say(f"拟合门槛（向量：{embedder}）…")
        examples = [example async for example in _examples(shelved.library)]
        lines["words" if embedder == "none" else "meaning"] = fitted(examples).json()
    relevance.GATE.write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
    relevance.gate.cache_clear()


async def _examples(library: Library) -> AsyncIterator[Example]:
    for question in questions():
        if question.half == "fit":
            with _overheard() as told:
                await library.search((question.text, condense(question.text, question.earlier)))
            if told and told[0][1]:
                yield _example(question, *told[0])


@contextmanager
def _overheard() -> Iterator[list[tuple[Sequence[str], Sequence[Hit], float | None]]]:
    """What the library hands to `rate`: all candidates, before any is dropped."""
    told: list[tuple[Sequence[str], Sequence[Hit], float | None]] = []

    def listen(texts: Sequence[str], hits: Sequence[Hit], anchors: float | None) -> list[Hit]:
        told.append((texts, hits, anchors))
        return list(hits)

    with patch.object(relevance, "rate", listen):
        yield told


def _example(question: Question, texts: Sequence[str], hits: Sequence[Hit], anchors: float | None) -> Example:
    rows = np.array(relevance.features(texts, hits, anchors), np.float64)
    return Example(question.is_absent, rows, np.array([question.is_answered_by(hit) for hit in hits]))


def fitted(examples: Sequence[Example]) -> Line:
    """Every question weighs the same however many candidates it has; the scaling is folded into the weights."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]  # has no types

    rows = np.concatenate([example.rows for example in examples])
    answers = np.concatenate([example.answers for example in examples])
    shares = np.concatenate([_shares(example.answers) for example in examples])
    mean, scale = rows.mean(0), rows.std(0) + 1e-9
    model = LogisticRegression(C=STRENGTH, max_iter=2000).fit((rows - mean) / scale, answers, sample_weight=shares)
    weights = model.coef_[0] / scale
    intercept = float(model.intercept_[0] - mean @ weights)
    best = np.array([_sigmoid(example.rows @ weights + intercept).max() for example in examples])
    return Line(weights, intercept, threshold(best, np.array([example.is_absent for example in examples])))


def _shares(answers: npt.NDArray[np.bool_]) -> Floats:
    """The answers weigh 1 in sum, and so do the others."""
    right = answers.sum()
    return np.where(answers, 1 / max(1, right), 1 / max(1, len(answers) - right))


def _sigmoid(values: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-values)), np.float64)


def threshold(best: Floats, is_absent: npt.NDArray[np.bool_]) -> float:
    """Between two neighbours of `best`, where refusing what lies below has the highest F1; of equals the middle one."""
    values = np.unique(best)
    cuts = (values[:-1] + values[1:]) / 2
    if not len(cuts):
        return float(values[0])
    refused = best[None, :] < cuts[:, None]
    f1 = 2 * (refused & is_absent).sum(1) / (refused.sum(1) + is_absent.sum())
    top = np.flatnonzero(f1 == f1.max())
    return float(cuts[top[len(top) // 2]])
