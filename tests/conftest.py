"""What every test may ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

from tests.tiny_model import make_tiny_model


def pytest_configure(config: pytest.Config) -> None:
    """vLLM leaves its ZeroMQ context to the garbage collector, whenever that comes: no test's fault."""
    config.addinivalue_line("filterwarnings", "ignore:Unclosed context <zmq:ResourceWarning")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny model, made once; its name has a dot, as those of real models do."""
    return make_tiny_model(tmp_path_factory.mktemp("models") / "ernie-4.5-tiny")


@pytest.fixture
def unblocked() -> Iterator[BlockBuster]:
    """Fails the test where a call blocks the event loop."""
    with blockbuster_ctx() as guard:
        yield guard
