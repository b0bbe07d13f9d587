"""Pages of company rules made up for measuring: Chinese of the usual kind, no two sentences alike, the same every time."""

import random
from collections.abc import Iterator
from pathlib import Path

PAGE = 400
"""Characters, headings included."""
PAGES_A_FILE = 25

TOPICS = (
    "考勤管理", "差旅报销", "采购审批", "合同管理", "客户投诉", "产品保修", "仓库盘点", "信息安全", "培训考核", "薪酬福利", "安全生产", "设备维护", "档案管理", "印章使用",
    "车辆调度", "会议室预订", "供应商评估", "质量检验", "物流配送", "售后服务", "价格政策", "招聘录用", "离职交接", "绩效评定", "固定资产", "网络机房", "食堂管理", "宿舍管理",
    "门禁访客", "环境保护",
)  # fmt: skip
PEOPLE = (
    "行政部",
    "人力资源部",
    "财务部",
    "法务部",
    "采购部",
    "销售部",
    "技术部",
    "质检部",
    "仓储部",
    "客服部",
    "分管副总",
    "总经理",
    "部门负责人",
    "直属主管",
    "项目经理",
)
THINGS = (
    "申请单", "验收报告", "发票原件", "付款凭证", "会议纪要", "检验记录", "出库单", "保修卡", "培训证书", "体检报告", "合同副本", "报价单", "盘点表", "交接清单", "维修工单",
    "访客登记表", "考勤记录", "评估表", "备用钥匙", "系统账号",
)  # fmt: skip
ACTIONS = (
    "提交", "审核", "归档", "签收", "复核", "登记", "更新", "退回", "销毁", "公示", "抄送", "盖章", "汇总", "抽查", "备份",
)  # fmt: skip
CASES = (
    "金额超过{n}元的", "入职满{m}个月的员工", "型号为{code}的产品", "遇到法定节假日", "逾期{m}天仍未办理的", "出差到{city}的", "连续{m}次不合格的供应商", "客户在{m}个工作日内提出异议的",
    "夜间{h}点以后进出的", "单次领用超过{m}件的",
)  # fmt: skip
CITIES = (
    "北京",
    "上海",
    "广州",
    "深圳",
    "成都",
    "武汉",
    "西安",
    "杭州",
    "南京",
    "重庆",
    "青岛",
    "厦门",
    "长沙",
    "郑州",
    "沈阳",
    "昆明",
)
SENTENCES = (
    "{case}，应在{m}个工作日内向{who}{do}{thing}，并由{who2}{do2}。",
    "{who}负责{do}{thing}，每{m}天与{who2}核对一次，差异超过{p}%的须书面说明原因。",
    "{case}，{thing}由{who}统一{do}，保存期限为{y}年，编号以{code}开头。",
    "自{year}年{mo}月{d}日起，{thing}改为在线{do}，纸质版本由{who}留存{m}个月。",
    "未按规定{do}{thing}的，{who}可以暂停其权限{m}天；情节严重的，扣减当月绩效{p}%。",
    "{city}分公司的{thing}参照本条执行，标准为每人每天{n}元，由{who}{do}后发放。",
    "{who}收到{thing}后，应当场{do}；数量与{code}清单不符的，当天通知{who2}。",
    "对{thing}有疑问的，可以拨打内线{ext}联系{who}，答复时间不超过{m}小时。",
)


def sentences(seed: int) -> Iterator[str]:
    """Without end; the same for the same seed."""
    chance = random.Random(seed)
    while True:
        values = {
            "who": chance.choice(PEOPLE), "who2": chance.choice(PEOPLE), "thing": chance.choice(THINGS),
            "do": chance.choice(ACTIONS), "do2": chance.choice(ACTIONS), "city": chance.choice(CITIES),
            "code": f"{chance.choice('ABCDGHKMTXZ')}{chance.choice('JLPQRS')}-{chance.randint(1000, 9999)}",
            "n": chance.randint(2, 999) * 10, "m": chance.randint(1, 60), "h": chance.randint(18, 23),
            "p": chance.randint(1, 30), "y": chance.randint(1, 30), "year": chance.randint(2015, 2026),
            "mo": chance.randint(1, 12), "d": chance.randint(1, 28), "ext": chance.randint(1000, 9999),
        }  # fmt: skip
        values["case"] = chance.choice(CASES).format_map(values)
        yield chance.choice(SENTENCES).format_map(values)


def page(number: int) -> str:
    """A heading and a few clauses: PAGE characters, a sentence more or less."""
    topic = TOPICS[number % len(TOPICS)]
    text, clauses = f"## 第{number + 1}条 {topic}细则\n\n", sentences(number)
    while len(text) < PAGE:
        text += next(clauses) + ("\n\n" if len(text) % 3 == 0 else "")
    return text + "\n\n"


def write(folder: Path, pages: int) -> list[Path]:
    """Markdown files of PAGES_A_FILE pages."""
    paths = []
    for first in range(0, pages, PAGES_A_FILE):
        path = folder / f"{TOPICS[first // PAGES_A_FILE % len(TOPICS)]}制度第{first // PAGES_A_FILE + 1}册.md"
        path.write_text("".join(map(page, range(first, min(pages, first + PAGES_A_FILE)))), encoding="utf-8")
        paths.append(path)
    return paths


def questions(count: int) -> list[str]:
    """As people would ask them; half name a code or a number."""
    chance = random.Random(0)
    forms = (
        "{thing}要交给谁{do}？", "{thing}的保存期限是几年？", "{code}开头的{thing}由谁负责？", "去{city}出差每天补助多少钱？", "没有按时{do}{thing}会怎么处理？",
        "{thing}有问题打哪个电话？", "超过{n}元的{thing}谁来批？", "晚上很晚才离开公司要办什么手续？",
    )  # fmt: skip
    return [
        chance.choice(forms).format(
            thing=chance.choice(THINGS), do=chance.choice(ACTIONS), city=chance.choice(CITIES),
            n=chance.randint(2, 999) * 10, code=f"{chance.choice('ABCDGHKMTXZ')}{chance.choice('JLPQRS')}-{chance.randint(1000, 9999)}",
        )
        for _ in range(count)
    ]  # fmt: skip
