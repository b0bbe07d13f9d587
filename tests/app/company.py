"""A small company's files, made for the tests, and a page that sends them."""

from pathlib import Path
from typing import Any

from docx import Document

from tests.app_server import AppServer
from tests.chat_client import ChatClient
from tests.knowledge.made_files import add_table, pdf, xlsx

TRAVEL, SERVICE, PRICES = "员工差旅费管理办法.pdf", "售后服务政策.docx", "产品价目表.xlsx"
SCRIPT = """
[[rules]]
match = "问题：.*住宿"
text = "住宿费上限为每晚 500 元。[1]"

[[rules]]
match = "问题：.*退货"
text = "退货期限是15天。[1]"

[[rules]]
match = "问题：.*XJ-2048"
text = "XJ-2048 的单价是 1280 元。另外赠送 3 年保修。"

[[rules]]
match = "问题：.*口令"
text = "抱歉，我无法回答这个问题。"

[[rules]]
match = "慢"
text = "慢慢地说一句很长很长的话，一直说到那个很长的文件读完为止，一个字一个字地说，不着急，慢慢来，总会说完的。"
characters_a_delta = 1
delay_s = 0.1

[[rules]]
match = "if a < b > c"
text = "看到了"

[[rules]]
match = "表格"
text = "| 项 | 值 |\\n| --- | --- |\\n| 甲<br>乙 | <img src=x onerror=alert(1)> |\\n\\n正文 <br> 不变"

[[rules]]
text = "这是闲聊。"
"""


def travel(folder: Path, limit: int = 500) -> bytes:
    """A PDF of three pages; `limit` stands on the second."""
    pages = [
        ["员工差旅费管理办法", "第一条 本办法适用于公司全体正式员工。"],
        ["第二章 住宿标准", f"第三条 一线城市住宿费上限为每晚 {limit} 元。"],
        ["第三章 报销", "第五条 出差结束后 10 个工作日内提交报销单。"],
    ]
    return pdf(folder / "made.pdf", pages).read_bytes()


def service(folder: Path) -> bytes:
    """A docx whose answer stands in a table."""
    document = Document()
    document.add_heading("售后服务政策", 1)
    document.add_heading("退货", 2)
    document.add_paragraph("客户自签收之日起可以申请退货。")
    add_table(document, [("项目", "期限"), ("退货期限", "15天"), ("换货期限", "30天")])
    document.save(str(folder / "made.docx"))
    return (folder / "made.docx").read_bytes()


def prices(folder: Path) -> bytes:
    """An xlsx of one sheet."""
    rows = [("型号", "名称", "单价（元）"), ("XJ-2048", "工业交换机", 1280), ("GR-100", "导轨电源", 168)]
    return xlsx(folder / "made.xlsx", rows, "2026年价目").read_bytes()


def long_pdf(folder: Path, pages: int = 200) -> bytes:
    """Thirty lines a page, no two the same."""
    lines = [
        [f"第 {page} 页第 {line} 行：设备编号 {page * 31 + line} 的巡检记录正常。" for line in range(30)]
        for page in range(pages)
    ]
    return pdf(folder / "long.pdf", lines).read_bytes()


class CompanyPage(ChatClient):
    """A page that sends files."""

    @property
    def shown(self) -> list[dict[str, Any]]:
        """The files of the newest message that has some, as the page shows them."""
        found = [element for element in self.elements.values() if element["name"] == "FileProgress"]
        files: list[dict[str, Any]] = found[-1]["props"]["files"] if found else []
        return files

    @property
    def note(self) -> str:
        """What is said below them."""
        found = [element for element in self.elements.values() if element["name"] == "FileProgress"]
        return str(found[-1]["props"]["note"])

    def stages(self) -> list[str]:
        """Of the newest files."""
        return [file["stage"] for file in self.shown]

    def opened(self, number: int) -> dict[str, Any]:
        """What the newest answer's [number] opens."""
        last = list(self.footers)[-1]
        return next(
            element["props"]
            for element in self.elements.values()
            if element["forId"] == last and element["name"] == f"[{number}]"
        )

    async def drop(self, *files: tuple[str, bytes], question: str = "") -> None:
        """Send files, with or without a question; returns when the page is at rest."""
        known = sum(1 for element in self.elements.values() if element["name"] == "FileProgress")
        ids = [(await self.upload(name, content)).json()["id"] for name, content in files]
        await self.send(question, files=ids)
        await self.until(
            lambda: sum(1 for element in self.elements.values() if element["name"] == "FileProgress") > known
        )
        await self.until(lambda: not self.busy)

    async def act(self, name: str, **payload: Any) -> dict[str, Any]:
        """What the list of files does; returns the list as it is then."""
        listed: dict[str, Any] = await self.press(
            {"id": "", "name": name, "payload": payload, "label": "", "forId": None}
        )
        return listed


def started(folder: Path, **settings: str) -> AppServer:
    """The app with the script above and no embedder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.toml").write_text(SCRIPT, encoding="utf-8")
    env = {"ENGINE_BACKEND": "scripted", "ENGINE_SCRIPT": "script.toml", "KNOWLEDGE_EMBEDDER": "none", **settings}
    return AppServer(folder, env)
