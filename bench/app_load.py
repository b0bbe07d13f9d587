"""Load on the app: chats over Socket.IO, shared out among processes, since one decodes hardly faster than the app encodes."""

import asyncio
import multiprocessing
import os
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

import aiohttp
import socketio

from bench.chat_client import ChatClient
from bench.load import closed, opened
from bench.samples import Sample
from bench.words import refused

CLIENTS_A_PROCESS = 32
OPENED_AT_ONCE = 16
NAME = "bench-load"
ANSWER_S = 1800.0
TOKENS = re.compile(r"(\d+) \+ \S+ (\d+) / \d+$")
"""The footer's last fact: prompt, answer and window."""
UNREACHABLE = (socketio.exceptions.ConnectionError, aiohttp.ClientError, OSError, TimeoutError)


@dataclass(frozen=True, slots=True)
class Share:
    """What one process does: one chat a question, `clients` at once, or at `moments` (seconds after the start)."""

    url: str
    questions: Sequence[str]
    max_tokens: int
    clients: int
    moments: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a process reports; `failure` in place of samples. `cpu` is its share of a core."""

    samples: list[Sample]
    cpu: float = 0.0
    failure: str = ""


def processes_for(clients: int, wanted: int | None) -> int:
    """As many as asked for; else one for CLIENTS_A_PROCESS clients, and half of the cores at most."""
    cores = len(os.sched_getaffinity(0))
    return min(clients, wanted or max(1, min(cores // 2, -(-clients // CLIENTS_A_PROCESS))))


def shares(whole: Share, processes: int) -> list[Share]:
    """`whole` dealt out: the sizes differ by one at most, and no process is without a client."""
    return [
        replace(
            whole,
            questions=whole.questions[number::processes],
            clients=len(range(number, whole.clients, processes)),
            moments=None if whole.moments is None else whole.moments[number::processes],
        )
        for number in range(processes)
    ]


async def generated(whole: Share, processes: int) -> tuple[float, list[Outcome]]:
    """`generate` in a thread; cancelled, it ends the load generators."""
    try:
        return await asyncio.to_thread(generate, whole, processes)
    except asyncio.CancelledError:
        for process in multiprocessing.active_children():
            if process.name.startswith(NAME):
                process.terminate()
        raise


def generate(whole: Share, processes: int) -> tuple[float, list[Outcome]]:
    """Run all shares at once, begun together when every chat is open; returns when that was (time.perf_counter).

    Blocks. Raises ConfigurationError where a chat cannot be opened.
    """
    context = multiprocessing.get_context("spawn")
    workers: list[tuple[SpawnProcess, Connection]] = []
    try:
        for share in shares(whole, processes):
            near, far = context.Pipe()
            process = context.Process(target=_process, args=(far, share), name=NAME, daemon=True)
            process.start()
            far.close()
            workers.append((process, near))
        for _, pipe in workers:
            _hear(pipe)
        began = time.perf_counter()
        for _, pipe in workers:
            pipe.send(True)
        return began, [_hear(pipe) for _, pipe in workers]
    finally:
        for process, _ in workers:
            process.terminate()
            process.join()


def _hear(pipe: Connection) -> Outcome:
    """The next report of a process. Raises ConfigurationError for one that says or is a failure."""
    try:
        outcome: Outcome = pipe.recv()
    except EOFError:
        outcome = Outcome([], failure="process ended")
    if outcome.failure:
        raise refused(f"压测端失败：{outcome.failure}。", f"A load generator failed: {outcome.failure}.")
    return outcome


def _process(pipe: Connection, share: Share) -> None:
    """A load generator's whole life."""
    try:
        asyncio.run(_chat(pipe, share))
    except UNREACHABLE as error:
        pipe.send(Outcome([], failure=f"{type(error).__name__} {error}"))
    except KeyboardInterrupt:  # Ctrl-C reaches all of the terminal's processes; the first one speaks
        pass


async def _chat(pipe: Connection, share: Share) -> None:
    """Open the chats, wait for the start, ask, report."""
    pages: deque[tuple[ChatClient, str]] = deque()
    for start in range(0, len(share.questions), OPENED_AT_ONCE):
        some = share.questions[start : start + OPENED_AT_ONCE]
        chats = await asyncio.gather(*(_open(share) for _ in some))
        pages.extend(zip(chats, some, strict=True))
    used: list[ChatClient] = []

    async def ask() -> Sample:
        page, question = pages.popleft()
        used.append(page)
        return await _measure(page, question)

    pipe.send(Outcome([]))
    await asyncio.to_thread(pipe.recv)
    began, cpu = time.perf_counter(), time.process_time()
    if share.moments is None:
        samples = await closed(ask, share.clients, len(share.questions))
    else:
        samples = await opened(ask, list(share.moments))
    share_of_core = (time.process_time() - cpu) / (time.perf_counter() - began)
    await asyncio.gather(*(page.leave() for page in used))
    pipe.send(Outcome(samples, share_of_core))


async def _open(share: Share) -> ChatClient:
    """A new chat with the answer's length set, and without a system prompt: the question is the whole prompt."""
    page = await ChatClient(share.url).__aenter__()
    await page.change_settings(max_tokens=share.max_tokens, system="")
    return page


async def _measure(page: ChatClient, question: str) -> Sample:
    """Ask a chat's first question and wait for the end of the answer."""
    submitted = time.perf_counter()
    try:
        await page.send(question)
        await page.until(lambda: not page.connected or (bool(page.answers()) and not page.busy), ANSWER_S)
    except (TimeoutError, socketio.exceptions.SocketIOError) as error:
        return Sample(submitted, None, time.perf_counter() - submitted, error=type(error).__name__)
    total_s = time.perf_counter() - submitted
    if problem := _problem(page):
        return Sample(submitted, None, total_s, error=problem)
    counted = TOKENS.search(page.footer["facts"][-1])
    if counted is None:
        return Sample(submitted, None, total_s, error="NoUsage")
    first_s = list(page.replaced_at.values())[-1] - submitted
    return Sample(submitted, first_s, total_s, int(counted[1]), int(counted[2]), len(page.answer))


def _problem(page: ChatClient) -> str | None:
    """What went wrong, in the page's own words; None for a whole answer."""
    if not page.connected:
        return "Disconnected"
    footer = page.footer if page.footers else {}
    if footer.get("tone") == "warning" or not footer.get("facts"):
        return "；".join(footer.get("notices", [])) or page.answer
    return None
