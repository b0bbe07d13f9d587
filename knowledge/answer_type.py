"""What kind of thing a question asks for, and whether a passage has one of that kind to offer."""

import re
from functools import lru_cache

_NUMBER = r"(?:\d[\d,.]*|[一二两三四五六七八九十百千半]+)"
_LONG = rf"{_NUMBER}\s*(?:个)?(?:工作日|自然日|小时|分钟|秒|天|日|周|星期|个?月|年|季度)|当[天日]|次[日月]|当月|每[天日周月季年]|永久|终身|立即|随时"
_WHEN = (
    rf"{_LONG}|\d{{1,2}}[:：]\d\d|{_NUMBER}\s*[点月日号]|周[一二三四五六日末天]|星期|上午|下午|月[初底]|年[初底]|季度"
)
_MONEY = rf"{_NUMBER}\s*(?:[万亿百千]?元|块)|[¥￥]|免费|[价费额]\w{{0,6}}[：:；;]\s*\d|\d%"

_TYPES: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(asked), re.compile(offered))
    for asked, offered in (
        (
            r"多少钱|几块钱?|[价费款金薪]\w{0,4}(?:是|要)?多少|多少元|什么价|[单售报]价|多少(?:费用|补贴|工资|奖金)|收费|花多少|罚多少",
            _MONEY,
        ),
        (r"电话|手机|号码|热线|分机", r"\d{4,}"),
        (r"百分之|比例|占比|税率|几成|百分比", r"\d%|％|百分之|‰"),
        (r"几点|什么时候|何时|哪天|哪一天|几号|几月|星期几|周几|时间", _WHEN),
        (
            r"[几多少]+(?:个)?(?:工作日|小时|天|日|年|月|周|星期|分钟)|多久|多长时间|期限|时限|保修期|有效期|账期|交期|频率|几年",
            _LONG,
        ),
        (r"多重|重量|多少(?:公斤|克|吨|kg)", r"\d\s*(?:kg|g|公斤|千克|克|吨)"),
        (r"多少|几[个人名台次件条级层位张份项寸楼倍]|多[大高宽深远]", rf"{_NUMBER}"),
        (
            r"谁|哪位|什么人|哪个部门|找哪|联系人|负责人",
            r"部|经理|总监|主管|专员|员|负责人|：[一-鿿]{2,3}(?:；|$)|公司|老板|甲方|乙方",
        ),
        (r"在哪|哪里|哪儿|地址|地点|什么地方|几楼|库位", r"[楼层路号区室厅市省县侧门库栋]|地址|地点|[A-Z]-\d"),
        (r"邮箱|网址|网站", r"@|https?:|www\."),
    )
)


@lru_cache(maxsize=256)
def offered(question: str) -> re.Pattern[str] | None:
    """What an answer to the question would have in it; None where the question does not say."""
    return next((offers for asked, offers in _TYPES if asked.search(question)), None)


def fits(question: str, passage: str) -> float:
    """1 where the passage has what is asked for, -1 where it lacks it, 0 where that is not known."""
    pattern = offered(question)
    if pattern is None:
        return 0.0
    return 1.0 if pattern.search(passage) else -1.0
