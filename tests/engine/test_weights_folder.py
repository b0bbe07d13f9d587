"""A local folder as ENGINE_MODEL: taken when whole, else one sentence with the remedy."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import WeightsError
from engine.weights import ModelFolder, resolve
from tests.engine.weights_support import Steps, model_files, safetensors, write_files

SHARDS = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}


@pytest.fixture(autouse=True)
def no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any connection fails the test: a local folder has no business outside."""

    def refuse(*_: object) -> None:
        raise AssertionError("a local folder must not lead to a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "0")
        del os.environ[name]


def folder_of(path: Path | str) -> ModelFolder:
    """`resolve` with the rest as it comes."""
    return resolve(str(path), "auto", Steps())


@pytest.mark.parametrize("name", ["model", "ERNIE-4.5-0.3B-PT", "带 空格.v1.5"])
def test_whole_folder_is_taken(tmp_path: Path, name: str) -> None:
    """A whole folder is used as it is, dots, spaces and Chinese in its name included."""
    folder = write_files(tmp_path / name, model_files(10))
    assert folder_of(folder) == ModelFolder(folder, name, is_demo=False)


def test_folder_may_be_relative_or_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths and ~ work, and the path handed on is absolute."""
    folder = write_files(tmp_path / "owner" / "name", model_files(10))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert {folder_of(path).path for path in ("owner/name", "./owner/name/", "~/owner/name")} == {folder}


def test_sharded_folder_is_taken(tmp_path: Path) -> None:
    """Several shards and their index are a whole model."""
    files = model_files(10)
    del files["model.safetensors"]
    files |= {"model.safetensors.index.json": json.dumps(SHARDS).encode()}
    files |= {shard: safetensors(5) for shard in SHARDS["weight_map"].values()}
    assert folder_of(write_files(tmp_path / "m", files)).name == "m"


def test_libraries_are_told_to_stay_offline(tmp_path: Path) -> None:
    """Once a folder is there, huggingface_hub in this process and its children asks nobody outside."""
    folder_of(write_files(tmp_path / "m", model_files(10)))
    assert os.environ["HF_HUB_OFFLINE"] == "1"


FAULTS: dict[str, tuple[Callable[[dict[str, bytes]], object], tuple[str, ...]]] = {
    "no config": (lambda files: files.pop("config.json"), ("缺少 config.json", "下载完整")),
    "config cut off": (lambda files: files.update({"config.json": b'{"model_'}), ("config.json 已损坏", "重新下载")),
    "config no object": (lambda files: files.update({"config.json": b"[]"}), ("config.json 已损坏", "重新下载")),
    "no tokenizer": (lambda files: files.pop("tokenizer.json"), ("缺少 tokenizer.json", "下载完整")),
    "no weights": (lambda files: files.pop("model.safetensors"), ("缺少 model.safetensors", "下载完整")),
    "gguf only": (
        lambda files: files.update({"m.gguf": files.pop("model.safetensors")}),
        ("m.gguf", "没有 safetensors", "safetensors 版本"),
    ),
    "shard missing": (
        lambda files: files.update({"model.safetensors.index.json": json.dumps(SHARDS).encode()}),
        ("缺少 model-00001-of-00002.safetensors", "下载完整"),
    ),
    "index broken": (
        lambda files: files.update({"model.safetensors.index.json": b"{}"}),
        ("index.json 已损坏", "重新下载"),
    ),
    "truncated": (
        lambda files: files.update({"model.safetensors": files["model.safetensors"][:-1]}),
        ("model.safetensors 不完整", "下载中断", "重新下载"),
    ),
    "too long": (
        lambda files: files.update({"model.safetensors": files["model.safetensors"] + b"x"}),
        ("model.safetensors 不完整", "重新下载"),
    ),
    "header broken": (
        lambda files: files.update({"model.safetensors": b"\x04" + bytes(7) + b"junk"}),
        ("model.safetensors 已损坏", "重新下载"),
    ),
    "git-lfs placeholder": (
        lambda files: files.update({"model.safetensors": b"version https://git-lfs.github.com/spec/v1\noid sha256:0"}),
        ("占位文件", "git lfs pull"),
    ),
    "Paddle file": (lambda files: files.update({"model_state.pdparams": b""}), ("Paddle", "-PT")),
    "Paddle safetensors": (
        lambda files: files.update({"model.safetensors": safetensors(10, "np")}),
        ("Paddle", "baidu/ERNIE-4.5-0.3B-PT"),
    ),
    "no model_type": (lambda files: files.update({"config.json": b"{}"}), ("Paddle", "baidu/ERNIE-4.5-0.3B-PT")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_one_sentence_with_the_remedy(tmp_path: Path, fault: str) -> None:
    """Whatever is wrong with a folder is named in Chinese, with what to do about it."""
    break_it, said = FAULTS[fault]
    files = model_files(10)
    break_it(files)
    with pytest.raises(WeightsError) as error:
        folder_of(write_files(tmp_path / "m", files))
    sentence = error.value.words.zh
    assert all(part in sentence for part in said), sentence
    assert sentence.count("。") == 1
    assert sentence.endswith("。")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(length=st.integers(min_value=0, max_value=len(safetensors(40)) - 1))
def test_no_truncation_passes(tmp_path: Path, length: int) -> None:
    """A safetensors file cut off at any byte is refused."""
    folder = write_files(tmp_path / "m", model_files(10) | {"model.safetensors": safetensors(40)[:length]})
    with pytest.raises(WeightsError):
        folder_of(folder)


def test_paddle_folder_is_refused_by_name(tmp_path: Path) -> None:
    """A folder named …-Paddle is refused, and the -PT name given."""
    folder = write_files(tmp_path / "ERNIE-4.5-0.3B-Paddle", model_files(10))
    with pytest.raises(WeightsError, match=r"请改用 ERNIE-4\.5-0\.3B-PT"):
        folder_of(folder)


def test_paddle_hub_id_is_refused_at_once() -> None:
    """A hub id ending in -Paddle is refused without asking any hub."""
    with pytest.raises(WeightsError, match=r"请改用 baidu/ERNIE-4\.5-0\.3B-PT"):
        folder_of("baidu/ERNIE-4.5-0.3B-Paddle")


def test_file_instead_of_folder(tmp_path: Path) -> None:
    """The path of a file is answered with the folder it is in."""
    folder = write_files(tmp_path / "m", model_files(10))
    with pytest.raises(WeightsError, match="请填它所在的文件夹") as error:
        folder_of(folder / "model.safetensors")
    assert str(folder) in error.value.words.zh


@pytest.mark.parametrize("path", ["/nowhere/model", "./model", "~/model", "a/b/c", "models/", r"C:\models\ernie"])
def test_absent_path_is_said_to_be_absent(path: str) -> None:
    """What looks like a path and is not there is never taken for a hub id."""
    with pytest.raises(WeightsError, match="不存在"):
        folder_of(path)


def test_bare_word_is_explained() -> None:
    """A word that is neither folder nor hub id is answered with the forms that are."""
    with pytest.raises(WeightsError, match="owner/name"):
        folder_of("ERNIE")
