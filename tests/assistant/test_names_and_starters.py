"""What uploads are called, and what the library's headings make of the empty page."""

from typing import Any

import pytest

from assistant import boot, chat_profiles, starters, upload_names
from engine.errors import ConfigurationError
from engine.words import Words
from knowledge.base import SourceFile


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("合同（最终版）.pdf", "合同（最终版）.pdf"),
        ("../../etc/p.pdf", "p.pdf"),
        ("C:\\Users\\王\\表.xlsx", "表.xlsx"),
        ("a\u202egnp.txt", "a gnp.txt"),
        ("换\n行\u200b.txt", "换 行 .txt"),
        ("...", "未命名"),
        ("", "未命名"),
        ("名" * 500 + ".docx", "名" * 394 + "….docx"),
    ],
)
def test_names_as_they_are_shown(raw: str, shown: str) -> None:
    """K7: no folders, nothing that cannot be seen, no end beyond the page."""
    assert upload_names.shown(raw) == shown
    assert len(shown) <= upload_names.LONGEST


def test_two_of_one_name_in_a_drop() -> None:
    """Kept apart, and told apart by people."""
    names = ["a.txt", "b.txt", "a.txt", "a.txt"]
    origins = upload_names.origins(names)
    assert origins == ["upload:a.txt", "upload:b.txt", "upload:a.txt#2", "upload:a.txt#3"]
    told = [upload_names.told_apart(name, origin) for name, origin in zip(names, origins, strict=True)]
    assert told == ["a.txt", "b.txt", "a (2).txt", "a (3).txt"]


@pytest.mark.parametrize(
    ("heading", "topic"),
    [
        ("第二章 住宿标准", "住宿标准"),
        ("第十二条", ""),
        ("3.2 退货", "退货"),
        ("一、总则", "总则"),
        ("（一）目的", "目的"),
        ("十年质保", "十年质保"),
        ("2026年价目", "2026年价目"),
    ],
)
def test_headings_without_their_numbers(heading: str, topic: str) -> None:
    """As they are said in a question."""
    assert starters.spoken(heading) == topic


def _file(name: str) -> SourceFile:
    return SourceFile(name, name, name, 1, 0, 1, "2026-01-01T00:00:00Z")


def _library(monkeypatch: pytest.MonkeyPatch, headings: list[tuple[SourceFile, str]] | None) -> None:
    class Library:
        async def headings(self) -> Any:
            return headings

    async def library() -> Any:
        if headings is None:
            raise ConfigurationError(Words("打不开", "closed"))
        return Library()

    monkeypatch.setattr(boot, "library", library)


async def test_starters_come_from_the_librarys_headings(monkeypatch: pytest.MonkeyPatch) -> None:
    """One a file first; headings that are none, or too long for a question, are passed over."""
    one, two = _file("甲"), _file("乙")
    _library(monkeypatch, [(one, "第一章 住宿"), (one, "报销"), (one, "第二条"), (two, "长" * 30), (two, "退货")])
    labels = [starter.label for starter in await starters.from_library("zh-CN")]
    assert labels == ["住宿是怎么规定的？", "退货是怎么规定的？", "报销是怎么规定的？"]


@pytest.mark.parametrize("headings", [[], None])
async def test_fixed_starters_without_a_library(
    monkeypatch: pytest.MonkeyPatch, headings: list[tuple[SourceFile, str]] | None
) -> None:
    """Empty, or one that cannot be opened: the page has its four questions all the same."""
    _library(monkeypatch, headings)
    talk, knowledge = await chat_profiles.for_language("zh-CN")
    assert (talk.name, talk.default, knowledge.name) == ("对话", True, "知识助手")
    assert knowledge.starters
    assert [starter.message for starter in knowledge.starters] == [words.zh for words in starters.FIXED]
