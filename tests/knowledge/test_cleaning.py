"""Text as extractors leave it, and as people wrote it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.cleaning import HYPHEN, clean, is_garbled, join


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        ("年 假 规 定", "年假规定"),
        ("年假规 定", "年假规定"),
        ("第 三 章 总 则", "第三章 总则"),
        ("一 般 规 定", "一般规定"),
        ("第三章 总则", "第三章 总则"),
        ("产品 单价 库存", "产品 单价 库存"),
        ("型号 XJ 2048 的 价 格", "型号 XJ 2048 的价格"),
        ("Python 3 运行 环境", "Python 3 运行 环境"),
        ("单位：元/台 税率13%", "单位：元/台 税率13%"),
        ("退货期限 ：15天", "退货期限：15天"),
        ("１５％，ＸＪ－２０４８，《ａ》（甲）", "15%，XJ-2048，《a》（甲）"),
        ("⼯作⽇", "工作日"),
        ("a\x00b\ud800c\u200bd\ufeff", "abcd"),
        ("\uf0b7 第一项", "• 第一项"),
        ("甲\u3000\u00a0乙丙", "甲乙丙"),
        ("一行\r\n\r\n\r\n\r\n二行", "一行\n\n二行"),
    ],
)
def test_text_is_cleaned(found: str, meant: str) -> None:
    """What an extractor leaves becomes what people wrote, and what they wrote stays."""
    assert clean(found) == meant


@given(st.text())
def test_cleaned_text_is_whole_and_clean_already(text: str) -> None:
    """No text makes cleaning fail; the result encodes, and cleaning it again changes nothing that shows."""
    once = clean(text)
    once.encode()
    assert "\x00" not in once
    assert "".join(clean(once).split()) == "".join(once.split())


@pytest.mark.parametrize(
    ("before", "after", "whole"),
    [
        ("年休假按照", "规定执行", "年休假按照规定执行"),
        ("all employees of", "the company", "all employees of the company"),
        ("more infor-", "mation", "more information"),
        (f"more infor{HYPHEN}", "mation", "more information"),
        ("型号 XJ-", "2048", "型号 XJ-2048"),
        ("共 12", "天", "共 12天"),
    ],
)
def test_broken_lines_are_joined(before: str, after: str, whole: str) -> None:
    """Chinese joins without a space, Latin with one, a hyphenated word without its hyphen."""
    assert join(before, after) == whole


@pytest.mark.parametrize(
    "text",
    [
        "年假规定按工龄计算".encode("gbk").decode("latin-1"),
        ("年假规定按工龄计算" * 3).encode().decode("gb18030", "replace"),
        "\ue0a1\ue0b2\ue0c3年假",
        "锟斤拷锟斤拷",
        "\ufffd\ufffd年\ufffd",
        "!\"#$%&'()!\"#$%&'()!\"#$%&'()ab!\"#$%&'()",
        "龘靐齉爩鱻麤龗灪吁龖厵滟爨癵籱饢驫鲡鹂鸾",
    ],
)
def test_garbage_is_told(text: str) -> None:
    """Wrong decodings, private-use glyphs, replacement characters and ideographs at random."""
    assert is_garbled(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "年假",
        "员工连续工作满一年的，享受带薪年休假。",
        "繁體中文資料庫的說明文件，請參閱第三章之規定。",
        "Les employés déjà présents l'été dernier.",
        "\uf0b7 第一项\n\uf0b7 第二项",
        "1,280.00 | 15% | (0.5) | 2026-03-01 | ￥99.00 | +86-10-8888",
        "目录……………………3",
    ],
)
def test_real_text_is_no_garbage(text: str) -> None:
    """Chinese of both kinds, French, bullets of symbol fonts, figures and dots."""
    assert not is_garbled(text)
