"""The library as the rest of the product sees it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster

from knowledge.base import FileRefused, Hit, SourceFile, Stage
from knowledge.embedder import BundledEmbedder
from knowledge.library import Incoming, Library
from tests.knowledge.stores import HashEmbedder, holding, texts


@contextlib.asynccontextmanager
async def opened(folder: Path, embedder: HashEmbedder | BundledEmbedder | None) -> AsyncIterator[Library]:
    """A library whose helper process is ended."""
    library = Library(folder, embedder)
    try:
        yield library
    finally:
        library.close()


def incoming(folder: Path, name: str, text: str, origin: str | None = None) -> Incoming:
    """A text file with that content."""
    path = folder / f"{len(list(folder.iterdir()))}.txt"
    path.write_text(text, encoding="utf-8")
    return Incoming(path, name, origin or name)


def _text_files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.txt"))


def first(hits: list[Hit]) -> str:
    """The best passage's text."""
    return hits[0].passage.text


async def test_four_short_files_each_answer_their_question(tmp_path: Path, bundled: BundledEmbedder) -> None:
    """K6: the right passage first; and a question about nothing in them is told apart by its relevance."""
    files = {
        "退款.txt": "客户申请退款的，财务部在三个工作日内原路退回。",
        "口令.txt": "办公室无线网络的口令是 blue-harbor-27，每季度更换一次。",
        "年假.txt": "员工满一年可休年假五天，满十年十天。",
        "班车.txt": "班车早上七点四十从地铁口出发。",
    }
    async with opened(tmp_path / "library", bundled) as library:
        for name, text in files.items():
            await library.add(incoming(tmp_path, name, text))
        assert "退款" in first(await library.search(["退款要多久"]))
        assert "blue-harbor-27" in first(await library.search(["WiFi的口令是什么"]))
        assert "班车" in first(await library.search(["早上的车几点开"]))
        (known, *_), unknown = await library.search(["退款要多久"]), await library.search(["珠穆朗玛峰有多高"])
        assert all(hit.relevance < known.relevance for hit in unknown)


async def test_names_are_shown_as_they_are_and_become_no_paths(tmp_path: Path) -> None:
    """K7: whatever the name, nothing lies outside the store; the same name twice is two files."""
    names = ["合同（最终版）.txt", "../../etc/p.txt", "长" * 300 + ".txt", "a\x00b.txt", "\udce4.txt"]
    async with opened(tmp_path / "library", None) as library:
        for number, name in enumerate(names):
            await library.add(incoming(tmp_path, name, f"第{number}个文件的内容", f"upload:{number}"))
        for origin in ("/一/报价.txt", "/二/报价.txt"):
            await library.add(incoming(tmp_path, "报价.txt", f"来自{origin}的报价", origin))
        files = await library.files()
        shown = [file.name for file in files]
        assert shown.count("报价.txt") == 2
        assert set(names[:4]) <= set(shown)
        assert {path.parent for path in _text_files(tmp_path)} == {tmp_path}
        assert all(library.original(file).read_bytes() for file in files)


async def test_the_same_file_twice_and_again_after_a_change(tmp_path: Path, bundled: BundledEmbedder) -> None:
    """K8: no duplicates, and nothing of the old text is left."""
    async with opened(tmp_path / "library", bundled) as library:
        before = await library.add(incoming(tmp_path, "口令.txt", "旧的口令是 OLDMARKER77431"))
        assert await library.add(incoming(tmp_path, "口令.txt", "旧的口令是 OLDMARKER77431")) == before
        assert len(texts(library.shared)) == 1
        after = await library.add(incoming(tmp_path, "口令.txt", "新的口令是 NEWMARKER55109"))
        assert await library.files() == [after]
        assert first(await library.search(["口令是什么"])) == "新的口令是 NEWMARKER55109"
        assert holding(tmp_path / "library", "OLDMARKER77431") == []


async def test_a_file_is_found_by_its_title_and_its_headings(tmp_path: Path) -> None:
    """Though no word of the passage itself is asked for."""
    async with opened(tmp_path / "library", None) as library:
        await library.add(incoming(tmp_path, "差旅管理办法.md", "# 第十二条 住宿标准\n\n每晚不超过四百元。"))
        await library.add(incoming(tmp_path, "其他.txt", "每天都要打卡。"))
        for question in ("差旅", "住宿", "第12条"):
            assert first(await library.search([question])) == "每晚不超过四百元。"


