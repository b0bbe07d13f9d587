"""What extractors leave in text is put right: stray spaces, broken lines, odd code points; garbage is told from text."""

import re
import unicodedata
from itertools import pairwise

HAN = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003134f〇"
WIDE = (
    HAN
    + "\u3001-\u3003\u3005-\u3006\u3008-\u3011\u3014-\u301b\uff01-\uff0f\uff1a-\uff20\uff3b-\uff3d\u201c\u201d\u2018\u2019"
)
_WIDE = re.compile(f"[{WIDE}]")
_SPACED = re.compile(f"[{HAN}]+(?: +[{HAN}]+)+")
_BEFORE_MARK = re.compile(f"(?<=[{HAN}]) +(?=[，。；：！？、）】》”])|(?<=[（【《“，。；：！？、]) +(?=[{HAN}])")
_ORDINAL = re.compile(r"第[一二三四五六七八九十百千零〇两]+[编章节条款部篇]")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\t ]+")
_SPACE = re.compile(r"[\s\x02\ufffe]+")
_NOT_HAN = re.compile(f"[^{HAN}]+")
_USUAL = re.compile(f"[!-~{HAN}\u3000-\u303f\uff01-\uff5e]+")
_SIGNS = re.compile(r"[!\"#$%&'()+,/:;<>?@\[\\\]^`{}~]+")
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffd-\uffff\u200b\u200c\u00ad\u2060\ufeff\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]"
)
_BULLETS = re.compile("[\uf06c\uf06e\uf075\uf076\uf0a7\uf0a8\uf0b7\uf0d8\uf0fc]")
_COMPATIBLE = re.compile("[０-９Ａ-Ｚａ-ｚ％\u2f00-\u2fdf\uf900-\ufaff\U0002f800-\U0002fa1f\ufb00-\ufb06]")
_WIDE_SIGN = re.compile(r"(?<=[0-9A-Za-z])[－．／＿＋](?=[0-9A-Za-z])")
# Radicals of the supplement that fonts use for the character and Unicode does not decompose.
_RADICALS = str.maketrans("⺟⻓⻔⻋⻅⻆⻉⻚⻛⻜⻢⻥⻦⻨⻩⻬⻮⻰", "母长门车见角贝页风飞马鱼鸟麦黄齐齿龙")
_ATTACHED = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz/-.%)_")
HYPHEN = "\u00ad"
"""At the end of a line: the word goes on in the next."""


def clean(text: str) -> str:
    """Control characters, halves of surrogate pairs and invisible marks go; full-width letters and digits and
    compatibility ideographs become the usual ones; spaces inside Chinese words close. Punctuation and lines stay."""
    text = _BULLETS.sub("•", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n").replace("\x0c", "\n"))
    text = _DROPPED.sub("", text.translate(_RADICALS))
    text = _COMPATIBLE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = _WIDE_SIGN.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    lines = (close_up(_SPACES.sub(" ", line).strip()) for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def close_up(line: str) -> str:
    """`年 假 规 定` -> `年假规定`. A space between two words of several characters stays: it may part columns or names;
    so does the one after a number such as 第三章."""
    return _BEFORE_MARK.sub("", _SPACED.sub(_close_run, line))


def _close_run(run: re.Match[str]) -> str:
    groups = run[0].split()
    if len(groups[0]) == 1 and groups[0] == "第":  # 第 三 章 总 则
        glued = re.match(_ORDINAL, "".join(groups))
        if glued:
            rest = "".join(groups)[glued.end() :]
            return f"{glued[0]} {rest}" if rest else glued[0]
    text = groups[0]
    whole = [len(group) > 1 for group in groups]
    whole[0] |= run.string[: run.start()][-1:] in _ATTACHED  # 元/台
    whole[-1] |= run.string[run.end() : run.end() + 1] in _ATTACHED
    for (before, after), group in zip(pairwise(whole), groups[1:], strict=True):
        is_apart = (before and after) or _ORDINAL.fullmatch(text) is not None
        text += f" {group}" if is_apart else group
    return text


def join(before: str, after: str) -> str:
    """Two lines of one paragraph as one: no space at Chinese, one between Latin words, a hyphenated word whole again."""
    if not before or not after:
        return before + after
    if before[-1] == HYPHEN:
        return before[:-1] + after
    if before[-1] == "-" and len(before) > 1 and before[-2].islower() and after[0].islower() and after[0].isascii():
        return before[:-1] + after
    if before[-1] == "-" or _WIDE.match(before[-1]) or _WIDE.match(after[0]):
        return before + after
    return f"{before} {after}"


def is_garbled(text: str) -> bool:
    """Whether this is no text but what a font without a character map, or a wrong decoding, left of one."""
    seen = _SPACE.sub("", _BULLETS.sub("", text))
    odd = _USUAL.sub("", seen)
    unmapped = sum(unicodedata.category(c) in ("Co", "Cn", "Cc", "Cs") or c == "\ufffd" for c in odd)
    return unmapped > 0.1 * len(seen) or "锟斤拷" in text or _is_mojibake(seen, odd) or _is_rare(seen)


def _is_mojibake(seen: str, odd: str) -> bool:
    """GBK or UTF-8 read as Latin-1 is mostly accented letters; a subset font without a map is mostly ASCII signs."""
    accented = sum("\u0080" <= c <= "\u00ff" for c in odd)
    signs = len(seen) - len(_SIGNS.sub("", seen))
    return len(seen) >= 8 and (accented > 0.35 * len(seen) or (len(seen) >= 30 and signs > 0.6 * len(seen)))


def _is_rare(seen: str) -> bool:
    """Ideographs at random are mostly rare ones; of real text, simplified or traditional, nine in ten are frequent."""
    han = _NOT_HAN.sub("", seen)
    return len(han) >= 12 and max(_frequent(han, "gb2312", 0xD7), _frequent(han, "big5", 0xC6)) < 0.7


def _frequent(han: str, encoding: str, last: int) -> float:
    """The share in the frequent plane of a national set of two bytes a character, which ends with lead byte `last`."""
    leads = han.encode(encoding, "ignore")[::2]
    return len(leads.translate(None, bytes(range(last + 1, 256)))) / len(han)
