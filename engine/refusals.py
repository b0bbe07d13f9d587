"""What a server's refusal means: for the one who asked, and for a start that waits for the server."""

import re
from http import HTTPStatus

import httpx2

from engine.endpoint import Endpoint
from engine.errors import ConfigurationError, EngineBusy, EngineDead, PromptTooLong, RequestRejected, ZhidaError
from engine.words import Words

LIMIT = re.compile(r"maximum context length (?:is|of) (\d+)|context size \((\d+)")
SIZE = re.compile(
    r"contains (\d+) input tokens|(\d+) in the messages|requested (\d+) tokens in the messages"
    r"|your request has (\d+) input tokens|resulted in (\d+) tokens|request \((\d+) tokens\)"
)
REPLY = re.compile(r"requested (\d+) output tokens|(\d+) in the completion|is too large: (\d+)")
"""The wordings of vLLM from 0.8 to 0.29, OpenAI and llama.cpp."""

BUSY = (429, 502, 503, 504)
STARTING = (408, 429, 500, 502, 503, 504)
KEY, MODEL, LARGE = (401, 403), 404, 413

SILENT = Words("模型服务长时间没有应答，请再问一次。", "The model server went silent. Please ask again.")
GARBLED = Words("模型服务的应答无法识别，请再问一次。", "The model server's answer makes no sense. Please ask again.")
SICK = Words(
    "模型服务内部出错，请重新启动它（make serve）。",
    "The model server has failed; start it again (make serve).",
)


DEAD = "EngineCore encountered an issue"
"""What vLLM's server answers with 500 while it shuts down after its engine died."""


def refusal(status: int, message: str, window: int) -> ZhidaError:
    """The error for an HTTP answer that is none; `window` stands in for a limit that `message` does not name."""
    if DEAD in message:
        return EngineDead(SICK)
    if status < HTTPStatus.INTERNAL_SERVER_ERROR and (LIMIT.search(message) or "context_length_exceeded" in message):
        return too_long(message, window)
    if status in BUSY:
        return EngineBusy(
            Words(
                f"模型服务暂时无法应答（{status}），可能正忙或仍在加载，请稍后再试。",
                f"The model server cannot answer now ({status}); it is busy or loading. Try again shortly.",
            )
        )
    return RequestRejected(_sentence(status))


def refused(frame: object, window: int) -> ZhidaError:
    """The error for an error frame that came in place of an answer: OpenAI's object, or just a sentence."""
    body = frame if isinstance(frame, dict) else {"message": frame}
    code = body.get("code")
    return refusal(
        code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR, str(body.get("message")), window
    )


def too_long(message: str, window: int) -> PromptTooLong:
    """The sizes in the message. If only prompt and reply together are too much, the limit is what the reply leaves."""
    limit, size, reply = _number(LIMIT, message) or window, _number(SIZE, message), _number(REPLY, message)
    if size is not None and size <= limit and reply:
        limit = max(limit - reply, 0)
    return PromptTooLong(limit, size)


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return int(next(group for group in found.groups() if group)) if found else None


def _sentence(status: int) -> Words:
    if status in KEY:
        return Words(
            f"模型服务拒绝了密钥（{status}），请检查 ENGINE_API_KEY。",
            f"The model server refused the key ({status}); check ENGINE_API_KEY.",
        )
    if status == MODEL:
        return Words(
            "模型服务上没有这个模型（404），它可能已换了模型：请重启本应用，或检查 ENGINE_BASE_URL。",
            "The model server does not have this model (404), it may serve another one now: restart this app, "
            "or check ENGINE_BASE_URL.",
        )
    if status == LARGE:
        return Words(
            "内容超过模型服务允许的大小（413），请缩短问题。",
            "Larger than the model server allows (413); shorten it.",
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Words(
            f"模型服务内部出错（{status}），请再问一次；若反复出现，请查看模型服务的日志。",
            f"The model server failed ({status}). Ask again; if it keeps failing, look at the server's log.",
        )
    return Words(
        f"模型服务不接受这个请求（{status}）。请换个问法，或在设置中恢复默认参数。",
        f"The model server does not accept this request ({status}). Rephrase it, or go back to the default settings.",
    )


def unreachable(address: str, is_local: bool) -> Words:
    """The sentence for a server that is not there."""
    if is_local:
        return Words(
            f"连不上模型服务 {address}，请运行 make serve 启动它。",
            f"No model server at {address}: run make serve.",
        )
    return Words(f"连不上模型服务 {address}，请检查它是否已启动。", f"No model server at {address}: is it running?")


def obstacle(error: httpx2.HTTPError, endpoint: Endpoint) -> Words:
    """What a start is waiting for. Raises ConfigurationError where waiting cannot help."""
    match error:
        case httpx2.HTTPStatusError():
            return _starting(error.response, endpoint)
        case httpx2.ConnectTimeout():
            return unreachable(endpoint.address, endpoint.is_local)
        case httpx2.TimeoutException():
            return Words("模型加载中：服务已连上，还没有应答", "The model is loading: connected, no answer yet")
        case httpx2.ConnectError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise ConfigurationError(
                Words(
                    f"{endpoint.address} 的证书无法验证。自签证书请把根证书文件写入 SSL_CERT_FILE。",
                    f"The certificate of {endpoint.address} is not trusted: name your root's file in SSL_CERT_FILE.",
                )
            ) from error
    return unreachable(endpoint.address, endpoint.is_local)


def _starting(response: httpx2.Response, endpoint: Endpoint) -> Words:
    status = response.status_code
    if status in STARTING:
        return Words(
            f"模型加载中：服务还没有就绪（{status}）",
            f"The model is loading: the server is not ready ({status})",
        )
    if status in KEY:
        raise ConfigurationError(_sentence(status))
    if status == HTTPStatus.NOT_FOUND and not endpoint.base.endswith("/v1"):
        raise ConfigurationError(
            Words(
                f"ENGINE_BASE_URL 少了 /v1：应为 {endpoint.address.rstrip('/')}/v1。",
                f"ENGINE_BASE_URL lacks /v1: it should be {endpoint.address.rstrip('/')}/v1.",
            )
        )
    raise ConfigurationError(not_a_server(endpoint, f"（{status}）"))


def not_a_server(endpoint: Endpoint, detail: str = "") -> Words:
    """The sentence for an address where something else answers."""
    return Words(
        f"{endpoint.address} 不是 OpenAI 兼容的模型服务{detail}，请检查 ENGINE_BASE_URL（是否写成了本应用的地址？）。",
        f"{endpoint.address} is no OpenAI-compatible server{detail}; check ENGINE_BASE_URL (is it this app itself?).",
    )
