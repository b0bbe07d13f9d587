"""A zip is inflated once, in pieces and to nowhere, before any parser sees it: its declared sizes may lie."""

import re
import zlib
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from knowledge.base import FileRefused
from knowledge.readers import limits
from knowledge.readers.refusals import BOMB, DAMAGED, ENCRYPTED

_CHUNK = 256 * 1024
_DOCTYPE = re.compile(rb"<!(?:DOCTYPE|ENTITY)|<\x00!\x00[DE]\x00|\x00<\x00![\x00][DE]", re.IGNORECASE)


def check(path: Path) -> None:
    """Refuse what inflates too far, what is cut off, and XML that declares entities (Office files never do)."""
    try:
        with ZipFile(path) as archive:
            _check_members(archive, path.stat().st_size)
    except (BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, ValueError) as error:
        raise FileRefused(DAMAGED) from error


def _check_members(archive: ZipFile, packed: int) -> None:
    members = archive.infolist()
    if len(members) > limits.MEMBERS:
        raise FileRefused(BOMB)
    total = 0
    for member in members:
        if member.flag_bits & 1:
            raise FileRefused(ENCRYPTED)
        if member.file_size > limits.INFLATED_BYTES:
            raise FileRefused(BOMB)
        total += _inflated(archive, member, packed)
        if total > limits.INFLATED_BYTES:
            raise FileRefused(BOMB)


def _inflated(archive: ZipFile, member: ZipInfo, packed: int) -> int:
    """Bytes that the member really has. zipfile stops at the declared size and then finds the checksum wrong;
    `packed` is the file's size: a member that claims more packed bytes than that does not make a better ratio."""
    is_xml = member.filename.lower().endswith((".xml", ".rels", ".vml"))
    size, tail = 0, b""
    with archive.open(member) as stream:
        while piece := stream.read(_CHUNK):
            size += len(piece)
            if size > limits.INFLATED_BYTES or _is_bomb(size, min(member.compress_size, packed)):
                raise FileRefused(BOMB)
            if is_xml and (size > limits.PART_BYTES or _DOCTYPE.search(tail + piece)):
                raise FileRefused(BOMB)
            tail = piece[-16:]
    return size


def _is_bomb(size: int, packed: int) -> bool:
    return size > limits.RATIO_FROM and size > limits.RATIO * max(packed, 1)
