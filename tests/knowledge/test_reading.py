"""The process that reads: what it may cost, how it ends, and that no file makes anything but a reading or a refusal."""

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from docx import Document

from knowledge import reading, reading_child, splitter
from knowledge.base import FileRefused, Reading
from knowledge.readers import limits
from tests.knowledge import made_files

ROOT = Path(__file__).resolve().parent.parent.parent
MEMORY_KIB = 300 * 1024


def refusal(path: Path, name: str | None = None) -> str:
    """Why a file is refused."""
    with pytest.raises(FileRefused) as caught:
        reading.read(path, name or path.name)
    return caught.value.words.zh


def a_file(tmp_path: Path) -> Path:
    """Some text."""
    path = tmp_path / "a.txt"
    path.write_text("年假五天。")
    return path


def peak(path: Path) -> tuple[int, str]:
    """Reading a file: the process's peak memory in KiB, and what it said first."""
    code = (
        "import sys; from knowledge.reading_child import main; main();"
        "print(*(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmHWM')), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, str(path), path.name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]), json.loads(done.stdout.splitlines()[0])[1]


def test_a_file_is_read_in_a_process(tmp_path: Path) -> None:
    """Blocks with their places, pages and warnings arrive as the reader made them."""
    path = made_files.pdf(tmp_path / "a.pdf", [["第一条 年假按工龄计算，具体天数见附表。"], []])
    found = reading.read(path, "制度.pdf")
    assert [(b.text, b.at.page, b.at.headings) for b in found.blocks] == [
        ("第一条 年假按工龄计算，具体天数见附表。", 1, ("第一条",))
    ]
    assert found.pages == 2
    assert found.warnings[0].zh.startswith("第 2 页没有文字")


@pytest.mark.parametrize(
    "name", ["a.txt", "合同（最终版）.txt", "../../etc/p.txt", "x" * 300 + ".txt", "a\0b.txt", "\ud800.txt", "a\n.txt"]
)
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    """Names come from browsers; only their suffix matters here."""
    assert reading.read(a_file(tmp_path), name).blocks[0].text == "年假五天。"


def test_bomb_costs_little(tmp_path: Path) -> None:
    """1 MB that inflates to 1 GB is refused within 300 MB (ogx#6099)."""
    path = made_files.bomb(tmp_path / "a.docx", 1024)
    assert path.stat().st_size < 1.2 * 2**20
    memory, said = peak(path)
    assert memory < MEMORY_KIB
    assert "文件解压后过大" in refusal(path), said


@pytest.mark.parametrize("claimed", [1000, 2**32 - 2])
def test_lies_about_sizes_are_found(tmp_path: Path, claimed: int) -> None:
    """What a member says that it inflates to is not believed."""
    path = made_files.liar(tmp_path / "a.docx", 300 * 2**20 + 7, claimed)
    memory, _ = peak(path)
    assert memory < MEMORY_KIB
    assert refusal(path).startswith("文件")


def test_many_pages_cost_little(tmp_path: Path) -> None:
    """3,000 pages are refused within 300 MB."""
    memory, said = peak(made_files.pdf(tmp_path / "a.pdf", [["正文。"]] * 3000))
    assert memory < MEMORY_KIB
    assert said.startswith("共 3000 页")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused(tmp_path: Path, encoding: str) -> None:
    """XML that declares entities, in any encoding: no Office program writes it."""
    made_files.docx_table(tmp_path / "a.docx", [["甲", "乙"]])
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 9))
    content = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE d [<!ENTITY l0 "哈">{laughs}]><d>&l8;</d>'
    path = made_files.with_part(tmp_path / "a.docx", tmp_path / "b.docx", "word/document.xml", content.encode(encoding))
    assert refusal(path)


def test_large_files_missing_files_and_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any process starts."""
    monkeypatch.setattr(reading, "CHILD", ("-c", "raise SystemExit('must not run')"))
    assert "找不到" in refusal(tmp_path / "none.pdf")
    assert "不是可以读取的文件" in refusal(tmp_path)
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    assert "不是可以读取的文件" in refusal(pipe)
    monkeypatch.setattr(limits, "FILE_BYTES", 3)
    assert "的上限" in refusal(a_file(tmp_path))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os; os.kill(os.getpid(), 11)", "读取这个文件时出错"),
        ("import os; os.kill(os.getpid(), 9)", "超出读取的时间或内存上限"),
        ("import resource as r; r.setrlimit(r.RLIMIT_CPU, (1, 2))\nwhile True: pass", "超出读取的时间或内存上限"),
        ('print(\'["block", "half a\')', "读取这个文件时出错"),
        ("import sys; sys.stdout.write('[\"block')", "读取这个文件时出错"),
        ("print('x' * 4000, end='')", "读取这个文件时出错"),
        ("print('[1]')", "读取这个文件时出错"),
        ("print('{}')", "读取这个文件时出错"),
        ("pass", "读取这个文件时出错"),
    ],
)
def test_a_crash_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str) -> None:
    """A segmentation fault, the kernel's killer, the CPU limit, half an answer, nonsense, none: a refusal each."""
    monkeypatch.setattr(reading, "CHILD", ("-c", code))
    assert said in refusal(a_file(tmp_path))


