"""What is no question at all."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from assistant import session, texts


def refusal(content: str, elements: list[Any]) -> Any:
    """What a message with these parts is answered with; None where it is a question."""
    return session._refusal(cast(Any, SimpleNamespace(content=content, elements=elements)))


@pytest.mark.parametrize("content", ["", " \u3000", "\u200b"])
def test_a_file_without_text_gets_its_own_hint(content: str) -> None:
    """E8: not the hint for an empty question, since something was sent; with text beside it, the text is asked."""
    assert refusal(content, [object()]) is texts.NO_FILES
    assert refusal(content, []) is texts.EMPTY_QUESTION
    assert refusal("看看这个", [object()]) is None
