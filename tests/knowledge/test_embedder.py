"""Embedders behind an address, and the choice between them."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from engine.errors import ConfigurationError
from engine.settings import Settings
from knowledge import embedder as module
from knowledge.e5 import NO_AVX2
from knowledge.embedder import BundledEmbedder, RemoteEmbedder, choose_embedder
from knowledge.embedder_base import Unavailable
from knowledge.worker import Worker


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server(ThreadingHTTPServer):
    """An OpenAI-compatible server: `answer` makes the body of /embeddings, `asked` keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[dict[str, Any], str | None]] = []
        self.status, self.dim, self.models = 200, 4, ["first", "second"]
        self.raw: bytes | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._reply({"data": [{"id": name} for name in self.server.models]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((body, self.headers.get("authorization")))
        rows = [
            {"index": number, "embedding": [float(len(text))] + [1.0] * (self.server.dim - 1)}
            for number, text in enumerate(body["input"])
        ]
        self._reply({"data": rows[::-1]})

    def _reply(self, body: object) -> None:
        data = json.dumps(body).encode() if self.server.raw is None else self.server.raw
        self.send_response(self.server.status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A running one."""
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_server_gives_vectors_of_length_one_in_the_order_asked(server: Server) -> None:
    """In batches, with the first model that it lists, and without a prefix."""
    remote = RemoteEmbedder(server.url + "/", None, "geheim")
    vectors = remote.passages(["x" * number for number in range(1, 41)])
    assert vectors.shape == (40, 4)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert (np.diff(vectors[:, 0]) > 0).all()
    assert [len(body["input"]) for body, _ in server.asked] == [32, 8]
    assert {(body["model"], key) for body, key in server.asked} == {("first", "Bearer geheim")}
    assert (remote.id, remote.dim) == ("first", 4)


def test_the_named_model_is_asked(server: Server) -> None:
    """KNOWLEDGE_EMBEDDER_MODEL."""
    remote = RemoteEmbedder(server.url, "second", None)
    assert (remote.id, remote.dim) == ("second", 4)
    assert server.asked[0][0]["model"] == "second"
    assert server.asked[0][1] is None


@pytest.mark.parametrize(
    ("status", "raw", "told"),
    [
        (500, b"{}", "HTTP 500"),
        (200, b"<html>", "JSON"),
        (200, b'{"data": [{"index": 0, "embedding": [NaN]}]}', "向量"),
        (200, b'{"data": []}', "向量"),
        (200, b"[]", "向量"),
    ],
)
def test_an_answer_that_is_none_is_one_sentence(server: Server, status: int, raw: bytes, told: str) -> None:
    """Whatever the server does."""
    server.status, server.raw = status, raw
    with pytest.raises(Unavailable, match=told):
        RemoteEmbedder(server.url, "model", None).query(["退货"])


def test_a_server_without_models_needs_a_name(server: Server) -> None:
    """The sentence says which setting."""
    server.models = []
    with pytest.raises(Unavailable, match="KNOWLEDGE_EMBEDDER_MODEL"):
        RemoteEmbedder(server.url, None, None).query(["退货"])


def test_vectors_that_change_their_size_are_refused(server: Server) -> None:
    """The table could not take them."""
    remote = RemoteEmbedder(server.url, "model", None)
    assert remote.dim == 4
    server.dim = 5
    with pytest.raises(Unavailable, match="维数"):
        remote.passages(["退货"])


def test_a_server_that_is_not_there() -> None:
    """Refused connections are told, not raised as the library has them."""
    with pytest.raises(Unavailable, match="连不上"):
        RemoteEmbedder(f"http://127.0.0.1:{free_port()}/v1", "model", None).query(["退货"])


def test_the_setting_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    """bundled, none, an address; anything else is refused by name."""
    assert choose_embedder(Settings(knowledge_embedder="none")).embedder is None
    assert isinstance(choose_embedder(Settings(knowledge_embedder="bundled")).embedder, BundledEmbedder)
    assert isinstance(choose_embedder(Settings(knowledge_embedder="http://127.0.0.1:1/v1")).embedder, RemoteEmbedder)
    with pytest.raises(ConfigurationError, match="bundle'"):
        choose_embedder(Settings(knowledge_embedder="bundle"))
    monkeypatch.setattr(module, "refusal", lambda: NO_AVX2)
    assert choose_embedder(Settings(knowledge_embedder="bundled")) == module.Chosen(None, NO_AVX2)


def test_the_helper_process_comes_back_after_it_was_killed() -> None:
    """By whatever: the next call starts another."""
    worker = Worker()
    try:
        first = worker.call("cut", ["退货期限"])
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.call("cut", ["退货期限"]) == first
    finally:
        worker.close()


def test_what_goes_wrong_in_the_helper_process_is_raised_here() -> None:
    """And it goes on serving."""
    worker = Worker()
    try:
        with pytest.raises(KeyError):
            worker.call("unknown", [])
        assert worker.call("cut", [""]) == [""]
    finally:
        worker.close()
