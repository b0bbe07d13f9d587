"""Everything that can go wrong, as one tree of three families.

ZhidaError                      a sentence for people, in Chinese and in English
├── ConfigurationError          the start (or a profile switch) is refused; the sentence names the remedy
│   └── WeightsError            the model's files are missing, broken or of the wrong kind
├── RequestError                this question only; the next one may well work
│   ├── PromptTooLong           the prompt exceeds the context window; carries the sizes in tokens
│   ├── EngineBusy              no room now: the queue is full, or the server answered 429 or 503
│   ├── EngineTimeout           the engine accepted the question and went silent
│   ├── StreamBroken            the answer broke off; what has arrived is kept
│   └── RequestRejected         the engine refused the request for another reason
└── EngineDead                  the engine is gone and has to be started again

The backends translate every exception of their library into this tree; nothing else may leave them
but asyncio.CancelledError.
"""

from engine.words import Words


class ZhidaError(Exception):
    """Base of the tree; `words` is what a person is told."""

    def __init__(self, words: Words) -> None:
        super().__init__(words.zh)
        self.words = words


class ConfigurationError(ZhidaError):
    """The engine cannot be started like this."""


class WeightsError(ConfigurationError):
    """The model's files cannot be used."""


class RequestError(ZhidaError):
    """One question failed."""


class PromptTooLong(RequestError):
    """The prompt does not fit: `size` and `limit` are tokens; `size` is None where the engine did not say."""

    def __init__(self, limit: int, size: int | None = None) -> None:
        counted = f"{size} 个词元，" if size is not None else ""
        counted_en = f"{size} tokens, " if size is not None else ""
        super().__init__(
            Words(
                f"内容过长：{counted}上限 {limit} 个词元。请缩短问题，或分几次提问。",
                f"Too long: {counted_en}the limit is {limit} tokens. Shorten the question or split it.",
            )
        )
        self.size, self.limit = size, limit


class EngineBusy(RequestError):
    """No room for this question now."""


class EngineTimeout(RequestError):
    """The engine went silent."""


class StreamBroken(RequestError):
    """The answer broke off in the middle."""


class RequestRejected(RequestError):
    """The engine refused the request."""


class EngineDead(ZhidaError):
    """The engine is gone."""
