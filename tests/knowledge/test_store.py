"""A library on disk: one commit a change, nothing left of what is gone, whatever is killed."""

import multiprocessing
import os
import random
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge.embedder_base import Unavailable
from knowledge.finding import Query, find
from knowledge.store import Store
from knowledge.tokens import cut_question
from tests.knowledge.stores import HashEmbedder, holding, put, texts

ROOT = Path(__file__).resolve().parent.parent.parent
KILLS = 6
WRITER = """
import sys
from pathlib import Path
from knowledge.store import Store
from tests.knowledge.stores import HashEmbedder, put
store = Store(Path(sys.argv[1]), HashEmbedder())
for number in range(int(sys.argv[2]), 10_000):
    put(store, "a.txt", *(f"第{number}版的第{line}段，编号为{line}号" for line in range(20)))
    if number % 1000 == 0:
        print("ready", flush=True)
"""


def make(folder: Path, embedder: HashEmbedder | None = None) -> Store:
    """A store in a folder of its own."""
    return Store(folder / "shared", embedder or HashEmbedder())


def found(store: Store, question: str) -> list[str]:
    """The texts found by words, best first."""
    candidates = find(store, [Query(cut_question(question), None)])
    return [candidate.passage.text for candidate in sorted(candidates, key=lambda candidate: -candidate.bm25)]


def test_what_is_put_is_found(tmp_path: Path) -> None:
    """With its place, its file and its score."""
    store = make(tmp_path)
    file = put(store, "a.txt", "退货期限为15天。", "运费由公司承担。")
    (best, *_) = find(store, [Query(cut_question("退货期限"), None)])
    assert best.passage.text == "退货期限为15天。"
    assert best.passage.at.page == 1
    assert best.file == file
    assert best.bm25 > 0
    assert store.files() == [file]


def test_the_same_again_leaves_one(tmp_path: Path) -> None:
    """K8: no duplicates."""
    store = make(tmp_path)
    put(store, "a.txt", "退货期限为15天。")
    put(store, "a.txt", "退货期限为15天。")
    assert texts(store) == ["退货期限为15天。"]


def test_another_version_replaces_the_text_also_on_the_disk(tmp_path: Path) -> None:
    """K8: none left of the old text, neither in old versions nor in the index, nor the original."""
    store = make(tmp_path)
    old, new = (secrets.token_hex(16) for _ in range(2))
    put(store, "a.txt", f"旧的口令是 {old}")
    put(store, "b.txt", *(f"另一个文件的第{number}段" for number in range(200)))
    assert len(holding(store.folder, old)) >= 2  # the original, and LanceDB's data at least
    put(store, "a.txt", f"新的口令是 {new}")
    assert holding(store.folder, old) == []
    assert holding(store.folder, new)
    assert found(store, new) == [f"新的口令是 {new}"]
    assert found(store, old) == []


def test_a_deleted_file_is_gone_from_the_disk(tmp_path: Path) -> None:
    """Though it is a small part of a large table."""
    store, marker = make(tmp_path), secrets.token_hex(16)
    put(store, "big.txt", *(f"第{number}条规定" for number in range(300)))
    put(store, "a.txt", f"口令 {marker}")
    assert holding(store.folder, marker)
    assert store.remove("a.txt")
    assert holding(store.folder, marker) == []
    assert not store.remove("a.txt")
    assert len(texts(store)) == 300
    assert len(store.table().list_versions()) <= 2


def test_two_files_with_the_same_bytes_share_the_original(tmp_path: Path) -> None:
    """It stays until the last of them goes."""
    store = make(tmp_path)
    file = put(store, "a.txt", "相同的内容")
    put(store, "b.txt", "相同的内容")
    store.remove("a.txt")
    assert store.originals.path(file.digest).read_text(encoding="utf-8") == "相同的内容"
    store.remove("b.txt")
    assert not store.originals.path(file.digest).exists()


def test_an_origin_with_a_quote_is_no_sql(tmp_path: Path) -> None:
    """The name of a file is data."""
    store = make(tmp_path)
    put(store, "it's' OR '1'='1", "第一个文件")
    put(store, "other", "第二个文件")
    store.remove("it's' OR '1'='1")
    assert texts(store) == ["第二个文件"]


def test_another_embedder_embeds_all_anew(tmp_path: Path) -> None:
    """Vectors of two models are not compared; the text is not read again."""
    put(make(tmp_path), "a.txt", "退货期限", "运费")
    other, shares = HashEmbedder("other", dim=16), list[float]()
    store = make(tmp_path, other)
    store.prepare(shares.append)
    assert other.embedded == 2
    assert shares == [1.0]
    assert (store.state().embedder, store.state().dim) == ("other", 16)
    assert texts(store) == ["运费", "退货期限"]
    vector = other.query(["任意"])[0]
    assert {candidate.cosine is not None for candidate in find(store, [Query("退货", vector)])} == {True}
    store.prepare()
    assert other.embedded == 2
    assert len(list((store.folder / "tables").iterdir())) == 1


