"""Whether a library on disk is as it should be."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import ZhidaError
from engine.words import Words
from knowledge.library import Library
from knowledge.store import Store

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; where it is wrong, the words say what to do."""

    is_right: bool
    words: Words


def inspect(library: Library) -> list[Finding]:
    """Look at the shared library: counts, originals, indexes, embedder. Reads every original; changes nothing."""
    store = library.shared
    if not store.exists:
        return [Finding(True, Words("资料库是空的。用 python -m knowledge add 加入文件。", "The library is empty."))]
    return [_looked(look, store) for look in (_counts, _originals, _words_index, _embedder)]


def _looked(look: Callable[[Store], Finding], store: Store) -> Finding:
    """What cannot be looked at is a finding as well: a broken record, a server of vectors that is down."""
    try:
        return look(store)
    except ZhidaError as error:
        return Finding(False, error.words)


def _counts(store: Store) -> Finding:
    found = store.table().search().where("ordinal >= 0").select(["origin"]).limit(None).to_arrow()
    counted = Counter(found["origin"].to_pylist())
    files = store.files()
    wrong = [file.name for file in files if counted.pop(file.origin, 0) != file.passages] + list(counted)
    if wrong:
        return _wrong(
            f"这些文件的段落不全：{_few(wrong)}。请重新加入它们。",
            f"Passages are missing: {_few(wrong)}. Add these files again.",
        )
    total = sum(file.passages for file in files)
    return _right(
        f"{len(files)} 个文件，{total:,} 段，数目相符。", f"{len(files)} files, {total:,} passages; the counts agree."
    )


def _originals(store: Store) -> Finding:
    names = {file.digest: file.name for file in store.files()}
    wrong = [names[digest] for digest in store.originals.wrong(set(names))]
    if wrong:
        return _wrong(
            f"这些文件的原件缺失或已损坏：{_few(wrong)}。请先删除、再重新加入它们。",
            f"Originals are missing or broken: {_few(wrong)}.",
        )
    return _right("原件齐全，内容与登记的一致。", "All originals are there and unchanged.")


def _words_index(store: Store) -> Finding:
    stats = store.table().index_stats("tokens_idx")
    if stats is None:
        return _wrong("词语索引缺失。请删除资料库文件夹中的 shared，再重新加入文件。", "The text index is missing.")
    return _right(
        f"词语索引：{stats.num_indexed_rows:,} 段已编入，{stats.num_unindexed_rows:,} 段待编入（照样能检索）。",
        f"Text index: {stats.num_indexed_rows:,} rows in it, {stats.num_unindexed_rows:,} searched beside it.",
    )


def _embedder(store: Store) -> Finding:
    state = store.state()
    if store.embedder is None:
        return _right("语义检索已关闭，只按词语检索。", "No embedder: searching by words alone.")
    if state.embedder != store.embedder.id:
        return _wrong(
            f"段落的向量来自 {state.embedder or '（无）'}，现在的设置是 {store.embedder.id}。下次启动或加入文件时会全部重建。",
            f"The vectors are {state.embedder}'s, the settings name {store.embedder.id}: they are made anew at the next start.",
        )
    lacking = store.table().count_rows("vector IS NULL AND ordinal >= 0")
    if lacking:
        return _wrong(
            f"{lacking:,} 段还没有向量。下次启动或加入文件时会补上。", f"{lacking:,} passages have no vectors yet."
        )
    return _right(
        f"语义检索：{state.embedder}，{state.dim} 维。", f"Embedder: {state.embedder}, {state.dim} dimensions."
    )


def _right(zh: str, en: str) -> Finding:
    return Finding(True, Words(zh, en))


def _wrong(zh: str, en: str) -> Finding:
    return Finding(False, Words(zh, en))


def _few(names: list[str]) -> str:
    return "、".join(names[:SHOWN]) + (f" 等 {len(names)} 个" if len(names) > SHOWN else "")
