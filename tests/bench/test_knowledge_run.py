"""`python -m bench knowledge` over the whole corpus, by words alone; and the fitting of the gate."""

import json
from pathlib import Path

import numpy as np
import pytest

from bench.cli import main
from bench.knowledge.fitting import Example, fitted, threshold
from knowledge import relevance


def test_by_words_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files go in, all questions are asked, and finding is no worse than it has been (0.80 within three)."""
    monkeypatch.chdir(tmp_path)
    assert main(["knowledge", "--embedder", "none", "--save", str(tmp_path / "found.json")]) == 0
    output = capsys.readouterr().out
    assert "拒答" in output
    result = json.loads(output.splitlines()[-1])
    assert result == json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    (run,) = result["runs"]
    assert run["embedder"] == "none"
    assert run["files"] >= 30
    assert run["passages"] > 500
    assert run["ranking"]["total"]["hit3"] >= 0.65
    assert run["ranking"]["total"]["mrr"] >= 0.55
    assert set(run["refusing"]) == {"fit", "report"}


def test_fitting_needs_both(capsys: pytest.CaptureFixture[str]) -> None:
    """The gate has a line with vectors and one without."""
    assert main(["knowledge", "--fit", "--embedder", "none"]) == 1
    assert "--fit 需要 --embedder both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("best", "absent", "cut"),
    [
        ([0.1, 0.2, 0.6, 0.9], [True, True, False, False], 0.4),  # F1 1 there alone
        ([0.2, 0.1, 0.9, 0.3], [False, True, False, True], 0.6),  # refusing three of four: F1 0.8, others less
        ([0.5, 0.5], [True, False], 0.5),  # nothing tells them apart
    ],
)
def test_threshold(best: list[float], absent: list[bool], cut: float) -> None:
    """Halfway between the neighbours where F1 is highest."""
    assert threshold(np.array(best), np.array(absent)) == pytest.approx(cut)


def test_fitted_tells_what_can_be_told() -> None:
    """The first feature tells the answer: its weight is the largest, and the threshold lies between the two sorts."""
    noise = np.random.default_rng(0).normal(size=(400, 3, len(relevance.FEATURES)))
    examples = []
    for number, rows in enumerate(noise):
        is_absent = number % 2 == 0
        answers = np.array([not is_absent, False, False])
        rows[:, 0] = np.where(answers, 10.0, 0.0) + rows[:, 0]
        examples.append(Example(is_absent, rows, answers))
    line = fitted(examples)
    assert line.weights.argmax() == 0
    best = [1 / (1 + np.exp(-(example.rows @ line.weights + line.intercept).max())) for example in examples]
    assert all((value < line.threshold) == example.is_absent for value, example in zip(best, examples, strict=True))
    assert set(line.json()) == {"weights", "intercept", "threshold"}