def test_a_re_embedding_that_fails_leaves_the_old(tmp_path: Path) -> None:
    """The library is searched by words as before, and tries again at the next start."""
    put(make(tmp_path), "a.txt", "退货期限")
    other = HashEmbedder("other", dim=16)
    other.given = 4
    store = make(tmp_path, other)
    with pytest.raises(Unavailable, match="维数"):
        store.prepare()
    assert store.state().embedder == "hash"
    assert found(store, "退货") == ["退货期限"]
    other.given = 16
    store.prepare()
    assert store.state().embedder == "other"


def test_without_an_embedder_words_alone_and_vectors_later(tmp_path: Path) -> None:
    """`none` keeps the vectors that are there; what it adds gets its own later."""
    bare = Store(tmp_path / "shared", None)
    put(bare, "a.txt", "退货期限")
    assert found(bare, "退货") == ["退货期限"]
    embedder = HashEmbedder()
    make(tmp_path, embedder).prepare()
    assert embedder.embedded == 1
    put(bare, "b.txt", "运费")
    assert bare.state().embedder == "hash"
    make(tmp_path, embedder).prepare()
    assert bare.table().count_rows("vector IS NULL AND ordinal >= 0") == 0


def test_a_deletion_that_was_killed_is_finished_at_the_next_start(tmp_path: Path) -> None:
    """The mark that text is to be erased outlives the process."""
    store, marker = make(tmp_path), secrets.token_hex(16)
    put(store, "a.txt", f"口令 {marker}", "另一段")
    put(store, "b.txt", "别的")
    (store.folder / "erase").touch()
    store.table().delete("origin = 'a.txt'")
    store.table().delete("ordinal = -1")
    assert holding(store.folder, marker)
    make(tmp_path).prepare()
    assert holding(store.folder, marker) == []
    assert not (store.folder / "erase").exists()


def test_killed_at_any_moment_either_version_is_there_whole(tmp_path: Path) -> None:
    """kill -9 in the middle of writing, again and again: twenty passages of one version, searchable, and writing goes on."""
    folder, chance, seen = tmp_path / "shared", random.Random(4), set[str]()
    for kill in range(KILLS):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(folder), str(1000 * (kill + 1))], cwd=ROOT, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            try:
                process.wait(timeout=chance.random())
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
        store = Store(folder, HashEmbedder())
        store.prepare()
        versions = {text.split("版")[0] for text in texts(store)}
        assert len(versions) == 1
        seen |= versions
        assert len(texts(store)) == 20
        assert found(store, "编号7号")
        assert store.originals.wrong({file.digest for file in store.files()}) == []
    assert len(seen) == KILLS
    put(store, "a.txt", "最后一版")
    assert texts(store) == ["最后一版"]
    assert len(list((folder / "originals").iterdir())) == 1


def test_killed_while_it_was_made_it_is_made_again(tmp_path: Path) -> None:
    """A table that no store.json names is nobody's."""
    killed = make(tmp_path)
    put(killed, "a.txt", "没有做完的")
    (killed.folder / "store.json").unlink()
    store = make(tmp_path)
    put(store, "b.txt", "重新做的")
    assert texts(store) == ["重新做的"]
    assert len(list((store.folder / "tables").iterdir())) == 1


def test_a_large_store_has_an_index_of_its_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds what comparing with each finds, also what was added after, and not what was deleted."""
    monkeypatch.setattr("knowledge.store.VECTOR_INDEX_FROM", 300)
    embedder = HashEmbedder(dim=16)
    store = make(tmp_path, embedder)
    put(store, "big.txt", *(f"第{number}条规定" for number in range(400)))
    assert store.table().index_stats("vector_idx").num_indexed_rows >= 400
    put(store, "late.txt", "后来的规定")
    for text in ("第7条规定", "后来的规定"):
        vector = embedder.query([f"规定\n{text}"])[0]
        best = max(find(store, [Query("", vector)]), key=lambda candidate: candidate.fused)
        assert best.passage.text == text
        assert best.cosine == pytest.approx(1, abs=1e-4)
    store.remove("big.txt")
    assert [candidate.passage.text for candidate in find(store, [Query("", vector)])] == ["后来的规定"]


def _put_many(folder: str, name: str) -> None:
    store = Store(Path(folder), HashEmbedder())
    for number in range(12):
        put(store, f"{name}-{number}", f"{name}{number}的第一段", f"{name}{number}的第二段")


def test_two_processes_write_and_read_at_once(tmp_path: Path) -> None:
    """Nothing is lost, and a reader never fails while versions are made and deleted under it."""
    folder = tmp_path / "shared"
    store = Store(folder, HashEmbedder())
    put(store, "first", "最早的一段")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_put_many, args=(str(folder), name)) for name in ("甲", "乙")]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert found(store, "最早")[0] == "最早的一段"
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert len(store.files()) == 25
    assert len(texts(store)) == 49
    assert store.originals.wrong({file.digest for file in store.files()}) == []
