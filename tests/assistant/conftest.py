"""Every test here runs under the guard against calls that block the event loop."""

import pytest
from blockbuster import BlockBuster


@pytest.fixture(autouse=True)
def guarded(unblocked: BlockBuster) -> None:
    """See `unblocked`."""