async def test_the_condensed_question_is_searched_too(tmp_path: Path) -> None:
    """K9: what either text finds is among the hits, once."""
    async with opened(tmp_path / "library", None) as library:
        await library.add(incoming(tmp_path, "甲.txt", "退货期限为十五天。"))
        await library.add(incoming(tmp_path, "乙.txt", "电池容量为五千毫安时。"))
        hits = await library.search(["那电池呢", "退货期限"])
        assert sorted(hit.file.name for hit in hits) == ["乙.txt", "甲.txt"]
        assert len(await library.search(["那电池呢", "退货期限"], limit=1)) == 1


async def test_a_chats_own_files_are_its_own(tmp_path: Path) -> None:
    """Found beside the shared ones in that chat alone; they go with it, from the disk too."""
    async with opened(tmp_path / "library", None) as library:
        await library.add(incoming(tmp_path, "公共.txt", "公共的报销规定"))
        file = await library.add(incoming(tmp_path, "私有.txt", "私有的报销记录 CHATMARKER90210"), chat="chat/../1")
        assert {(hit.file.name, hit.chat) for hit in await library.search(["报销"], chat="chat/../1")} == {
            ("公共.txt", None),
            ("私有.txt", "chat/../1"),
        }
        assert [hit.file.name for hit in await library.search(["报销"], chat="2")] == ["公共.txt"]
        assert [file.name for file in await library.files()] == ["公共.txt"]
        assert await library.files("chat/../1") == [file]
        await library.forget("chat/../1")
        assert await library.files("chat/../1") == []
        assert holding(tmp_path / "library", "CHATMARKER90210") == []


async def test_the_same_bytes_in_chat_and_library_are_one_hit(tmp_path: Path) -> None:
    """Somebody attaches what the library has already."""
    async with opened(tmp_path / "library", None) as library:
        await library.add(incoming(tmp_path, "规定.txt", "报销规定"))
        await library.add(incoming(tmp_path, "规定.txt", "报销规定"), chat="1")
        assert len(await library.search(["报销"], chat="1")) == 1


async def test_chats_of_ended_processes_are_forgotten(tmp_path: Path) -> None:
    """Those of a process that runs, and one's own, are not."""
    folder = tmp_path / "library" / "chats"
    async with opened(tmp_path / "library", None) as library:
        await library.add(incoming(tmp_path, "甲.txt", "自己的内容"), chat="1")
        (folder / "gone-1-1" / "chat").mkdir(parents=True)
        (folder / "gone-1-1.lock").touch()
        await library.forget_all_chats()
        assert not (folder / "gone-1-1").exists()
        assert len(await library.files("1")) == 1


async def test_stages_are_told_in_order(tmp_path: Path) -> None:
    """读取 → 切分 → 建索引 → 可用."""
    told: list[tuple[Stage, float | None]] = []
    async with opened(tmp_path / "library", None) as library:
        await library.add(incoming(tmp_path, "甲.txt", "内容。"), progress=lambda *step: told.append(step))
    assert list(dict.fromkeys(stage for stage, _ in told)) == list(Stage)
    assert told[-1] == (Stage.READY, 1.0)


async def test_cancelled_in_the_middle_the_old_stays(tmp_path: Path) -> None:
    """And no copy of the new is left."""
    indexing = asyncio.Event()
    loop = asyncio.get_running_loop()

    def notice(stage: Stage, share: float | None) -> None:
        if stage is Stage.INDEXING and share:
            loop.call_soon_threadsafe(indexing.set)

    async with opened(tmp_path / "library", HashEmbedder()) as library:
        old = await library.add(incoming(tmp_path, "甲.txt", "旧的内容"))
        longer = "\n\n".join(f"# 第{number}条\n\n第{number}条的新内容。" for number in range(400))
        task = asyncio.create_task(library.add(incoming(tmp_path, "甲.md", longer, "甲.txt"), progress=notice))
        await indexing.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await library.files() == [old]
        assert texts(library.shared) == ["旧的内容"]
        assert list((tmp_path / "library" / "shared" / "incoming").iterdir()) == []


