"""The last turns condensed into the question, without asking the model.

A question that stands by itself is left alone. Otherwise one of three things is done, in this order:
- 那病假呢 / 2024年的呢: the earlier question is asked again with what is named now in the place of its like;
- 它多少钱 / 这个产品的重量: what the pronoun stands for is put in its place;
- 需要谁批准 / 第二款讲什么: too little is named to search by; the earlier subject goes before it.
"""

import re
from collections.abc import Sequence

from knowledge.sentences import Span
from knowledge.terms import CODE, content, fold, weight

TURNS = 6
"""Earlier questions that are looked at."""
TELLING = 9.0
"""A question whose own words weigh less than this together names no subject (see knowledge.terms.weight)."""

_OPENING = re.compile(r"^\s*(?:(?:那么|那|还有|再|另外|请问|好的|嗯|哦)[，,、\s]*)*")
_AGAIN = re.compile(
    r"^(?P<named>.+?)(?:的话)?(?:的)?(?:呢|怎么样|怎样|又如何|是多少|里是多少|里呢|里的呢|是什么)?[?？。！!\s]*$"
)
_ASKS_AGAIN = re.compile(r"(?:呢|怎么样|怎样|又如何)[?？。！!\s]*$")
_PRONOUN = re.compile(
    r"它们?的?(?=\S)|(?:这|那|该|此)(?:个|款|种|台|项|条|份|些|类|家)(?:产品|设备|机器|型号|制度|规定|办法|文件|合同|条款|东西|公司|费用|假)?"
    r"|(?:该|此)(?:产品|设备|机器|型号|制度|办法|合同|费用|假)|前者|上述(?:内容|情况|产品|规定)?|刚才(?:说|提到)?的(?:那个)?"
)
_OWNER = re.compile(r"([^的，,。]{2,12})的")
_SMALL_TALK = re.compile(
    r"(?:谢谢|多谢|感谢|好的?|你好|您好|再见|拜拜|辛苦|明白|知道|ok|嗯|哦|收到)[\w了啦您你呀啊哈，,。！!~]{0,6}",
    re.IGNORECASE,
)
_YEAR = re.compile(
    r"(?:19|20)?\d\d\s*(?:年度?|版|财年)+|[一二][〇零九][〇零一二三四五六七八九]{2}年(?:度|版)?|去年|今年|前年|明年|上一版|旧版|新版|老版本?|新版本|旧版本"
)
_CLAUSE = re.compile(r"第\s*(?:[〇零一二两三四五六七八九十百]+|\d+(?:\.\d+)*)\s*(?P<unit>章|节|条|款|项)")
_KINDS: tuple[re.Pattern[str], ...] = (
    re.compile(rf"(?:{CODE.pattern})(?:\s?(?:pro|plus|max|mini|lite)\b)?", re.IGNORECASE | re.ASCII),
    _YEAR,
    re.compile(
        r"(?:副?总经理|部门经理|经理|副?总监|主管|普通员工|其他员工|新员工|试用期员工|正式员工|实习生|外包人员|员工|组长|工程师|高管|老板)"
    ),
    re.compile(r"[一二三四五六七八九十]类城市|其他(?:地区|城市)|一线城市|二线城市|境[内外]|国[内外]|省[内外]|市[内外]"),
    re.compile(r"周[一二三四五六日天]|星期[一二三四五六日天]|周末|工作日|节假日"),
    re.compile(r"(?:满)?(?:\d+|[一二三四五六七八九十两]+)年(?:以上|以下|以内)?"),
)
"""What takes the place of what: codes, years, ranks, kinds of cities, days, years of service."""
_ASKED_OF = """
价格 单价 多少钱 钱 价 费用 重量 尺寸 大小 颜色 规格 参数 功率 电压 保修 保修期 质保 库存 库位
交期 账期 地址 电话 手机 邮箱 联系人 联系方式 负责人 部门 流程 步骤 材料 条件 要求 标准 期限
时间 时限 日期 地点 原因 依据 后果 处罚 例外 审批 批准 申请 签字 找 交 补 提前 超过 超 天
钱数 金额 上限 下限 最多 最少 最高 最低 工资 扣 发 含税 未税 办法 手续 表格 范围 对象 比例
次数 频率 型号 名称 区别 好处 用途 准备 提交 办理 领 领取
"""
_ATTRIBUTES = frozenset(_ASKED_OF.split())
"""Asked of a subject, and none themselves."""


def condense(question: str, earlier: Sequence[str]) -> str:
    """`question` with the subject of the latest of the `earlier` questions where it leaves that out; else as it is."""
    if not earlier or not question.strip() or _SMALL_TALK.fullmatch(question.strip()):
        return question
    before = condense(earlier[-1], earlier[-TURNS:-1])
    asked = question[_ends(_OPENING, question) :].strip()
    if _ASKS_AGAIN.search(asked) or (len(asked) <= 12 and _only_swaps(asked)):
        return _asked_again(asked, before)
    if match := _PRONOUN.search(asked):
        return _with_subject(asked, match, before)
    if _is_bare(asked) and (subject := _subject(before, asked)):
        return f"{subject} {asked}"
    return question


