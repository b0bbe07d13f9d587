"""The XML parts of a Word file by their relationship to the body. python-docx would load every part, pictures too, and
give up at a link to nothing, which WPS writes; this takes what is read."""

from collections.abc import Iterator
from pathlib import Path
from posixpath import basename, dirname, join, normpath
from typing import Any
from zipfile import ZipFile

from docx.oxml import parse_xml

_MAIN = "officeDocument"


class WordParts:
    """Raises KeyError where there is no body, lxml's errors for broken XML."""

    def __init__(self, path: Path) -> None:
        with ZipFile(path) as archive:
            names = set(archive.namelist())
            main = dict(_relations(archive, names, ""))[_MAIN]
            self.body: Any = parse_xml(archive.read(main))
            related = [(kind, target) for kind, target in _relations(archive, names, main) if kind in _READ]
            self._parts = [(kind, parse_xml(archive.read(target))) for kind, target in related]

    def all(self, kind: str) -> list[Any]:
        """The roots of the parts of a kind (`header`), in the file's order."""
        return [root for name, root in self._parts if name == kind]

    def one(self, kind: str) -> Any:
        """The root of the only part of a kind; None without one."""
        return next(iter(self.all(kind)), None)


_READ = frozenset({"styles", "numbering", "footnotes", "endnotes", "header", "footer"})


def _relations(archive: ZipFile, names: set[str], part: str) -> Iterator[tuple[str, str]]:
    """Kind and target of each link to a part that is there."""
    folder = dirname(part)
    source = join(folder, "_rels", f"{basename(part)}.rels")
    if source not in names:
        return
    for relation in parse_xml(archive.read(source)):
        target = relation.get("Target", "")
        target = target.lstrip("/") if target.startswith("/") else normpath(join(folder, target))
        if relation.get("TargetMode") != "External" and target in names:
            yield basename(relation.get("Type", "")), target