async def test_a_short_file_does_not_wait_for_a_long_one(tmp_path: Path) -> None:
    """They take turns, batch by batch."""
    async with opened(tmp_path / "library", None) as library:
        longer = "\n\n".join(f"# 第{number}条\n\n第{number}条的内容。" for number in range(1500))
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def notice(stage: Stage, share: float | None) -> None:
            if stage is Stage.INDEXING:
                loop.call_soon_threadsafe(begun.set)

        long = asyncio.create_task(library.add(incoming(tmp_path, "长.md", longer), progress=notice))
        await begun.wait()
        await library.add(incoming(tmp_path, "短.txt", "很短的内容"))
        assert not long.done()
        assert (await long).passages == 1500


async def test_a_refused_file_changes_nothing(tmp_path: Path) -> None:
    """One sentence, the old version stays, and no copy is left."""
    async with opened(tmp_path / "library", None) as library:
        old = await library.add(incoming(tmp_path, "甲.txt", "旧的内容"))
        for refused in (incoming(tmp_path, "甲.txt", "  \n "), Incoming(tmp_path / "没有.txt", "甲.txt", "甲.txt")):
            with pytest.raises(FileRefused) as caught:
                await library.add(refused)
            assert caught.value.words.zh.endswith("。")
        assert await library.files() == [old]
        assert list((tmp_path / "library" / "shared" / "incoming").iterdir()) == []


async def test_an_embedder_that_fails_costs_its_part_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The question is searched by words, a log line says so; a file is refused with the reason."""
    embedder = HashEmbedder()
    async with opened(tmp_path / "library", embedder) as library:
        await library.add(incoming(tmp_path, "甲.txt", "退货期限为十五天"))
        embedder.is_down = True
        with caplog.at_level(logging.WARNING):
            (hit,) = await library.search(["退货期限"])
        assert hit.cosine is None
        assert "只按词语检索" in caplog.text
        with pytest.raises(FileRefused, match="向量服务"):
            await library.add(incoming(tmp_path, "乙.txt", "别的内容"))
        assert len(await library.files()) == 1


async def test_the_event_loop_is_never_blocked(
    tmp_path: Path, bundled: BundledEmbedder, unblocked: BlockBuster
) -> None:
    """Adding, searching and deleting happen in threads and processes."""
    source = await asyncio.to_thread(incoming, tmp_path, "甲.txt", "退货期限为十五天")
    library = Library(tmp_path / "library", bundled)
    try:
        await library.warm()
        await library.add(source)
        await library.add(source, chat="1")
        assert await library.search(["退货"], chat="1")
        assert await library.headings() == []
        await library.forget("1")
        await library.forget_all_chats()
        assert await library.remove("甲.txt")
    finally:
        await asyncio.to_thread(library.close)


async def test_headings_come_from_all_files_in_turn(tmp_path: Path) -> None:
    """Starters should not all be about one file."""
    async with opened(tmp_path / "library", None) as library:
        for name in ("甲", "乙"):
            body = "".join(f"# {name}之{number}\n\n内容{number}。\n\n" for number in range(3))
            await library.add(incoming(tmp_path, f"{name}.md", body))
        found: list[tuple[SourceFile, str]] = await library.headings(limit=4)
        assert [heading for _, heading in found] == ["乙之0", "甲之0", "乙之1", "甲之1"]
        assert [file.name for file, _ in found] == ["乙.md", "甲.md", "乙.md", "甲.md"]


async def test_an_empty_library_finds_nothing(tmp_path: Path) -> None:
    """And makes no folder of itself."""
    async with opened(tmp_path / "library", None) as library:
        assert await library.search(["退货"], chat="1") == []
        assert await library.files() == await library.files("1") == []
        assert await library.headings() == []
        assert not await library.remove("甲.txt")
    assert not (tmp_path / "library").exists()


async def test_a_question_need_not_wait_for_a_re_embedding(tmp_path: Path) -> None:
    """Until another model's vectors are there, the words are searched, and no cosine of two models is told."""
    async with opened(tmp_path / "library", HashEmbedder()) as library:
        await library.add(incoming(tmp_path, "甲.txt", "退货期限为十五天"))
    async with opened(tmp_path / "library", HashEmbedder("other", dim=16)) as library:
        (before,) = await library.search(["退货期限"])
        await library.warm()
        (after,) = await library.search(["退货期限"])
    assert before.cosine is None
    assert after.cosine is not None
