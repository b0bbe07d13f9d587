"""知识助手 over the socket, with a real library: files in, cited answers or a refusal out, and whose files they are."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.company import PRICES, SERVICE, TRAVEL, CompanyPage, long_pdf, prices, service, started, travel
from tests.app_server import AppServer
from tests.knowledge.made_files import encrypted_pdf, ole, pdf

KNOWLEDGE = "知识助手"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppServer]:
    """One app for this file's tests; nobody may change its shared library."""
    with started(tmp_path_factory.mktemp("knowledge") / "app", KNOWLEDGE_ALLOW_EDIT="false") as app:
        yield app.ready()


def stored(app: AppServer) -> list[Path]:
    """Every file under the chats' part of the library; folders may go while they are looked at."""
    folder = app.folder / ".data" / "knowledge" / "chats"
    return [Path(parent) / name for parent, _, names in os.walk(folder) for name in names]


async def test_three_files_and_a_question_in_one_message(app: AppServer, tmp_path: Path) -> None:
    """Read first, then answered; the citation opens the page, the sentence marked; the footer lists the source."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        files = ((TRAVEL, travel(tmp_path)), (SERVICE, service(tmp_path)), (PRICES, prices(tmp_path)))
        await page.drop(*files, question="出差住宿的上限是多少")
        assert [(file["name"], file["stage"]) for file in page.shown] == [
            (name, "ready") for name in (TRAVEL, SERVICE, PRICES)
        ]
        assert page.answer == "住宿费上限为每晚 500 元。[1]"
        assert page.footer["sources"] == [{"number": 1, "name": TRAVEL, "place": "第 2 页"}]
        opened = page.opened(1)
        assert (opened["name"], opened["page"], opened["isShared"]) == (TRAVEL, 2, False)
        assert "每晚 500 元" in "".join(piece["text"] for piece in opened["pieces"] if piece["marked"])
        await page.ask("退货期限几天")
        assert page.answer == "退货期限是15天。[1]"
        assert page.opened(1)["name"] == SERVICE
        await page.ask("XJ-2048 多少钱")
        assert "〔未在资料中找到依据〕" in page.answer
        assert page.opened(1)["place"] == "工作表 2026年价目 第 2 行"


async def test_what_the_files_do_not_say_is_refused_without_the_model(app: AppServer, tmp_path: Path) -> None:
    """No slot is taken, and the refusal is not part of what the model sees later."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        await page.drop((SERVICE, service(tmp_path)))
        admitted = app.metric("zhida_queue_wait_seconds_count")
        assert (await page.ask("彩虹为什么有七种颜色")).startswith("资料中未找到相关内容")
        assert app.metric("zhida_queue_wait_seconds_count") == admitted
        await page.ask("退货期限几天")
        assert app.metric("zhida_queue_wait_seconds_count") == admitted + 1


async def test_an_empty_library_says_how_to_fill_it(app: AppServer) -> None:
    """Instead of a refusal that leads nowhere."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        assert "python -m knowledge add" in await page.ask("年假几天")


async def test_a_model_that_refuses_is_replaced_by_the_passage(app: AppServer, tmp_path: Path) -> None:
    """The gate was sure: the best passage stands there word for word."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        await page.drop(("口令.txt", "服务器的口令由信息部每季度更换一次。".encode()))
        await page.ask("口令多久更换一次")
        assert "服务器的口令由信息部每季度更换一次" in page.answer
        assert page.footer["notices"][0] == "模型的回答没有通过核对，这里是最相关的资料原文"
        assert page.opened(1)["name"] == "口令.txt"


async def test_a_file_of_the_same_name_replaces_the_old_one(app: AppServer, tmp_path: Path) -> None:
    """K8: said so, one file, and none left of the old text; the same bytes again change nothing."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        old, new = travel(tmp_path, 450), travel(tmp_path, 500)
        await page.drop((TRAVEL, old))
        await page.drop((TRAVEL, new))
        assert page.shown[0]["notes"] == ["已替换同名的旧文件"]
        await page.drop((TRAVEL, new))
        assert page.shown[0]["notes"] == ["和已有的文件完全相同"]
        await page.ask("出差住宿的上限是多少")
        assert "450" not in str(page.opened(1)["pieces"])
        assert len((await page.act("list_files"))["files"]) == 1


async def test_names_are_shown_right_and_kept_apart(app: AppServer) -> None:
    """K7: brackets, folders, 300 characters, and two of one name in one drop; nothing lies outside the app's folders."""
    before = {path for path in app.folder.parent.rglob("*") if ".data" not in path.parts and ".files" not in path.parts}
    long = "很长的名字" * 60 + ".txt"
    names = ["合同（最终版）.txt", "../../etc/p.txt", long, "制度.txt", "制度.txt"]
    texts = ["违约金为百分之五", "第二个文件", "第三个文件", "午休一小时", "午休两小时"]
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        await page.drop(*((name, f"{text}。".encode()) for name, text in zip(names, texts, strict=True)))
        assert page.stages() == ["ready"] * 5
        shown = ["合同（最终版）.txt", "p.txt", long, "制度.txt", "制度 (2).txt"]
        assert [file["name"] for file in page.shown] == shown
        assert sorted(file["name"] for file in (await page.act("list_files"))["files"]) == sorted(shown)
    after = {path for path in app.folder.parent.rglob("*") if ".data" not in path.parts and ".files" not in path.parts}
    assert {path for path in after - before if "__pycache__" not in path.parts} == set()


