"""What an embedder is."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.errors import RequestError

Vectors = npt.NDArray[np.float32]


class Unavailable(RequestError):
    """No vectors now; `words` says why."""


class Embedder(Protocol):
    """Turns texts into vectors of length 1, so that their product is their cosine. Blocking; from any thread."""

    @property
    def id(self) -> str:
        """Names the model: vectors of different ids are not compared."""

    @property
    def dim(self) -> int:
        """Numbers a vector. Raises Unavailable where that has to be asked for."""

    def passages(self, texts: list[str]) -> Vectors:
        """(n, dim). Raises Unavailable."""

    def query(self, texts: list[str]) -> Vectors:
        """(n, dim), for questions. Raises Unavailable."""
