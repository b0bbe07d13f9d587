"""Text that arrives in halves."""

from hypothesis import given
from hypothesis import strategies as st

from engine.cleantext import CleanText


def clean(*deltas: str) -> str:
    joiner = CleanText()
    return "".join(joiner.feed(delta) for delta in deltas)


def test_a_pair_split_over_two_deltas_is_joined() -> None:
    """JSON may escape an emoji in halves that a server sends apart."""
    assert clean("好\ud83d", "\ude00的") == "好😀的"


def test_what_never_becomes_whole_is_dropped() -> None:
    """A lone half or a replacement character never reaches the page."""
    assert clean("好\ud83d") == "好"
    assert clean("a\ude00b") == "ab"
    assert clean("a\ud83d", "b") == "ab"
    assert clean("龘\ufffd", "\ufffd𠮷") == "龘𠮷"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd")), st.integers(1, 5))
def test_whole_text_passes_unchanged(text: str, size: int) -> None:
    """Cut at any code unit of UTF-16, text comes out as it went in."""
    units = text.encode("utf-16-le")
    halves = [units[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]
    pieces = ["".join(halves[at : at + size]) for at in range(0, len(halves), size)]
    assert clean(*pieces) == text