async def test_a_bad_file_is_refused_and_the_rest_goes_on(app: AppServer, tmp_path: Path) -> None:
    """K3: one Chinese sentence each; an owner's password alone is none."""
    secret = encrypted_pdf(tmp_path / "secret.pdf", "user", "owner").read_bytes()
    old = ole(tmp_path / "old.doc", "WordDocument").read_bytes()
    scan = pdf(tmp_path / "scan.pdf", [[]]).read_bytes()
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        await page.drop(("密.pdf", secret), ("旧.doc", old), ("扫描.pdf", scan), (SERVICE, service(tmp_path)))
        assert page.stages() == ["refused", "refused", "refused", "ready"]
        assert [note[:5] for file in page.shown[:3] for note in file["notes"]] == [
            "文件已加密",
            "这是旧版 ",
            "未提取到文",
        ]
        assert len((await page.act("list_files"))["files"]) == 1


async def test_more_files_than_a_message_may_have(app: AppServer) -> None:
    """The page's own limit is never enforced by Chainlit's server."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        await page.drop(*((f"{number}.txt", f"第 {number} 号文件。".encode()) for number in range(22)))
        assert page.stages() == ["ready"] * 20 + ["refused"] * 2
        assert page.shown[-1]["notes"][0].startswith("一次最多 20 个文件")


async def test_files_in_a_plain_chat_turn_it_to_documents(app: AppServer, tmp_path: Path) -> None:
    """Said in one line; once the file is deleted, the chat talks freely again."""
    async with CompanyPage(app.url) as page:
        assert await page.ask("退货期限几天") == "这是闲聊。"
        await page.drop((SERVICE, service(tmp_path)), question="退货期限几天")
        assert page.note.startswith("从现在起，这个对话只依据资料回答")
        assert page.answer == "退货期限是15天。[1]"
        (file,) = (await page.act("list_files"))["files"]
        assert (await page.act("remove_file", origin=file["origin"], shared=False))["files"] == []
        assert await page.ask("退货期限几天") == "这是闲聊。"


async def test_a_question_during_the_reading_waits_for_it(app: AppServer, tmp_path: Path) -> None:
    """In a plain chat too: asked while the files are read, it is answered from them."""
    async with CompanyPage(app.url) as page:
        long, short = await page.upload("长.pdf", long_pdf(tmp_path, 60)), await page.upload(SERVICE, service(tmp_path))
        await page.send("", files=[long.json()["id"], short.json()["id"]])
        await page.until(lambda: page.stages() not in ([], ["waiting", "waiting"]))
        await page.send("退货期限几天")
        assert page.stages() != ["ready", "ready"], "the files were ready too soon to tell anything: make them longer"
        await page.until(lambda: page.answer == "退货期限是15天。[1]", 60)


async def test_a_chats_files_are_its_own(app: AppServer, tmp_path: Path) -> None:
    """Another chat neither finds nor fetches them; a dropped socket deletes nothing."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page, CompanyPage(app.url, profile=KNOWLEDGE) as other:
        content = service(tmp_path)
        await page.drop((SERVICE, content))
        (file,) = (await page.act("list_files"))["files"]
        address = f"{app.url}/knowledge/original/{file['digest']}?session_id="
        assert "python -m knowledge add" in await other.ask("退货期限几天")
        async with httpx.AsyncClient(trust_env=False) as http:
            assert (await http.get(address + page.session_id)).content == content
            assert (await http.get(address + other.session_id)).status_code == 404
            assert (await http.get(address + "nobody")).status_code == 401
            await page.leave()
            assert (await http.get(address + page.session_id)).status_code == 200
        assert any(file["digest"] in path.name for path in stored(app))


