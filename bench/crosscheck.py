"""`python -m bench crosscheck`: our figures against those of vLLM's own benchmark, over one server and the same work."""

import argparse
import asyncio
import json
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from bench.asking import Asker
from bench.levels import Work, closed_level, warm_up
from bench.program import free_port, program, until_ok
from bench.prompts import NUMBERS
from bench.report import conclude, wide_console
from bench.versions import circumstances
from bench.words import refused, say
from engine.progress import console_progress
from engine.server import ServerEngine
from engine.settings import Settings
from engine.weights import resolve

TOLERANCE = 0.1
PATIENCE_S, MEET_S = 600.0, 10.0
LONGEST_PROMPT, LONGEST_REQUEST = 1000, 2000
"""Its reader of conversations skips longer ones (1024 and 2048, without the chat template), in silence."""
THEIRS = (
    "from vllm.benchmarks.serve import add_cli_args, main; from vllm.utils.argparse_utils import FlexibleArgumentParser; "
    "parser = FlexibleArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
)
"""What `vllm bench serve` runs; that command itself crashes with the CPU build."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What both tools measure: output tokens a second, mean first token and mean time of each after it, in ms."""

    tokens_per_s: float
    first_ms: float
    per_token_ms: float


NAMES = {"tokens_per_s": "吞吐（词元/s）", "first_ms": "首字均值（ms）", "per_token_ms": "每词元均值（ms）"}


async def run(arguments: argparse.Namespace) -> int:
    """1 where a figure is off by more than TOLERANCE."""
    settings = Settings.load()
    _check(arguments)
    async with _server(settings, arguments.base_url) as base_url:
        ours, theirs = await _rounds(settings, base_url, arguments)
    ratios = {name: best(name, ours) / best(name, theirs) for name in NAMES}
    _show(ours, theirs, ratios)
    agrees = all(abs(ratio - 1) <= TOLERANCE for ratio in ratios.values())
    found = {"ours": [asdict(each) for each in ours], "theirs": [asdict(each) for each in theirs], "ratios": ratios}
    results = {"kind": "crosscheck", "clients": arguments.clients, "input": arguments.input, "output": arguments.output}
    conclude({**circumstances(settings, None), **results, **found, "agrees": agrees}, arguments.save)
    return 0 if agrees else 1


def _check(arguments: argparse.Namespace) -> None:
    if arguments.input > LONGEST_PROMPT or arguments.input + arguments.output > LONGEST_REQUEST:
        raise refused(
            f"vLLM 的压测工具会跳过长的请求：--input 至多 {LONGEST_PROMPT}，与 --output 之和至多 {LONGEST_REQUEST}。",
            f"vLLM's benchmark skips long requests: at most --input {LONGEST_PROMPT}, {LONGEST_REQUEST} with --output.",
        )


@asynccontextmanager
async def _server(settings: Settings, base_url: str | None) -> AsyncIterator[str]:
    """The server at `base_url`, or this project's own on a free port."""
    if base_url:
        yield base_url
        return
    port = free_port()
    say("启动 vLLM 服务……")
    async with program("vLLM 服务", [sys.executable, "-m", "engine.serve", "--port", str(port)], {}) as server:
        await until_ok(f"http://127.0.0.1:{port}/health", server, PATIENCE_S)
        yield f"http://127.0.0.1:{port}/v1"


async def _rounds(
    settings: Settings, base_url: str, arguments: argparse.Namespace
) -> tuple[list[Figures], list[Figures]]:
    """Ours and theirs in turns, theirs first in every second round; no prompt is asked twice."""
    work = Work((arguments.input,), arguments.output, arguments.requests or 4 * arguments.clients)
    engine = ServerEngine(base_url, settings.engine_api_key, settings.engine_max_model_len)
    ours: list[Figures] = []
    theirs: list[Figures] = []
    try:
        await _meet(engine, base_url)
        folder = await asyncio.to_thread(resolve, settings.engine_model, settings.engine_hub, console_progress())
        asker = Asker(engine, secrets.randbelow(NUMBERS))
        asker.counts_first = True
        await warm_up(asker, work, at_once=arguments.clients)
        for number in range(1, arguments.rounds + 1):
            say(f"第 {number}/{arguments.rounds} 轮")
            if number % 2:
                ours.append(await _ours(asker, work, arguments.clients))
            prompts = [(await asker.fresh())[-1]["content"] for _ in range(work.asked(arguments.clients) or 0)]
            theirs.append(
                await _theirs(settings, base_url, engine.info.model, folder.path, prompts, work, arguments.clients)
            )
            if not number % 2:
                ours.append(await _ours(asker, work, arguments.clients))
    finally:
        await engine.stop()
    return ours, theirs


