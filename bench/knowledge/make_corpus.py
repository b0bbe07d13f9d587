"""`python -m bench.knowledge.make_corpus OUT`: the corpus as real files; the same bytes every time."""

import csv
import io
import sys
from collections.abc import Callable
from pathlib import Path

from bench.knowledge.make_office import docx, pptx, xlsx
from bench.knowledge.make_pdf import pdf
from bench.knowledge.sources import Source, sources
from engine.arguments import Parser
from engine.errors import ZhidaError


def markdown(source: Source, path: Path) -> None:
    """As it was written."""
    path.write_bytes(source.markdown.encode(source.encoding))


def text(source: Source, path: Path) -> None:
    """A line for each heading, paragraph and item; Windows line ends."""
    lines = ["\t".join(row) for element in source.elements for row in (element.rows or ((element.text,),))]
    path.write_bytes("\r\n".join(lines).encode(source.encoding))


def comma_separated(source: Source, path: Path) -> None:
    """Its only table."""
    (table,) = (element for element in source.elements if element.kind == "table")
    buffer = io.StringIO()
    csv.writer(buffer).writerows(table.rows)
    path.write_bytes(buffer.getvalue().encode(source.encoding))


MAKERS: dict[str, Callable[[Source, Path], None]] = {
    ".docx": docx, ".xlsx": xlsx, ".pptx": pptx, ".pdf": pdf, ".md": markdown, ".txt": text, ".csv": comma_separated,
}  # fmt: skip


def make(folder: Path) -> list[Path]:
    """Every file of the corpus, in `folder`; their paths, by name."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for source in sources():
        paths.append(folder / source.file)
        MAKERS[source.suffix](source, paths[-1])
    return paths


def main() -> int:
    """Make them and say how many."""
    parser = Parser(prog="python -m bench.knowledge.make_corpus", description="把语料生成为真正的文件。")
    parser.add_argument("folder", type=Path, metavar="文件夹")
    try:
        paths = make(parser.parse_args().folder)
    except ZhidaError as error:
        print(error.words.zh, error.words.en, sep="\n", file=sys.stderr)
        return 1
    print(f"已生成 {len(paths)} 个文件。")
    return 0


if __name__ == "__main__":
    sys.exit(main())
