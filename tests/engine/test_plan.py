"""`python -m engine.plan`: the table, the JSON and the picture, for this machine and for cards that are not here."""

import json
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from rich.cells import cell_len

from engine import drawing, plan
from engine.hardware import Card
from engine.profiles import load_profiles
from tests.engine.backends import ROOT

A10 = Card("NVIDIA A10", 23028, 22511, (8, 6), "580.82.07", 517)
SLOW_IMPORTS = ("vllm", "torch", "transformers", "openai", "chainlit", "matplotlib")


@pytest.fixture(autouse=True)
def empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cached models, no .env, no card."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "ms"))
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "detect_card", lambda: None)


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The last line, read."""
    assert plan.main(["--json", *arguments]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return answer


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """One row a profile, this machine's first and marked, columns aligned in Chinese width, reasons below."""
    assert plan.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "权重不在这台机器上，按已知的 config.json 和 721,496,064 字节计算" in lines[0]
    rows = lines[3 : 3 + len(load_profiles())]
    assert rows[0].startswith("▶ cpu")
    assert {row.split()[0] for row in rows[1:]} == set(load_profiles()) - {"cpu"}
    assert {cell_len(row[: row.index("  同时 ")]) for row in rows} == {
        cell_len(lines[2][: lines[2].index("  先到的上限")])
    }
    h200 = next(row for row in rows if " h200 " in row)
    assert "1,777" in h200
    assert "可用内存" in "\n".join(lines)
    assert any(line.startswith("  dtype = bfloat16  [实测]") for line in lines)


def test_the_card_that_is_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row comes first, with what is free now; half of it taken, the row is refused and so is the exit status."""
    monkeypatch.setattr(plan, "detect_card", lambda: A10)
    assert plan.main([]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[3].startswith("▶ a10")
    assert "检测到 NVIDIA A10，用配置 a10。现在空闲 22.0 / 22.5 GiB" in said
    assert "公开测试的建议：max_concurrent = 8–16" in said
    monkeypatch.setattr(plan, "detect_card", lambda: Card("NVIDIA A10", 23028, 9000, (8, 6), "580", 517))
    assert plan.main([]) == 1
    said = capsys.readouterr().out
    assert "✗ 不能运行" in said.splitlines()[3]
    assert "ENGINE_GPU_UTILIZATION=" in said


def test_a_derived_card(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A card without a profile: what it is derived from, and that one's own row too."""
    monkeypatch.setattr(plan, "detect_card", lambda: Card("NVIDIA GeForce RTX 3060", 12288, 12000, (8, 6), "580", 300))
    found = as_json(capsys)
    assert "由显存与计算能力最接近的 a10 推导" in found["reason"]
    assert [profile["is_here"] for profile in found["profiles"]][:2] == [True, False]
    assert len(found["profiles"]) == len(load_profiles()) + 1
    assert "RTX 3060" in found["profiles"][0]["title"]
    assert plan.main([]) == 0
    assert capsys.readouterr().out.splitlines()[3].startswith("▶ auto:a10（推导）")
    (shipped,) = as_json(capsys, "--profile", "a10")["profiles"]
    assert shipped["title"] == load_profiles()["a10"].title
    (here,) = as_json(capsys, "--profile", "auto")["profiles"]
    assert here["name"] == "auto:a10"


def test_json_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that add up to the whole, reasons and published values; settings are counted in."""
    found = as_json(capsys)
    assert found["window"] == 4096
    for profile in found["profiles"]:
        parts = profile["weights"] + profile["overhead"] + profile["pool"] + profile["rest"]
        assert parts == profile["total"]
        assert set(profile["reasons"]["dtype"]) == {"value", "source", "reason"}
    by_name = {profile["name"]: profile for profile in found["profiles"]}
    assert by_name["h200"]["pool"] / 2**30 == pytest.approx(124.69, rel=0.03)
    assert by_name["a10"]["published"]["max_tokens"].startswith("512")


def test_settings_count(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Window, share, concurrency and the user's own profiles, as the start would take them."""
    (tmp_path / "my.toml").write_text("[lab]\nmemory_gib=11\ncapability=[8, 6]\ndtype='bfloat16'\nmax_concurrent=9\n")
    settings = {"MAX_MODEL_LEN": "8192", "GPU_UTILIZATION": "0.5", "MAX_CONCURRENT": "3", "PROFILES": "my.toml"}
    for name, value in settings.items():
        monkeypatch.setenv(f"ENGINE_{name}", value)
    (profile,) = as_json(capsys, "--profile", "lab")["profiles"]
    assert profile["max_concurrent"] == 3
    assert profile["reasons"]["gpu_memory_utilization"] == {
        "value": 0.5,
        "source": "own",
        "reason": "设置 ENGINE_GPU_UTILIZATION",
    }
    assert profile["weights"] + profile["overhead"] + profile["pool"] <= profile["total"] / 2