def _ends(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.match(text)
    return match.end() if match else 0


def _only_swaps(asked: str) -> bool:
    """Whether it names a year, a code, a clause, a rank and nothing else that tells (2024版里是多少)."""
    swaps = [span for kind in (*_KINDS, _CLAUSE) for match in kind.finditer(asked) for span in [match.span()]]
    rest = _without(asked, swaps)
    return bool(swaps) and not content(re.sub(r"里|的|内|版", " ", rest))


def _without(text: str, spans: Sequence[Span]) -> str:
    return "".join(
        " " if any(start <= place < end for start, end in spans) else letter for place, letter in enumerate(text)
    )


def _asked_again(asked: str, before: str) -> str:
    """The earlier question, of what is named now."""
    match = _AGAIN.match(asked)
    named = match.group("named").strip() if match else asked
    if place := _like(named, before):
        start, end = place
        return before[:start] + named + before[end:]
    own = [term for term in content(named) if term not in _ATTRIBUTES]
    if any(kind.search(named) for kind in _KINDS):
        return f"{named} {before}"
    if not own or _CLAUSE.search(named):
        return f"{_subject(before, named) or before} {named}"
    return _with_topic(named, before)


def _like(named: str, before: str) -> Span | None:
    """Where the earlier question has a word of the same kind as what is named now."""
    for kind in _KINDS:
        if kind.search(named) and (match := kind.search(before)):
            return match.span()
    if clause := _CLAUSE.search(named):
        for match in _CLAUSE.finditer(before):
            if match.group("unit") == clause.group("unit"):
                return match.span()
        return None
    return _kindred(named, before)


def _kindred(named: str, before: str) -> Span | None:
    """A word of the earlier question that ends or begins as what is named does: 年假, 病假; 成都分公司, 北京分公司."""
    folded = fold(before) if len(fold(before)) == len(before) else before
    tail = _common_tail(named, folded)
    if tail and (place := folded.find(tail)) >= 0:
        start = max(0, place - max(1, len(named) - len(tail)))
        words = [word for word in content(before) if word in folded]
        for word in words:
            at = folded.find(word)
            if at <= place and place + len(tail) <= at + len(word):
                return (at, at + len(word))
            if at < place == at + len(word):
                return (at, place + len(tail))
        return (start, place + len(tail))
    return None


def _common_tail(named: str, before: str) -> str:
    """The longest ending of `named`, short of the whole, that `before` has; a single character only behind another."""
    for length in range(len(named) - 1, 0, -1):
        tail = named[-length:]
        if before.find(tail) > 0 and (length > 1 or len(named) == 2 or named[-1] in "假费奖贴补金证单室部"):
            return tail
    return ""


def _with_topic(named: str, before: str) -> str:
    """`named` in the place of what the earlier question begins with: 华东精工 in 华东精工的合同, else its first subject."""
    if (owner := _OWNER.match(before)) and any(term in fold(owner.group(1)) for term in _subjects(before)):
        return named + before[owner.end(1) :]
    subjects, folded = _subjects(before), fold(before)
    if len(subjects) < 2 or len(folded) != len(before):
        return f"{named} {before}"
    place = folded.find(subjects[0])
    return f"{before[:place]}{named}{before[place + len(subjects[0]) :]}"


def _with_subject(asked: str, match: re.Match[str], before: str) -> str:
    subject = _subject(before, "")
    if not subject:
        return asked
    tail = "的" if match.group().endswith("的") and not match.group().startswith("刚才") else ""
    return f"{asked[: match.start()]}{subject}{tail}{asked[match.end() :]}"


def _is_bare(asked: str) -> bool:
    """Whether a question names nothing to search by."""
    terms = content(_CLAUSE.sub(" ", asked))
    own = [term for term in terms if term not in _ATTRIBUTES]
    return sum(weight(term) for term in own) < TELLING and len(asked) <= 20


def _subjects(before: str) -> list[str]:
    return [term for term in content(before) if term not in _ATTRIBUTES and weight(term) > 4.0]


def _subject(before: str, asked: str) -> str:
    """What an earlier question is about, as it said it; without what `asked` names anew."""
    if codes := [match.group() for match in _KINDS[0].finditer(before)]:
        return " ".join(codes)
    spans = [match.span() for kind in (*_KINDS, _CLAUSE) for match in kind.finditer(before)]
    clause = _CLAUSE.search(asked)
    if clause:
        spans = [span for span in spans if not before[slice(*span)].endswith(clause.group("unit"))]
    folded = fold(before)
    if len(folded) == len(before):
        spans += [(at, at + len(term)) for term in _subjects(before) if (at := folded.find(term)) >= 0]
    covered = [any(start <= place < end for start, end in spans) for place in range(len(before))]
    kept = "".join(letter if inside else " " for letter, inside in zip(before, covered, strict=True))
    return " ".join(kept.split())
