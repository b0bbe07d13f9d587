"""The published tables: their figures as printed there, this machine's beside them, and no cell without an answer."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bench.chart import draw
from bench.findings import STEPS, Findings
from bench.memory import Resources
from bench.published import published
from bench.samples import Level, Sample, summarise
from bench.tables import NO_CARD, markdown
from engine.errors import ConfigurationError


def level(clients: int, resources: Resources) -> Level:
    """A level in which every request took 0.3 s to its first text and 1.25 s in all."""
    return summarise(str(clients), [Sample(5.0, 0.3, 1.25, 256, 20, 30)] * clients, 5.0, resources)


def findings(resources: Resources) -> Findings:
    """As measured, every step of the same level."""
    found = Findings("演示模型", 33.26, 8, resources, resources, here=True, why_no_browser="应用没有启动")
    found.levels = {step.key: level(step.clients, resources) for step in STEPS}
    found.answers = {step.key: step.answer for step in STEPS}
    return found


ON_CPU, ON_CARD = Resources(ram_mib=2048.0), Resources(gpu_mib=21000.0, gpu_use=0.876, ram_mib=3072.0)


def row(text: str, beginning: str) -> list[str]:
    """The cells of the one row that begins so."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {beginning} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_published_figures_are_all_there() -> None:
    """Article A's and article B's, in their own rows."""
    text = markdown(findings(ON_CPU))
    assert "| A10 | 1,248 | 9,864 | 10,120 | 10,744 | 11,528 |" in text
    assert "| A10 | 82 | 130 | 未公布 | 8–16 | 18.4335 |" in text
    assert "| A100 40G | 41 | 未公布 | 42.6 | 16–32 | 未公布 |" in text
    assert "| 页面上的首字 ms[^4] | 280 |" in text
    for scene in published()["article_b"]["resources"]:
        assert f"| {scene['gpu_gb']} |" in text


def test_a_machine_without_a_card_says_so() -> None:
    """In every cell of the card's; memory is the processes'."""
    text = markdown(findings(ON_CPU))
    assert row(text, "本机 显存")[1:] == [NO_CARD] * 5
    assert row(text, "本机 内存[^3]")[1:] == ["2,048"] * 5
    assert row(text, "15 个请求，极限") == ["15 个请求，极限", "22.7", NO_CARD, "5.6", "2.0", "98", NO_CARD]


def test_a_card_is_shown() -> None:
    """Memory in GiB and use in percent."""
    text = markdown(findings(ON_CARD))
    assert NO_CARD not in text
    assert row(text, "已加载，空闲") == ["已加载，空闲", "5.2", "20.5", "1.8", "3.0", "0", "88"]


def test_no_cell_is_blank() -> None:
    """What cannot be measured says why."""
    for resources in (ON_CPU, ON_CARD, Resources()):
        found = findings(resources)
        found.levels["16"] = replace(found.levels["16"], first_s=None)
        for line in markdown(found).splitlines():
            if line.startswith("|"):
                cells = [cell.strip() for cell in line.strip("|").split("|")]
                assert all(cells[1:]), line


def test_our_latencies_stand_beside_theirs() -> None:
    """Milliseconds end to end, and requests a second."""
    text = markdown(findings(ON_CPU))
    assert row(text, "短回答") == ["短回答", "210", "1,250", "340", "1,250", "8.2", "1.60"]
    assert row(text, "本机")[1:] == ["300", "300", "6.40", "8（显卡配置的上限）", "33.3"]


def test_shortened_answers_are_told() -> None:
    """With the length that was meant and the one that was run."""
    found = findings(ON_CPU)
    assert "各行都用文章的全部长度" in markdown(found)
    found.answers["8"] = 48
    assert "8 个同时 512 → 48" in markdown(found)
    assert row(markdown(found), "本机")[3] == "6.40（512 → 48 词元，见注）"


def test_errors_are_told() -> None:
    """A row whose requests failed does not pass for a good one."""
    found = findings(ON_CPU)
    found.levels["4"] = replace(found.levels["4"], errors={"EngineBusy": 2})
    assert "EngineBusy" in markdown(found)


def test_what_cannot_be_is_footnoted() -> None:
    """Memory that grows with concurrency cannot be the KV cache; every footnote that is pointed at is there."""
    text = markdown(findings(ON_CPU))
    assert "不可能是 KV 缓存" in text
    assert set(re.findall(r"\[\^(\d)\](?!:)", text)) == set(re.findall(r"\[\^(\d)\]:", text))


def test_the_published_data_says_where_it_is_from() -> None:
    """And is no measurement of ours."""
    assert "article A" in published()["where"]
    assert "Nothing here was measured by this project" in published()["where"]


@pytest.mark.parametrize("resources", [ON_CPU, ON_CARD, Resources()])
def test_the_chart_is_a_picture(resources: Resources, tmp_path: Path) -> None:
    """A PNG, without a warning for a missing glyph (warnings are errors here)."""
    draw(findings(resources), tmp_path / "new" / "chart.png")
    assert (tmp_path / "new" / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_chinese_font_the_chart_speaks_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than in empty boxes, which would warn."""
    monkeypatch.setattr("bench.chart.FONTS", ())
    draw(replace(findings(ON_CPU), model="demo"), tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 10_000


def test_a_chart_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """In one sentence."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="无法写入"):
        draw(findings(ON_CPU), tmp_path / "file" / "chart.png")


def test_the_findings_are_json() -> None:
    """All of them."""
    assert json.loads(json.dumps(findings(ON_CARD).json()))["levels"]["8"]["answered"] == 8