def test_a_folder(capsys: pytest.CaptureFixture[str], tiny_model: Path, tmp_path: Path) -> None:
    """A model on this machine is read; a folder with nothing but its config.json will do."""
    whole = as_json(capsys, "--model", str(tiny_model), "--profile", "auto")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes((tiny_model / "config.json").read_bytes())
    bare = as_json(capsys, "--model", str(tmp_path / "bare"), "--profile", "auto")
    assert whole["profiles"][0]["weights"] == bare["profiles"][0]["weights"] > 0
    assert whole["model"] == tiny_model.name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--model", "someone/else"], "python -m engine.weights --model someone/else"),
        (["--model", "demo"], "python -m engine.weights --model demo"),
        (["--model", "baidu/ERNIE-4.5-0.3B-Paddle"], "-PT"),
        (["--model", "/nowhere/at/all"], "不存在"),
        (["--model", "what is this"], "owner/name"),
        (["--profile", "a11"], "a100-40g"),
        (["--profil", "a10", "--jsn"], "不认识的参数 --jsn。用法见 python -m engine.plan --help。"),
        (["--model"], "参数 --model 后面缺少值。"),
        (["--picture", "plan.pdf"], ".svg 或 .png"),
        (["--picture", "nowhere/plan.svg"], "不能写入"),
    ],
)
def test_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    """What cannot be answered is said in both languages, with status 1 and no traceback."""
    assert plan.main(arguments) == 1
    said = capsys.readouterr()
    assert says in said.err
    assert said.out == ""
    assert len(said.err.splitlines()) == 2


def test_an_architecture_without_keys_and_values(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """MLA: that it cannot be computed, and no number."""
    (tmp_path / "config.json").write_text('{"kv_lora_rank": 512, "hidden_size": 64, "vocab_size": 64, "num_hidden_layers": 2, '
                                          '"num_attention_heads": 2, "model_type": "deepseek_v2"}')  # fmt: skip
    assert plan.main(["--model", str(tmp_path)]) == 1
    assert "MLA" in capsys.readouterr().err


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    """The JSON comes without vLLM, torch, or what draws pictures."""
    script = (
        "import sys; from engine.plan import main; code = main(['--json']);"
        f"print([name for name in {SLOW_IMPORTS} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert ran.stderr.strip() == "[]"


class TestPicture:
    def test_svg(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Text stays text, in Chinese, for the viewer's fonts; every profile is there; nothing is said of fonts."""
        assert plan.main(["--picture", str(tmp_path / "plan.svg")]) == 0
        assert "findfont" not in capsys.readouterr().err
        texts = [each.text for each in xml.etree.ElementTree.parse(tmp_path / "plan.svg").iter() if each.text]
        assert "KV 缓存" in texts
        assert "1,777 个满对话" in texts
        assert all(any(text.startswith((f"{name} ", f"▶ {name} ")) for text in texts) for name in load_profiles())

    def test_a_dollar_in_the_name(self, tmp_path: Path, tiny_model: Path) -> None:
        """A name is a name, not a formula."""
        (tmp_path / "a$b$_{").mkdir()
        (tmp_path / "a$b$_{" / "config.json").write_bytes((tiny_model / "config.json").read_bytes())
        assert plan.main(["--model", str(tmp_path / "a$b$_{"), "--picture", str(tmp_path / "plan.svg")]) == 0
        assert "a$b$_{" in (tmp_path / "plan.svg").read_text(encoding="utf-8")

    @pytest.mark.parametrize("fonts", [["Noto Sans CJK SC"], []])
    def test_png(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fonts: list[str]) -> None:
        """In Chinese where a font for it is installed, else in English: no empty boxes."""
        said: list[str] = []
        original = drawing._bars

        def bars(axes: Axes, found: plan.Survey, language: str) -> None:
            said.append(language)
            original(axes, found, language)

        monkeypatch.setattr(drawing, "_installed", lambda: fonts)
        monkeypatch.setattr(drawing, "_bars", bars)
        assert plan.main(["--picture", str(tmp_path / "plan.png")]) == 0
        assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
        assert said == ["zh" if fonts else "en"]
