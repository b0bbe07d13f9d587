"""The words that full-text search goes by."""

import pytest

from knowledge.tokens import cut, cut_question, exact


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("型号ＸＪ－２０４８的价格", "xj-2048"),
        ("型号XJ-2048的价格", "xj2048"),
        ("依据第十二条处理", "12条"),
        ("依据第12条处理", "12条"),
        ("退货期限为十五天", "15天"),
        ("退货期限为 15 天", "15天"),
        ("单价1,280元", "1280元"),
        ("自2025年3月1日起", "2025-3-1"),
        ("自2025-03-01起", "2025-3-1"),
        ("2024年的规定", "2024"),
        ("容量为512GB", "512gb"),
    ],
)
def test_what_must_be_found_to_the_letter_is_a_word(text: str, word: str) -> None:
    """However it is written: full width, Chinese figures, grouped thousands."""
    assert word in cut(text).split()


def test_long_words_are_found_by_their_parts() -> None:
    """jieba's search mode adds the words within a word."""
    assert {"中华", "人民", "共和国"} <= set(cut("中华人民共和国劳动合同法").split())


def test_a_question_loses_what_every_question_has() -> None:
    """Each word once, without question words and stop words."""
    words = cut_question("请问退货退货的期限是多少天？").split()
    assert "退货" in words
    assert "期限" in words
    assert not {"请问", "的", "是", "多少", "？"} & set(words)
    assert len(words) == len(set(words))


def test_a_question_of_nothing_else_keeps_its_words() -> None:
    """Something must be searched for."""
    assert cut_question("这是什么")


def test_no_text_has_no_words() -> None:
    """Punctuation alone is no word."""
    assert cut("……，。！") == ""
    assert exact("没有数字") == []


def test_jieba_leaves_nothing_in_the_shared_folder(tmp_path: object) -> None:
    """Its marshal cache in the temporary folder of all could be anybody's."""
    from knowledge.tokens import cutter

    assert "zhida-jieba-" in str(cutter().dt.tmp_dir)
