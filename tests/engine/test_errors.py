"""Every exception that openai and its HTTP client can raise becomes one of ours, with a sentence of ours."""

import importlib
import inspect
import pkgutil
import re
import ssl
from collections.abc import Iterator

import httpx2
import openai
import pytest

from engine import errors
from engine.errors import (
    EngineBusy,
    EngineDead,
    EngineTimeout,
    PromptTooLong,
    RequestRejected,
    StreamBroken,
    ZhidaError,
)
from engine.refusals import refusal
from engine.server import translate

REQUEST = httpx2.Request("POST", "http://127.0.0.1:8001/v1/chat/completions")
INNER = "inner words of a library"

EXPECTED: dict[str, tuple[type[ZhidaError], type[ZhidaError]]] = {
    # class: (before the answer begins, in its middle)
    "APIConnectionError": (EngineDead, StreamBroken),
    "APIError": (RequestRejected, StreamBroken),
    "APIRemovedInV1": (RequestRejected, StreamBroken),
    "APIResponseValidationError": (RequestRejected, StreamBroken),
    "APIStatusError": (RequestRejected, RequestRejected),
    "APITimeoutError": (EngineTimeout, EngineTimeout),
    "AuthenticationError": (RequestRejected, RequestRejected),
    "BadRequestError": (RequestRejected, RequestRejected),
    "ConflictError": (RequestRejected, RequestRejected),
    "ContentFilterFinishReasonError": (RequestRejected, RequestRejected),
    "InternalServerError": (RequestRejected, RequestRejected),
    "LengthFinishReasonError": (RequestRejected, StreamBroken),
    "MutuallyExclusiveAuthError": (RequestRejected, StreamBroken),
    "NotFoundError": (RequestRejected, RequestRejected),
    "OAuthError": (RequestRejected, RequestRejected),
    "OpenAIError": (RequestRejected, StreamBroken),
    "PermissionDeniedError": (RequestRejected, RequestRejected),
    "RateLimitError": (EngineBusy, EngineBusy),
    "StreamAlreadyConsumed": (RequestRejected, StreamBroken),
    "SubjectTokenProviderError": (RequestRejected, StreamBroken),
    "UnprocessableEntityError": (RequestRejected, RequestRejected),
    "WebSocketConnectionClosedError": (RequestRejected, StreamBroken),
    "WebSocketQueueFullError": (RequestRejected, StreamBroken),
    "_AmbiguousModuleClientUsageError": (RequestRejected, StreamBroken),
}
STATUSES = {
    "BadRequestError": 400,
    "AuthenticationError": 401,
    "OAuthError": 401,
    "PermissionDeniedError": 403,
    "NotFoundError": 404,
    "ConflictError": 409,
    "UnprocessableEntityError": 422,
    "RateLimitError": 429,
    "InternalServerError": 500,
}


def descendants(kind: type[Exception]) -> Iterator[type[Exception]]:
    """`kind` and all below it that its own package defines (others derive from it too)."""
    yield kind
    package = kind.__module__.partition(".")[0]
    for child in kind.__subclasses__():
        if child.__module__.partition(".")[0] == package:
            yield from descendants(child)


def openai_errors() -> dict[str, type[Exception]]:
    """Every exception class that the installed openai defines under its base."""
    for module in pkgutil.iter_modules(openai.__path__, "openai."):
        if not module.ispkg and module.name != "openai.__main__":
            importlib.import_module(module.name)
    importlib.import_module("openai.lib.azure")
    importlib.import_module("openai.lib._old_api")
    return {kind.__name__: kind for kind in descendants(openai.OpenAIError)}


def example(kind: type[Exception]) -> Exception:
    """An instance, by whatever arguments its constructor demands."""
    status = STATUSES.get(kind.__name__, 418)
    values = {
        "message": INNER,
        "request": REQUEST,
        "response": httpx2.Response(status, request=REQUEST, text=INNER),
        "body": {"error": INNER},
        "unsent_messages": [],
        "symbol": INNER,
        "completion": _Completion(),
    }
    needed = inspect.signature(kind.__init__).parameters
    return kind(**{name: values[name] for name in needed if name in values})


class _Completion:
    usage = None


