"""The sentences that the bench refuses with, and what it says on the way."""

import sys

from engine.errors import ConfigurationError
from engine.words import Words


def refused(zh: str, en: str) -> ConfigurationError:
    """A refusal to measure, as one sentence in each language."""
    return ConfigurationError(Words(zh, en))


def say(text: str) -> None:
    """Progress goes to standard error: standard output is for results."""
    print(text, file=sys.stderr, flush=True)
