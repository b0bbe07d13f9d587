"""What the library's tests share."""

from collections.abc import Iterator

import pytest

from knowledge.embedder import BundledEmbedder
from knowledge.worker import Worker


@pytest.fixture(scope="session")
def bundled() -> Iterator[BundledEmbedder]:
    """The real embedder, loaded once."""
    worker = Worker()
    yield BundledEmbedder(worker)
    worker.close()