async def _meet(engine: ServerEngine, base_url: str) -> None:
    """Connect. Raises ConfigurationError where nothing answers."""
    try:
        async with asyncio.timeout(MEET_S):
            await engine.start(lambda loading: None)
    except TimeoutError as error:
        raise refused(f"{base_url} 没有应答。", f"{base_url} does not answer.") from error


async def _ours(asker: Asker, work: Work, clients: int) -> Figures:
    level = await closed_level(asker, work, clients, None)
    if level.errors or level.first_s is None or level.per_token_s is None:
        raise refused(f"有请求失败：{level.errors}。", f"Requests failed: {level.errors}.")
    return Figures(level.tokens_per_s, level.first_s.mean * 1000, level.per_token_s.mean * 1000)


async def _theirs(
    settings: Settings, base_url: str, model: str, tokenizer: Path, prompts: Sequence[str], work: Work, clients: int
) -> Figures:
    """One run of vLLM's benchmark, whose reader of conversations gets our prompts."""
    say(f"vllm bench serve，并发 {clients}：{len(prompts)} 个请求……")
    with tempfile.TemporaryDirectory(prefix="zhida-bench-") as scratch:
        source, result = Path(scratch, "prompts.json"), Path(scratch, "result.json")
        await asyncio.to_thread(_write, source, prompts)
        options = {
            "--backend": "openai-chat", "--base-url": base_url.removesuffix("/v1"), "--endpoint": "/v1/chat/completions",
            "--model": model, "--served-model-name": model, "--tokenizer": str(tokenizer),
            "--dataset-name": "sharegpt", "--dataset-path": str(source), "--sharegpt-output-len": str(work.answer),
            "--num-prompts": str(len(prompts)), "--max-concurrency": str(clients),
            "--temperature": str(work.sampling.temperature), "--top-p": str(work.sampling.top_p),
            "--result-dir": scratch, "--result-filename": result.name,
        }  # fmt: skip
        flags = ["--ignore-eos", "--disable-tqdm", "--save-result"]
        argv = [*flags, *(part for option in options.items() for part in option)]
        await _run_theirs(argv, {"HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": settings.engine_api_key or "none"})
        return figures(await asyncio.to_thread(_read, result), len(prompts))


def _write(path: Path, prompts: Sequence[str]) -> None:
    """Its reader takes conversations of two turns, and asks the first."""
    turns = [{"conversations": [{"value": prompt}, {"value": "好"}]} for prompt in prompts]
    path.write_text(json.dumps(turns, ensure_ascii=False), encoding="utf-8")


def _read(path: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return found


async def _run_theirs(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises ConfigurationError with the end of its output where it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", THEIRS, *argv, env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        tail = output.decode(errors="replace").strip()[-1500:]
        raise refused(f"vLLM 的压测工具失败：\n{tail}", "vLLM's benchmark failed; the end of its output is above.")


def figures(result: Mapping[str, float], requests: int) -> Figures:
    """From vLLM's result file. Raises ConfigurationError where it left requests out."""
    if result["completed"] != requests:
        raise refused(
            f"vLLM 的压测工具只完成了 {result['completed']}/{requests} 个请求。",
            f"vLLM's benchmark completed {result['completed']} of {requests} requests.",
        )
    return Figures(result["output_throughput"], result["mean_ttft_ms"], result["mean_tpot_ms"])


def best(name: str, rounds: Sequence[Figures]) -> float:
    """The least disturbed round: whatever else a machine does makes a round slower, and none faster."""
    return max(_all(rounds, name)) if name == "tokens_per_s" else min(_all(rounds, name))


def _all(rounds: Sequence[Figures], name: str) -> list[float]:
    return [getattr(each, name) for each in rounds]


def _show(ours: Sequence[Figures], theirs: Sequence[Figures], ratios: Mapping[str, float]) -> None:
    table = Table(
        title="与 vllm bench serve 对照（各轮的值；比值取各自最好的一轮：别的程序只会使它变慢）", title_justify="left"
    )
    for column in ("", "本压测", "vllm bench serve", "比值", f"相差不过 {TOLERANCE:.0%}"):
        table.add_column(column)
    for name, title in NAMES.items():
        cells = ("  ".join(f"{value:,.2f}" for value in _all(rounds, name)) for rounds in (ours, theirs))
        table.add_row(title, *cells, f"{ratios[name]:.3f}", "是" if abs(ratios[name] - 1) <= TOLERANCE else "否")
    wide_console().print(table)
