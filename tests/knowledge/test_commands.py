"""`python -m knowledge`, as a shell runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge.__main__ import main

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files to add; the library lies beside them and has no embedder."""
    monkeypatch.setenv("KNOWLEDGE_DIR", str(tmp_path / "library"))
    monkeypatch.setenv("KNOWLEDGE_EMBEDDER", "none")
    files = tmp_path / "files"
    (files / "sub" / ".git").mkdir(parents=True)
    (files / "退货.md").write_text("# 第十二条\n\n退货期限为十五天。", encoding="utf-8")
    (files / "sub" / "报销.txt").write_text("发票须在月底前提交。", encoding="utf-8")
    (files / "sub" / "~$锁.docx").write_bytes(b"lock")
    (files / "sub" / ".git" / "config.txt").write_text("hidden", encoding="utf-8")
    return files


def run(*argv: str) -> int:
    """The exit status; the whole program, in this process."""
    return main(list(argv))


def test_a_folder_is_added_listed_searched_and_removed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With those below it, without what is hidden."""
    assert run("add", str(folder)) == 0
    assert "2 个可用" in capsys.readouterr().out
    assert run("list") == 0
    listed = capsys.readouterr().out
    assert "退货.md" in listed
    assert "共 2 个文件" in listed
    assert run("search", "第12条", "退货期限") == 0
    assert "退货期限为十五天" in capsys.readouterr().out
    assert run("check") == 0
    assert run("remove", "报销.txt") == 0
    assert run("remove", "报销.txt") == 1
    assert run("remove", str(folder / "退货.md")) == 0
    capsys.readouterr()
    assert run("search", "退货") == 1
    assert "没有找到" in capsys.readouterr().out


def test_a_refused_file_is_one_line_and_the_rest_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1, so that a script notices."""
    (folder / "坏.pdf").write_bytes(b"%PDF-1.7\n" + os.urandom(200))
    assert run("add", str(folder), str(folder / "没有.txt")) == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("✗") for line in lines) == 2
    assert sum(line.startswith("✓") for line in lines) == 2
    assert lines[-1] == "共 4 个文件：2 个可用，2 个没有加入。"


def test_a_name_that_two_files_have_is_asked_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """K7: which one is meant must be said."""
    (folder / "sub" / "退货.md").write_text("另一个退货规定。", encoding="utf-8")
    run("add", str(folder))
    assert run("remove", "退货.md") == 1
    assert str(folder / "sub" / "退货.md") in capsys.readouterr().out


def test_check_tells_what_is_wrong_and_what_to_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An original that was changed or lost."""
    run("add", str(folder))
    original = next((folder.parent / "library" / "shared" / "originals").iterdir())
    original.write_bytes(b"changed")
    capsys.readouterr()
    assert run("check") == 1
    assert "请先删除、再重新加入它们" in capsys.readouterr().out


def test_what_is_no_file_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe would never end, and a device never either: neither is opened, and nothing of them is kept."""
    os.mkfifo(folder / "管道.txt")
    assert run("add", str(folder), "/dev/zero") == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum("这不是可以读取的文件" in line for line in lines) == 2
    assert lines[-1] == "共 4 个文件：2 个可用，2 个没有加入。"


def test_a_broken_record_is_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the remedy, for every command; check reports it as what it found."""
    run("add", str(folder))
    (folder.parent / "library" / "shared" / "store.json").write_text('{"table": "pas', encoding="utf-8")
    capsys.readouterr()
    assert run("list") == 1
    assert "请从备份恢复" in capsys.readouterr().err
    assert run("check") == 1
    assert "✗" in capsys.readouterr().out


def test_check_without_the_server_of_vectors(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is looked at all the same."""
    run("add", str(folder))
    capsys.readouterr()
    monkeypatch.setenv("KNOWLEDGE_EMBEDDER", "http://127.0.0.1:1/v1")
    assert run("check") == 1
    told = capsys.readouterr().out
    assert "数目相符" in told
    assert "向量服务（KNOWLEDGE_EMBEDDER）现在不能用" in told


def test_no_command_is_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Chinese, and English below it."""
    assert run() == 1
    assert capsys.readouterr().err.startswith("缺少参数 命令")


def test_the_program_starts_from_a_shell(folder: Path) -> None:
    """With the project's folder as it is, warnings being errors, and nothing on standard error but the bar."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "knowledge", "add", str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("✓") == 2
