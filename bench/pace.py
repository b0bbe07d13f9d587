"""How long levels will take, and how much shorter their answers must be to fit the time there is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

SHORTEST = 16
"""Tokens; a shorter answer says nothing about the time of a token."""
STEPS = 64


@dataclass(frozen=True, slots=True)
class Step:
    """One level of the tables: `lengths` and `answer` in tokens, `history` of each prompt that the cache may know."""

    key: str
    clients: int
    requests: int
    lengths: tuple[int, ...]
    answer: int
    history: int = 0

    @property
    def prompt_tokens(self) -> float:
        """Of all requests together; a history is computed once a client."""
        return self.requests * sum(self.lengths) / len(self.lengths) + self.history * self.clients

    def scaled(self, share: float) -> "Step":
        """With answers of `share` of their length, SHORTEST at least where they were longer."""
        return replace(self, answer=min(self.answer, max(SHORTEST, round(self.answer * share))))


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: of a prompt token, of an answer token alone, and of one among `most` answers at once."""

    prompt_token: float
    alone: float
    among_most: float
    most: int

    def token(self, at_once: int) -> float:
        """Seconds between two tokens of one of `at_once` answers; beyond `most` they wait."""
        if self.most <= 1:
            return self.alone
        crowd = (min(at_once, self.most) - 1) / (self.most - 1)
        return self.alone + (self.among_most - self.alone) * crowd

    def slower(self, factor: float) -> "Pace":
        """All of it `factor` times as long."""
        return Pace(self.prompt_token * factor, self.alone * factor, self.among_most * factor, self.most)

    def seconds(self, step: Step) -> float:
        """What a step will take."""
        at_once = min(step.clients, self.most)
        waves = math.ceil(step.requests / at_once)
        return step.prompt_tokens * self.prompt_token + waves * step.answer * self.token(at_once)


def fitting(steps: Sequence[Step], pace: Pace, budget_s: float) -> float:
    """The largest share (of STEPS equal ones) of the answers' lengths with which all steps fit; the smallest if none."""
    for part in range(STEPS, 1, -1):
        share = part / STEPS
        if sum(pace.seconds(step.scaled(share)) for step in steps) <= budget_s:
            return share
    return 1 / STEPS
