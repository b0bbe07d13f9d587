"""C1: developing with `chainlit run app.py -w`, over the socket: what is saved is loaded, what runs goes on."""

from pathlib import Path

from tests.app.company import CompanyPage
from tests.app_server import AppServer
from tests.chat_client import ChatClient


async def saved(app: AppServer, page: ChatClient, path: str, old: str, new: str) -> None:
    """Save a changed file, and wait until the browser is told to load the page again."""
    file = app.folder / path
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    await page.until(lambda: any(event == "reload" for event, _ in page.events), 30)


async def test_saving_reloads_the_callbacks_and_not_the_engine(tmp_path: Path) -> None:
    """app.py and a module saved: the change is there, the process and its engine are the same, errors are still known."""
    app = AppServer(tmp_path / "app", {"ENGINE_BACKEND": "scripted"}, watch=True)
    app.log = tmp_path / "app.log"  # outside the watched folder
    with app:
        app.ready()
        pid = app.pid
        for path, old, new in (
            ("app.py", '"""知答:', '"""知答 :'),
            ("assistant/texts.py", "请输入问题后再发送。", "请先写下问题。"),
        ):
            async with ChatClient(app.url) as page:
                await saved(app, page, path, old, new)
        async with ChatClient(app.url) as page:
            assert await page.ask("   ") == "请先写下问题。"
            assert (await page.ask("你好")).startswith("你好")
            assert (await page.ask("长" * 6000)).startswith("内容过长")
        assert app.process is not None
        assert (app.pid, app.process.poll()) == (pid, None)
        assert app.log.read_text(encoding="utf-8").count("演示脚本加载中 0%") == 1
        assert app.get("/health/ready").status_code == 200


async def test_files_reload_nothing_and_survive_a_reload(tmp_path: Path) -> None:
    """C1: what is uploaded and stored below the app's folder is no code; after a save the chat's library is still there."""
    settings = {"ENGINE_BACKEND": "scripted", "KNOWLEDGE_EMBEDDER": "none"}
    app = AppServer(tmp_path / "app", settings, watch=True)
    app.log = tmp_path / "app.log"  # outside the watched folder
    with app:
        app.ready()
        async with CompanyPage(app.url, profile="知识助手") as page:
            assert (await page.upload("a.py", b"raise SystemExit", "text/x-python")).status_code == 400
            await page.drop(("chainlit.md", "退货期限是15天。".encode()), ("b.txt", b"text/x-python"))
            assert page.stages() == ["ready", "ready"]
            await saved(app, page, "app.py", '"""知答:', '"""知答 :')
            assert [event for event, _ in page.events].count("reload") == 1
            assert len((await page.act("list_files"))["files"]) == 2
            await page.drop(("b.txt", "换货期限是30天。".encode()))
            assert page.stages() == ["ready"]
            assert page.shown[0]["notes"] == ["已替换同名的旧文件"]
        assert "Traceback" not in app.log.read_text(encoding="utf-8")
