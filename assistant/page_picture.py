"""A picture of a PDF's page, drawn by a process of its own: `python -m assistant.page_picture PATH PAGE`, the sentences to
mark as a JSON array on its standard input, a PNG on its output."""

import asyncio
import io
import json
import os
import resource
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.reading import ENVIRONMENT

if TYPE_CHECKING:
    from PIL.Image import Image
    from pypdfium2 import PdfPage  # type: ignore[import-untyped]  # has no types

ROOT = Path(__file__).parent.parent
PATIENCE_S = 20.0
WIDTH, TALLEST = 1100, 3000
"""Pixels of a picture: sharp on a phone's screen, and no poster of ten square metres."""
CPU_S, ADDRESS_SPACE = 15, 2 * 1024**3
MARKED = (255, 214, 0, 90)
"""Red, green, blue, and how opaque of 255."""
AT_ONCE, NICENESS = 2, 10
Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points from the page's lower left corner."""

_places = asyncio.Semaphore(AT_ONCE)


async def draw(path: Path, page: int, marks: list[str]) -> bytes | None:
    """The PNG; None where there is no such page, or it cannot be drawn. Pages count from 1; `path` is absolute."""
    async with _places:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "assistant.page_picture", str(path), str(page)),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                picture, _ = await process.communicate(json.dumps(marks).encode())
        except TimeoutError:
            return None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return picture if process.returncode == 0 else None


def picture(path: Path, number: int, marks: list[str]) -> bytes:
    """The PNG of page `number`, from 1. Raises IndexError and what PDFium raises; blocks."""
    import pypdfium2

    document = pypdfium2.PdfDocument(path)
    if not 1 <= number <= len(document):
        raise IndexError(number)
    page = document[number - 1]
    width, height = page.get_size()
    scale = min(WIDTH / width, TALLEST / height)
    image = page.render(scale=scale, may_draw_forms=False).to_pil().convert("RGB")
    _mark(image, [box for text in marks for box in boxes(page, text)], scale, height)
    out = io.BytesIO()
    image.save(out, "PNG", optimize=False, compress_level=3)
    return out.getvalue()


def boxes(page: "PdfPage", text: str) -> list[Box]:
    """Where a sentence stands on a page, a box a line; spaces and full-width forms do not matter."""
    written = page.get_textpage()
    letters: list[str] = []
    places: list[int] = []
    for place in range(written.count_chars()):
        for letter in _plain(written.get_text_range(place, 1)):
            letters.append(letter)
            places.append(place)
    wanted = _plain(text)
    start = "".join(letters).find(wanted) if wanted else -1
    if start < 0:
        return []
    found = places[start : start + len(wanted)]
    lines: list[Box] = []
    for place in dict.fromkeys(found):
        left, bottom, right, top = written.get_charbox(place, loose=True)
        last = lines[-1] if lines else None
        if last and min(top, last[3]) - max(bottom, last[1]) > 0.5 * min(top - bottom, last[3] - last[1]):
            lines[-1] = (min(left, last[0]), min(bottom, last[1]), max(right, last[2]), max(top, last[3]))
        else:
            lines.append((left, bottom, right, top))
    return lines


def _plain(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split()).casefold()


def _mark(image: "Image", lines: list[Box], scale: float, height: float) -> None:
    from PIL import Image as images
    from PIL import ImageDraw

    veil = images.new("RGBA", image.size, (0, 0, 0, 0))
    pen = ImageDraw.Draw(veil)
    for left, bottom, right, top in lines:
        corners = (left * scale, (height - top) * scale, right * scale, (height - bottom) * scale)
        pen.rectangle(corners, fill=MARKED)
    image.paste(veil, (0, 0), veil)


def main() -> None:
    """Limits first, then PDFium."""
    os.nice(NICENESS)
    for kind, value in ((resource.RLIMIT_CPU, CPU_S), (resource.RLIMIT_AS, ADDRESS_SPACE), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(kind, (value, value))
    path, page, marks = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.stdin.read())
    sys.stdout.buffer.write(picture(path, page, marks))


if __name__ == "__main__":
    main()