@pytest.mark.parametrize("name", sorted(openai_errors()))
@pytest.mark.parametrize("answering", [False, True])
def test_every_error_of_openai_is_mapped(name: str, answering: bool) -> None:
    """A class that the table does not know, such as a new release's, fails here."""
    assert name in EXPECTED, f"openai has a new exception, {name}: decide what it means"
    error = translate(example(openai_errors()[name]), 4096, answering)
    assert type(error) is EXPECTED[name][answering]
    assert INNER not in error.words.zh + error.words.en


def test_the_table_names_only_what_exists() -> None:
    """Nothing stale stays in the table."""
    assert set(EXPECTED) == set(openai_errors())


@pytest.mark.parametrize(
    "kind",
    [kind for kind in descendants(httpx2.HTTPError) if kind not in (httpx2.HTTPError, httpx2.HTTPStatusError)],
    ids=lambda kind: kind.__name__,
)
def test_every_error_of_the_http_client_is_mapped(kind: type[httpx2.RequestError]) -> None:
    """Time-outs are silence, except while connecting; the rest is a dead engine, or a broken answer once it began."""
    error = kind(INNER, request=REQUEST)
    if kind is httpx2.ConnectTimeout:
        expected: tuple[type[ZhidaError], type[ZhidaError]] = (EngineDead, EngineDead)
    elif issubclass(kind, httpx2.TimeoutException):
        expected = (EngineTimeout, EngineTimeout)
    else:
        expected = (EngineDead, StreamBroken)
    assert (type(translate(error)), type(translate(error, answering=True))) == expected
    assert INNER not in translate(error).words.en


@pytest.mark.parametrize("error", [TimeoutError(), ssl.SSLError(INNER), OSError(INNER), ValueError(INNER)])
def test_what_python_raises_is_mapped(error: Exception) -> None:
    """Sockets, TLS, and JSON or UTF-8 that is none."""
    assert isinstance(translate(error), ZhidaError)
    assert INNER not in translate(error).words.zh


def test_a_connection_that_never_came_about() -> None:
    """openai's time-out while connecting is an engine that is gone, with its address."""
    error = openai.APITimeoutError(REQUEST)
    error.__cause__ = httpx2.ConnectTimeout("", request=REQUEST)
    translated = translate(error)
    assert isinstance(translated, EngineDead)
    assert "http://127.0.0.1:8001" in translated.words.zh


@pytest.mark.parametrize(
    ("message", "size", "limit"),
    [
        (
            "This model's maximum context length is 4096 tokens. However, you requested 512 output tokens and your prompt "
            "contains 5000 input tokens, for a total of 5512 tokens. Please reduce the length of the input prompt",
            5000,
            4096,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 512 output tokens and your prompt "
            "contains 4000 input tokens, for a total of 4512 tokens.",
            4000,
            3584,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 512 output tokens and your prompt "
            "contains at least 4097 input tokens, for a total of at least 4609 tokens.",
            None,
            4096,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 0 output tokens and your prompt "
            "contains 900000 characters (more than 32768 characters, which is the upper bound for 4096 input tokens).",
            None,
            4096,
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 4600 tokens (4000 in the messages, "
            "600 in the completion). Please reduce the length of the messages or completion.",
            4000,
            3496,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 1024. This model's maximum context length is 4096 tokens "
            "and your request has 3900 input tokens (1024 > 4096 - 3900).",
            3900,
            3072,
        ),
        ("request (5000 tokens) exceeds the available context size (2048 tokens), try increasing it", 5000, 2048),
        ("context_length_exceeded", None, 8192),
    ],
)
def test_sizes_of_a_prompt_too_long(message: str, size: int | None, limit: int) -> None:
    """Servers word it differently; sizes in characters are not taken for tokens."""
    error = refusal(400, message, window=8192)
    assert isinstance(error, PromptTooLong)
    assert (error.size, error.limit) == (size, limit)


def test_the_tree_is_as_drawn() -> None:
    """Each class stands below the one under which the docstring draws it."""
    above: dict[int, type[Exception]] = {0: ZhidaError}
    drawn = re.findall(r"^(.*)── (\w+)", errors.__doc__ or "", flags=re.MULTILINE)
    assert drawn
    for indent, name in drawn:
        depth = len(indent) // 4 + 1
        above[depth] = getattr(errors, name)
        assert above[depth].__base__ is above[depth - 1]


def test_english_has_no_chinese() -> None:
    """Both languages are what they claim to be."""
    for status in (400, 401, 404, 413, 429, 500, 503):
        words = refusal(status, "", 4096).words
        assert words.en.isascii()
        assert not words.zh.isascii()
