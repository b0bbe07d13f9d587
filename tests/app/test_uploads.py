"""S6: what is uploaded over HTTP, what is refused, and how it is served back: never as a page of this origin."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import socketio

from assistant import intake, upload_names
from knowledge.readers.kinds import SUFFIXES
from tests.app.company import CompanyPage, started, travel
from tests.app_server import ROOT, AppServer


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app for this file's tests."""
    with started(tmp_path_factory.mktemp("uploads") / "app") as app:
        yield app.ready()


def left(app: AppServer, page: CompanyPage) -> list[Path]:
    """What lies in the session's folder."""
    return [path for path in (app.folder / ".files" / page.session_id).rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.py", "text/x-python"),
        ("a", "text/html"),
        ("a.html", "text/plain"),
        ("页.HTM", "text/markdown"),
        ("a.js", "text/javascript"),
        ("a.txt/../b.svg", "text/plain"),
    ],
)
async def test_kinds_that_nothing_reads_are_refused(app: AppServer, name: str, kind: str) -> None:
    """With a Chinese sentence that names the kinds that are read; nothing is stored."""
    async with CompanyPage(app.url) as page:
        reply = await page.upload(name, b"<svg onload='alert(1)'>", kind)
        assert reply.status_code == 400
        assert "PDF" in reply.json()["detail"]
        assert left(app, page) == []


async def test_an_empty_file_and_one_too_large(app: AppServer) -> None:
    """Each is told at once, and the next upload works."""
    async with CompanyPage(app.url) as page:
        assert (await page.upload("空.txt", b"")).json()["detail"].startswith("文件是空的")
        too_large = await page.upload("大.txt", b"0" * (101 * 2**20))
        assert too_large.status_code == 400
        assert too_large.json()["detail"].startswith("文件有 101 MB，超过 100 MB")
        assert left(app, page) == []
        assert (await page.upload("好.txt", b"1")).status_code == 200


async def test_a_page_that_floods_fills_no_disk(app: AppServer) -> None:
    """Uploads that no message takes are limited."""
    async with CompanyPage(app.url) as page:
        replies = [await page.upload(f"{number}.txt", b"1") for number in range(61)]
        assert [reply.status_code for reply in replies] == [200] * 60 + [400]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.csv", "text/html"), ("a.md", "image/svg+xml"), ("a.txt", "text/x-python"), ("页.txt", "a/b")],
)
async def test_what_was_uploaded_is_saved_and_never_shown(app: AppServer, name: str, kind: str) -> None:
    """Whatever type the page claims: bytes of no kind, to be saved, sniffed by nobody, under a suffix that reloads nothing."""
    content = "<!doctype html><html><body><script>alert(1)</script><p>正文在这里</p></body></html>".encode()
    async with CompanyPage(app.url) as page:
        reply = await page.upload(name, content, kind)
        assert [path.suffix for path in left(app, page)] == [".bin"]
        await page.send("", files=[reply.json()["id"]])
        await page.until(lambda: page.stages() in (["ready"], ["refused"]) and not page.busy)
        addresses = (
            [f"/project/file/{reply.json()['id']}?session_id={page.session_id}"] if page.stages() == ["ready"] else []
        )
        for file in (await page.act("list_files"))["files"]:
            addresses.append(f"/knowledge/original/{file['digest']}?session_id={page.session_id}")
        for address in addresses:
            served = app.get(address)
            assert served.content == content
            assert served.headers["content-type"] == "application/octet-stream"
            assert served.headers["content-disposition"].startswith("attachment")
            assert served.headers["x-content-type-options"] == "nosniff"


async def test_a_pdf_opens_and_its_page_is_drawn(app: AppServer, tmp_path: Path) -> None:
    """Its own type, told by its bytes; a page as a picture, marked where asked; no page beyond the last."""
    async with CompanyPage(app.url) as page:
        await page.drop(("差旅.pdf", travel(tmp_path)))
        (file,) = (await page.act("list_files"))["files"]
        query = f"session_id={page.session_id}"
        served = app.get(f"/knowledge/original/{file['digest']}?{query}")
        assert served.headers["content-type"] == "application/pdf"
        assert served.headers["content-disposition"].startswith("inline")
        plain = app.get(f"/knowledge/page/{file['digest']}/2?{query}")
        marked = app.get(f"/knowledge/page/{file['digest']}/2?{query}&mark=一线城市住宿费上限为每晚 500 元")
        assert plain.headers["content-type"] == "image/png"
        assert plain.content[:4] == b"\x89PNG"
        assert marked.status_code == 200
        assert marked.content != plain.content
        assert app.get(f"/knowledge/page/{file['digest']}/9?{query}").status_code == 404
        assert app.get(f"/knowledge/page/{'0' * 64}/1?{query}").status_code == 404


async def test_a_session_is_named_by_a_uuid(app: AppServer) -> None:
    """Chainlit makes and deletes a folder of the name that a page gives its session: `../engine` gets no socket."""
    victim = app.folder / "victim"
    victim.mkdir(exist_ok=True)
    (victim / "file").touch()
    socket = socketio.AsyncClient(reconnection=False)
    auth = {"sessionId": "../victim", "clientType": "webapp", "userEnv": "{}"}
    with pytest.raises(socketio.exceptions.ConnectionError):
        await socket.connect(app.url, socketio_path="/ws/socket.io", auth=auth, transports=["websocket"])
    await socket.disconnect()
    assert (victim / "file").exists()


async def test_the_citations_script_has_every_number(app: AppServer) -> None:
    """Chainlit asks for an element's script by its name, and a citation's name is [1]."""
    async with httpx.AsyncClient(trust_env=False) as http:
        reply = await http.get(f"{app.url}/public/elements/[12].jsx")
    assert reply.status_code == 200
    assert reply.content == (ROOT / "public" / "elements" / "Citation.jsx").read_bytes()


def test_the_page_and_the_server_agree(app: AppServer) -> None:
    """config.toml tells the page what the server takes: every suffix, and how many files."""
    text = (ROOT / ".chainlit" / "config.toml").read_text(encoding="utf-8")
    listed = re.search(r'"application/octet-stream" = \[([^\]]*)\]', text)
    assert listed
    assert {f'"{suffix}"' for suffix in SUFFIXES | upload_names.REMEDIED} <= set(listed[1].split(", "))
    assert f"max_files = {intake.MAX_FILES}" in text