async def test_a_new_chat_deletes_the_files_of_the_old_one(tmp_path: Path) -> None:
    """From the disk too, at once; and so does the end of the app."""
    with started(tmp_path / "app") as app:
        app.ready()
        async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
            await page.drop((SERVICE, service(tmp_path)))
            assert stored(app)
            await page.new_chat()
        async with asyncio.timeout(30):
            while any("originals" in str(path) for path in stored(app)):
                await asyncio.sleep(0.05)
        async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
            await page.drop((SERVICE, service(tmp_path)))
            assert stored(app)
    assert not any("originals" in str(path) for path in stored(app))


async def test_who_may_not_edit_the_shared_library(app: AppServer, tmp_path: Path) -> None:
    """KNOWLEDGE_ALLOW_EDIT=false: the list says so, and the server refuses what a page sends all the same."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        await page.drop((SERVICE, service(tmp_path)))
        (file,) = (listed := await page.act("list_files"))["files"]
        assert listed["mayEdit"] is False
        refused: list[dict[str, Any]] = [
            await page.act("share_file", origin=file["origin"]),
            await page.act("remove_file", origin=file["origin"], shared=True),
        ]
        assert all(answer["error"].startswith("这里不允许改动公共资料库") for answer in refused)
        assert refused[-1]["files"] == listed["files"]


async def test_sharing_a_file(tmp_path: Path) -> None:
    """On this machine alone, without a word in .env: the file moves to the shared library, and every chat may ask it."""
    with started(tmp_path / "app") as app:
        app.ready()
        async with CompanyPage(app.url, profile=KNOWLEDGE) as page, CompanyPage(app.url, profile=KNOWLEDGE) as other:
            content = service(tmp_path)
            await page.drop((SERVICE, content))
            (file,) = (await page.act("list_files"))["files"]
            (shared,) = (await page.act("share_file", origin=file["origin"]))["files"]
            assert shared["shared"] is True
            assert await other.ask("退货期限几天") == "退货期限是15天。[1]"
            assert other.opened(1)["isShared"] is True
            upload = next(element for element in page.elements.values() if element["name"] == SERVICE)
            linked = app.get(f"/project/file/{upload['chainlitKey']}?session_id={page.session_id}")
            assert linked.content == content
            assert (await page.act("remove_file", origin=shared["origin"], shared=True))["files"] == []
            assert "python -m knowledge add" in await other.ask("退货期限几天")


async def test_stop_ends_the_reading(app: AppServer, tmp_path: Path) -> None:
    """Nothing of the file stays, the question sent with it is not asked, and the chat goes on."""
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page:
        reply = await page.upload("长.pdf", long_pdf(tmp_path, 600))
        await page.send("巡检记录正常吗", files=[reply.json()["id"]])
        await page.until(lambda: page.stages() in (["reading"], ["splitting"], ["indexing"]))
        await page.stop()
        await page.until(lambda: not page.busy)
        assert page.stages() == ["stopped"]
        assert (await page.act("list_files"))["files"] == []
        assert "python -m knowledge add" in await page.ask("巡检记录正常吗")


async def test_others_are_answered_while_a_long_file_is_read(app: AppServer, tmp_path: Path) -> None:
    """S8: of 200 pages: another chat's whole answer comes, letter by letter, and health answers, before the file is ready."""
    content = long_pdf(tmp_path)
    async with CompanyPage(app.url, profile=KNOWLEDGE) as page, CompanyPage(app.url) as other:
        reply = await page.upload("长.pdf", content)
        await page.send("", files=[reply.json()["id"]])
        await page.until(lambda: page.stages() not in ([], ["waiting"]))
        seen = len(other.events)
        await other.send("慢")
        async with httpx.AsyncClient(trust_env=False, timeout=1) as http:
            for wanted in (5, 10, 15):
                await other.until(lambda wanted=wanted: bool(other.answers()) and len(other.answer) >= wanted)  # type: ignore[misc]
                assert (await http.get(f"{app.url}/health/live")).status_code == 200
        assert page.stages() != ["ready"], "the file was ready too soon to tell anything: make it longer"
        assert sum(1 for event, _ in other.events[seen:] if event == "stream_token") >= 5
        await page.until(lambda: page.stages() == ["ready"], 120)


async def test_what_is_typed_reaches_the_model_as_typed(app: AppServer) -> None:
    """S5: angle brackets are no HTML."""
    async with CompanyPage(app.url) as page:
        assert await page.ask("解释 if a < b > c 这一行") == "看到了"


async def test_breaks_in_a_tables_cell(app: AppServer) -> None:
    """S5: `<br>` in a cell becomes the character that breaks a line there; everywhere else text stays as it is."""
    async with CompanyPage(app.url) as page:
        answer = await page.ask("画一个表格")
        assert "| 甲&#10;乙 | <img src=x onerror=alert(1)> |" in answer
        assert answer.endswith("正文 <br> 不变")