def test_a_flood_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that never stops talking is not listened to for ever."""
    monkeypatch.setattr(limits, "RESULT_BYTES", 100_000)
    monkeypatch.setattr(reading, "CHILD", ("-c", "while True: print('x' * 9999, end='')"))
    assert "超出" in refusal(a_file(tmp_path))


def test_a_hanging_process_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock, where it uses no processor time."""
    monkeypatch.setattr(limits, "WALL_S", 0.2)
    monkeypatch.setattr(reading, "CHILD", ("-c", "import time; time.sleep(600)"))
    assert "超出读取的时间或内存上限" in refusal(a_file(tmp_path))


def test_keys_stay_with_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process's environment has no more than Python needs."""
    monkeypatch.setenv("ENGINE_API_KEY", "sk-secret")
    monkeypatch.setenv("CHAINLIT_AUTH_SECRET", "secret")
    code = "import json, os; print(json.dumps(['refused', ' '.join(os.environ), '', '']))"
    monkeypatch.setattr(reading, "CHILD", ("-c", code))
    said = refusal(a_file(tmp_path))
    assert "PATH" in said
    assert "SECRET" not in said
    assert "KEY" not in said


def test_the_process_is_confined() -> None:
    """Lowest priority; processor time, memory and files limited."""
    code = (
        "import os, resource as r; from knowledge.reading_child import confine; confine();"
        "print(os.getpriority(os.PRIO_PROCESS, 0), *(r.getrlimit(k)[0] for k in (r.RLIMIT_CPU, r.RLIMIT_AS, r.RLIMIT_CORE)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert [int(value) for value in said] == [19, limits.CPU_S, limits.ADDRESS_SPACE, 0]


async def test_a_cancelled_read_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and no process is left behind."""
    code = "import os, sys, time; open(sys.argv[1] + '.pid', 'w').write(f'{os.getpid()}.'); time.sleep(600)"
    monkeypatch.setattr(reading, "CHILD", ("-c", code))
    path, mark = a_file(tmp_path), tmp_path / "a.txt.pid"
    task = asyncio.create_task(reading.read_async(path, "a.txt"))
    while not (mark.exists() and mark.read_text().endswith(".")):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    process = mark.read_text()[:-1]
    while await asyncio.to_thread(Path("/proc", process).exists):
        await asyncio.sleep(0.01)


async def test_others_go_on_meanwhile(tmp_path: Path) -> None:
    """Several files at once beside the event loop, each its own text."""
    paths = [tmp_path / f"{n}.txt" for n in range(4)]
    for n, path in enumerate(paths):
        path.write_text(f"第 {n} 个文件。")
    found = await asyncio.gather(*(reading.read_async(path, path.name) for path in paths))
    assert [r.blocks[0].text for r in found] == [f"第 {n} 个文件。" for n in range(4)]


def read_or_refused(path: Path) -> Reading | str:
    """The reading, or the sentence."""
    try:
        return reading.read(path, path.name)
    except FileRefused as error:
        return error.words.zh


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One good file of each kind."""
    folder = tmp_path_factory.mktemp("whole")
    document = Document()
    document.add_paragraph("第一条 年假五天。")
    made_files.add_table(document, [["产品", "单价"], ["XJ-2048", "1280"]])
    document.save(str(folder / "a.docx"))
    made_files.xlsx(folder / "a.xlsx", [["产品", "单价"], ["XJ-2048", 1280]])
    made_files.pptx(folder / "a.pptx", "目标", "五百万元")
    made_files.pdf(folder / "a.pdf", [["年假五天。", "产品\t单价", "XJ-2048\t1280"], []])
    (folder / "a.md").write_text("# 手册\n\n| 产品 | 单价 |\n|---|---|\n| XJ | 9 |\n")
    (folder / "a.html").write_text("<html><h1>手册</h1><table><tr><td>产品<td>9</table>")
    (folder / "a.csv").write_text("产品,单价\nXJ,9\n")
    (folder / "a.txt").write_text("第一条 年假五天。")
    return sorted(folder.iterdir())


@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.pptx"])
def test_office_files_with_broken_parts_are_read_or_refused(whole: list[Path], tmp_path: Path, name: str) -> None:
    """Each XML part in turn empty, cut, or with nonsense for its numbers: the last word is a reading or a refusal."""
    (source,) = (path for path in whole if path.name == name)
    with zipfile.ZipFile(source) as archive:
        parts = {part: archive.read(part) for part in archive.namelist() if part.endswith((".xml", ".rels"))}
    for part, content in parts.items():
        for broken in (b"", content[: len(content) // 2], re.sub(rb'"\d+"', b'"-99999999999"', content)):
            path = made_files.with_part(source, tmp_path / name, part, broken)
            *_, (kind, *_) = reading_child.report(path, name)
            assert kind in ("end", "refused")


@pytest.mark.parametrize("seed", range(5))
def test_broken_files_are_read_or_refused(whole: list[Path], tmp_path: Path, seed: int) -> None:
    """Cut anywhere, or with bytes changed at random: a reading that splits, or a sentence; nothing else, and no hang."""
    chance = random.Random(seed)
    for source in whole:
        data = bytearray(source.read_bytes())
        if seed % 2:
            del data[chance.randrange(len(data)) :]
        else:
            for _ in range(1 + 20 * seed):
                data[chance.randrange(len(data))] = chance.randrange(256)
        path = tmp_path / source.name
        path.write_bytes(data)
        found = read_or_refused(path)
        if isinstance(found, Reading):
            splitter.split(found, "a")
        else:
            assert found.endswith("。")
