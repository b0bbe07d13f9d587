"""Questions answered by the engine as the app answers them, and what became of the answers."""

import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from assistant.budget import TokenCosts, fit
from bench.knowledge.claims import claims, has_facts, unsupported
from bench.knowledge.metrics import Asked
from engine.base import Engine, Sampling
from engine.errors import ZhidaError
from engine.settings import Settings
from knowledge.base import Hit
from knowledge.check import Checked, check
from knowledge.grounding import SYSTEM_PROMPT, refusal

TEMPERATURE = 0.1
"""As the app's knowledge profile asks."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One question's answer, before and after the check; `checked` None where the gate refused or the engine failed."""

    asked: Asked
    raw: str
    text: str
    passages: tuple[Hit, ...]
    """What the model was given: [1] is the first."""
    checked: Checked | None
    seconds: float
    error: str | None = None

    def json(self) -> dict[str, object]:
        """As plain data."""
        question = self.asked.question
        return {
            "id": question.id, "question": question.text, "raw": self.raw, "text": self.text,
            "has_facts": has_facts(self.text, question), "fallback": bool(self.checked and self.checked.fallback),
            "seconds": self.seconds, "error": self.error,
        }  # fmt: skip


class Answerer:
    """Asks `engine` with the app's prompt, budget and check; every question opens a chat of its own."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._window = engine.info.window
        self._sampling = Sampling(TEMPERATURE, max_tokens=min(settings.engine_max_tokens, self._window // 2))
        self._costs = TokenCosts(engine.count, engine.info.model, {})

    async def answer(self, asked: Asked, number: int) -> Answered:
        """Search time included; below the gate the model is not asked."""
        if not asked.is_sure:
            return Answered(asked, "", refusal(asked.hits).zh, (), None, asked.seconds)
        began = time.perf_counter()
        try:
            raw, passages = await self._generate(asked, number)
        except ZhidaError as error:
            return Answered(asked, "", "", (), None, time.perf_counter() - began, type(error).__name__)
        checked = check(raw, passages, asked.question.text)
        seconds = asked.seconds + time.perf_counter() - began
        return Answered(asked, raw, checked.text, passages, checked, seconds)

    async def _generate(self, asked: Asked, number: int) -> tuple[str, tuple[Hit, ...]]:
        fitted = await fit(
            SYSTEM_PROMPT.zh, [], asked.question.text, reserve=self._sampling.max_tokens, window=self._window,
            count=self._engine.count, costs=self._costs, passages=asked.passages,
        )  # fmt: skip
        texts = []
        async with aclosing(self._engine.stream(fitted.messages, self._sampling, f"bench-{number}")) as deltas:
            async for delta in deltas:
                texts.append(delta.text)
        return "".join(texts), fitted.passages


def summary(answered: Sequence[Answered]) -> dict[str, object]:
    """Counts, and the shares that they make."""
    good = [one for one in answered if one.checked]
    cited = [(claim, one) for one in good for claim in claims(one.text)]
    before = [unsupported(one.raw, one.passages, one.asked.question.text) for one in good]
    after = [unsupported(one.text, one.passages, one.asked.question.text) for one in good]
    answerable = [one for one in good if not one.asked.question.is_absent]
    return {
        "questions": len(answered),
        "asked_the_model": len(good),
        "errors": sum(one.error is not None for one in answered),
        "refused_by_gate": sum(not one.asked.is_sure for one in answered),
        "refused_by_model": sum(bool(one.checked and one.checked.refused) for one in good),
        "shown_verbatim": sum(bool(one.checked and one.checked.fallback) for one in good),
        "citations": len(cited),
        "citations_right": sum(claim.is_right(one.passages) for claim, one in cited),
        "answers_without_citation": sum(not claims(one.text) for one in good),
        "answers_citing_the_right_passage": sum(_cites_right(one) for one in answerable),
        "answerable_answered": len(answerable),
        "answers_with_all_facts": sum(has_facts(one.text, one.asked.question) for one in answerable),
        "numbers_before": sum(said for said, _ in before),
        "numbers_unsupported_before": sum(wrong for _, wrong in before),
        "numbers_after": sum(said for said, _ in after),
        "numbers_unsupported_after": sum(wrong for _, wrong in after),
    }


def _cites_right(one: Answered) -> bool:
    """A passage that is cited has the answer."""
    numbers = {number for claim in claims(one.text) for number in claim.cited if 1 <= number <= len(one.passages)}
    return any(one.asked.question.is_answered_by(one.passages[number - 1]) for number in numbers)
