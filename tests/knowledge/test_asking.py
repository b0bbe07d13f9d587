"""A question to a real library: what the model is given, and what it is not asked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from knowledge.asking import Found, find, parts
from knowledge.check import check
from knowledge.embedder import BundledEmbedder
from knowledge.library import Incoming, Library

FILES = {
    "售后.md": "# 售后\n\n退货期限为15天，自签收之日起算。",
    "门禁.md": "# 门禁\n\n仓库口令每月1日更换，由行政部发放。",
    "产品.md": "# 产品\n\nXJ-2048 单价 1280 元，保修期 24 个月。",
    "考勤.md": "# 考勤\n\n员工累计工作满1年不满10年的，年休假5天；满10年的，10天。",
}


@pytest.fixture
async def library(tmp_path: Path, bundled: BundledEmbedder) -> AsyncIterator[Library]:
    """Four short files."""
    library = Library(tmp_path / "library", bundled)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        await library.add(Incoming(tmp_path / name, name, name))
    yield library
    library.close()


def names(found: Found) -> list[str]:
    """The files of the passages for the model."""
    return [hit.file.name for hit in found.passages]


async def test_three_facts_of_three_files(library: Library) -> None:
    """K10: each part's passage is given, and in the answer each [n] opens the sentence that says it."""
    question = "退货期限几天，仓库口令多久换一次，XJ-2048单价多少"
    found = await find(library, question, [])
    assert names(found) == ["售后.md", "门禁.md", "产品.md"]
    checked = check("退货期限为15天。仓库口令每月1日更换。XJ-2048 单价 1280 元。", found.passages, question)
    assert {c.hit.file.name: c.hit.passage.text[slice(*c.spans[0])] for c in checked.citations} == {
        "售后.md": "退货期限为15天，自签收之日起算。",
        "门禁.md": "仓库口令每月1日更换，由行政部发放。",
        "产品.md": "XJ-2048 单价 1280 元，保修期 24 个月。",
    }


async def test_short_words_and_nothing(library: Library) -> None:
    """K6: the right passage first; for what is in no file the model is not asked, whatever it looks like."""
    assert names(await find(library, "退货", []))[0] == "售后.md"
    assert names(await find(library, "口令", []))[0] == "门禁.md"
    assert names(await find(library, "年假怎么算", []))[0] == "考勤.md"
    for absent in ("彩虹为什么有七种颜色", "XJ-9999多少钱", "今天天气怎么样"):
        assert names(await find(library, absent, [])) == []


async def test_after_many_turns(library: Library) -> None:
    """K9: a question of its own is found however the chat has gone, and one that leaves its subject out is completed."""
    earlier = [f"第{number}个无关的问题是什么" for number in range(20)]
    assert names(await find(library, "退货期限几天", earlier))[0] == "售后.md"
    assert names(await find(library, "那保修期呢", [*earlier, "XJ-2048单价多少"]))[0] == "产品.md"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("退货期限几天，仓库口令多久换一次", ["退货期限几天", "仓库口令多久换一次"]),
        ("退货期限和XJ-2048的保修期分别是多久", ["退货期限", "XJ-2048的保修期"]),
        ("年假怎么算", []),
        ("2023年，年假几天", []),
        ("2024版和2025版年假几天", []),
        ("", []),
    ],
)
def test_parts(question: str, expected: list[str]) -> None:
    """Things asked for together; a year or a number alone is none."""
    assert parts(question) == expected
