"""deploy/: files that Prometheus and Grafana take, with no figure that nobody exposes."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from engine import figures
from engine.alarms import Alarm
from engine.base import EngineHealth, EngineState
from engine.gpu_use import GpuUse
from engine.history import UNCOUNTED
from engine.machine_use import MachineUse
from engine.metrics import OUTCOMES, Metrics
from engine.vitals import Vitals, exposition
from engine.words import Words

ROOT = Path(__file__).parent.parent
DASHBOARD = ROOT / "deploy" / "grafana" / "zhida.json"
NAME = re.compile(r"\b(?:zhida_\w+|vllm:\w+)\b")
FULL = Vitals(
    at=0.0, uptime_s=1.0, health=EngineHealth(EngineState.READY, None, 1, 0, 0.5, 3, 100), running=1, queued=0, concurrent=2,
    max_queued=4, tokens_s=9.0, first_p50=0.1, first_p95=0.2, ended=1, failed=0, refused=0,
    alarms={Alarm.ERRORS: Words("错", "wrong")}, samples=(),
)  # fmt: skip


def expressions() -> list[str]:
    """Every query of the dashboard."""
    board: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def used(prefix: str) -> set[str]:
    """The dashboard's metric names of one prefix; a label may be named like its metric."""
    found = {name for expression in expressions() for name in NAME.findall(expression)}
    return {name for name in found if name.startswith(prefix)}


def exposed(page: str) -> set[str]:
    """The sample names of a Prometheus page."""
    return {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}


def test_every_figure_of_ours_is_exposed() -> None:
    """With a card and an engine that says everything, /metrics has each name that the dashboard asks for."""
    use = MachineUse(GpuUse(1, 2, 0.5), 1000, 0.1)
    metrics = Metrics()
    metrics.state(EngineState.READY)
    page = generate_latest(metrics.registry) + exposition(FULL, use)
    assert used("zhida_") <= exposed(page.decode())
    assert len(used("zhida_")) > 12


def test_what_is_unknown_is_not_exposed() -> None:
    """No 0 in place of a figure that nobody knows."""
    blank = Vitals(
        at=0.0, uptime_s=None, health=EngineHealth(EngineState.LOADING), running=0, queued=0, concurrent=1, max_queued=0,
        tokens_s=None, first_p50=None, first_p95=None, ended=0, failed=0, refused=0, alarms={}, samples=(),
    )  # fmt: skip
    assert exposed(exposition(blank, MachineUse(None)).decode()) == {"zhida_limit", "zhida_warning"}


def test_errors_are_a_share_of_the_same_questions() -> None:
    """The dashboard leaves out the outcomes that the app itself leaves out, and each is one that is counted."""
    left_out = [found.group(1) for text in expressions() if (found := re.search(r'outcome!~"([\w|]+)"', text))]
    assert [set(outcomes.split("|")) for outcomes in left_out] == [set(UNCOUNTED)]
    assert set(UNCOUNTED) < set(OUTCOMES)


def test_vllms_figures_are_asked_for_under_both_names() -> None:
    """Each vLLM name is one that the app itself reads, and whoever asks for one asks for the other."""
    assert used("vllm:") <= set(figures.NAMES)
    for names in (figures.KV_USE, figures.PREEMPTIONS):
        asking = [
            expression for expression in expressions() if any(re.search(rf"{name}\b", expression) for name in names)
        ]
        assert asking
        assert all(re.search(rf"{name}\b", expression) for expression in asking for name in names)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) 不在")
def test_prometheus_takes_the_scrape_file_and_the_queries(tmp_path: Path) -> None:
    """promtool's own word on both."""
    rules = [{"record": f"dashboard:query{number}", "expr": text} for number, text in enumerate(expressions())]
    path = tmp_path / "rules.json"  # JSON is YAML
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    for command in (["config", str(ROOT / "deploy" / "prometheus.yml")], ["rules", str(path)]):
        subprocess.run(["promtool", "check", *command], check=True, capture_output=True)
