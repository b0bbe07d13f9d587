"""The labelled set: it is as large as it says, and every label holds in what the readers make of the files."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from bench.knowledge.make_corpus import make
from bench.knowledge.questions import ABSENT, questions
from bench.knowledge.sources import sources
from knowledge.base import Passage
from knowledge.reading import read
from knowledge.splitter import split

KINDS = {"plain", "paraphrase", "code", "number", "table", "year", "clause", "followup", "colloquial", ABSENT}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The corpus as real files."""
    return make(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def passages(files: list[Path]) -> dict[str, list[Passage]]:
    """What the library would index, by file."""
    return {path.name: split(read(path, path.name), path.stem) for path in files}


def test_there_is_enough_of_everything() -> None:
    """At least 30 files in seven formats; at least 240 questions of every kind, a third of them without an answer."""
    formats = Counter(source.suffix for source in sources())
    assert sum(formats.values()) >= 30
    assert formats[".docx"] >= 12
    assert formats[".pdf"] >= 10
    assert formats[".xlsx"] >= 6
    assert {".pptx", ".md", ".txt", ".csv"} <= set(formats)
    kinds = Counter(question.kind for question in questions())
    assert set(kinds) == KINDS
    assert sum(kinds.values()) >= 240
    assert kinds[ABSENT] / sum(kinds.values()) == pytest.approx(1 / 3, abs=0.01)


def test_questions_are_well_formed() -> None:
    """Ids and questions are unique, answers and facts go together, follow-ups follow something, files exist."""
    asked = questions()
    assert len({question.id for question in asked}) == len(asked)
    assert len({(question.text, question.earlier) for question in asked}) == len(asked)
    names = {source.file for source in sources()}
    for question in asked:
        assert bool(question.answers) == bool(question.facts) == (not question.is_absent), question
        assert question.earlier or question.kind != "followup", question
        assert {answer.file for answer in question.answers} <= names, question


def test_both_halves_have_both_sorts() -> None:
    """The halves are of a size, and stay as they are: the fitted gate must not have seen the half it is reported on."""
    halves = Counter((question.half, question.is_absent) for question in questions())
    assert min(halves.values()) >= 40
    first = questions()[0]
    assert first.half == ("fit" if hashlib.sha256(first.id.encode()).digest()[0] % 2 else "report")


def test_every_answer_stands_in_one_passage(passages: dict[str, list[Passage]]) -> None:
    """Each quote is found in a single passage of its file, read and split as the library does it."""
    missing = [
        (question.id, answer)
        for question in questions()
        for answer in question.answers
        if not any(answer.stands_in("".join((*p.at.headings, p.text))) for p in passages[answer.file])
    ]
    assert missing == []


def test_the_pdfs_have_pages(passages: dict[str, list[Passage]]) -> None:
    """Every PDF has several pages, and passages that say which."""
    for source in sources():
        if source.suffix == ".pdf":
            assert len({passage.at.page for passage in passages[source.file]}) > 1, source.file


def test_the_same_bytes_every_time(files: list[Path], tmp_path: Path) -> None:
    """A second making gives the same files: figures of two days can be compared."""
    again = make(tmp_path)
    assert [path.name for path in again] == [path.name for path in files]
    assert [
        path.name for path, other in zip(files, again, strict=True) if path.read_bytes() != other.read_bytes()
    ] == []
