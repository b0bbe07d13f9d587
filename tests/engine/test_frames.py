"""Server-sent events of a streamed answer, as servers send them and as networks cut them."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.frames import Frame, Frames

STREAM = (
    b": keep-alive\n\n"
    b'event: message\ndata: {"choices":[{"delta":{"role":"assistant","content":""}}]}\r\n\r\n'
    + 'data: {"choices":[{"delta":{"content":"年假"},"finish_reason":null}],"usage":null}\n\n'.encode()
    + 'data:{"choices":[{"delta":{"content":"五天\\n\\n"},"finish_reason":"stop"}]}\n\n'.encode()
    + b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"details":{}}}\n\ndata: [DONE]\n\n'
)


def read(pieces: list[bytes]) -> tuple[list[Frame], Frames]:
    """All frames of a stream that arrives in `pieces`."""
    frames = Frames()
    return [frame for piece in pieces for frame in frames.feed(piece)], frames


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_cut_anywhere(cuts: list[int]) -> None:
    """Wherever the network cuts, inside a character or a line's end too, the same frames come out."""
    places = [0, *sorted(cuts), len(STREAM)]
    found, frames = read([STREAM[a:b] for a, b in pairwise(places)])
    assert "".join(frame.content or "" for frame in found) == "年假五天\n\n"
    assert [frame.finish_reason for frame in found] == [None, None, "stop", None]
    assert found[-1].usage
    assert (found[-1].usage.prompt_tokens, found[-1].usage.completion_tokens) == (12, 3)
    assert frames.done


@pytest.mark.parametrize("body", [{}, {"choices": None}, {"choices": [{}]}, {"choices": [{"delta": None}]}])
def test_nothing_where_a_list_should_be(body: dict[str, object]) -> None:
    """Servers that leave out a part, or send null for it, have said nothing."""
    (frame,), _ = read([f"data: {json.dumps(body)}\n\n".encode()])
    assert (frame.content, frame.finish_reason, frame.usage) == (None, None, None)


def test_half_a_surrogate_pair() -> None:
    """An emoji that a server cuts in two arrives as its two halves."""
    found, _ = read([b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'])
    assert found[0].content == "\ud83d"


@pytest.mark.parametrize("data", [b'{"choices": [{"del', b'{"choices": 3}', b'"\xff"', b"null"])
def test_garbage(data: bytes) -> None:
    """What is no frame is a ValueError."""
    with pytest.raises(ValueError, match=r"."):
        read([b"data: " + data + b"\n\n"])
