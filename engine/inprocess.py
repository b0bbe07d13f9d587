"""InProcessEngine: vLLM's AsyncLLM in this process, its EngineCore in another. The one file that imports vllm."""

import asyncio
import logging
import multiprocessing
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from prometheus_client import REGISTRY

from engine import child, figures, orphans
from engine.base import (
    ChatMessage,
    Delta,
    EngineHealth,
    EngineInfo,
    EngineState,
    FinishReason,
    Loading,
    OnLoading,
    Sampling,
    Timings,
    Usage,
)
from engine.cleantext import CleanText
from engine.errors import (
    ConfigurationError,
    EngineBusy,
    EngineDead,
    PromptTooLong,
    RequestError,
    RequestRejected,
    StreamBroken,
    ZhidaError,
)
from engine.launch import vllm_environment, vllm_options
from engine.preflight import preflight, require_room
from engine.profiles import Profile
from engine.weights import ModelFolder
from engine.words import Words

logger = logging.getLogger(__name__)

POLL_S = 0.2
WARM_UP: Sequence[ChatMessage] = ({"role": "user", "content": "你好"},)
WARM_UP_TOKENS = 4

IMPORTING = Loading(Words("导入 vLLM", "Importing vLLM"))
BUILDING = Loading(Words("载入权重与编译", "Loading the weights and compiling"))
WARMING = Loading(Words("预热", "Warming up"))
DIED = Words("引擎已停止，需要重新启动。", "The engine has died and must be started again.")
STOPPED = Words("引擎已停止。", "The engine has been stopped.")
COLD = Words("引擎没有通过预热。", "The engine did not answer its warm-up.")
BROKEN = Words("回答中断了，请重试。", "The answer broke off; please try again.")
BUSY = Words("引擎正忙，请稍后再试。", "The engine is busy; please try again later.")
REJECTED = Words("引擎拒绝了这个问题，请换个说法再试。", "The engine refused this question; please rephrase it.")

# By name and along the class's ancestors, so that one table serves the vLLM releases that differ in their bases.
TRANSLATIONS: dict[str, Callable[[], ZhidaError]] = {
    "EngineDeadError": lambda: EngineDead(DIED),
    "EngineGenerateError": lambda: StreamBroken(BROKEN),
    "GracefulHTTPError": lambda: EngineBusy(BUSY),
    "VLLMClientError": lambda: RequestRejected(REJECTED),
    "VLLMNotFoundError": lambda: RequestRejected(REJECTED),
    "VLLMServerError": lambda: StreamBroken(BROKEN),
    "ValueError": lambda: RequestRejected(REJECTED),
    "Exception": lambda: StreamBroken(BROKEN),
}


def translate(error: Exception) -> ZhidaError:
    """vLLM's exception as one of ours."""
    name = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in TRANSLATIONS)
    return TRANSLATIONS[name]()


@contextmanager
def _translated() -> Iterator[None]:
    """Let nothing out but our own errors and asyncio's cancellation."""
    try:
        yield
    except ZhidaError:
        raise
    except Exception as error:  # vLLM re-raises whatever its tokenizer and template code meet
        raise translate(error) from error


@contextmanager
def _exported(environment: Mapping[str, str]) -> Iterator[None]:
    """The variables that the user has not set are there while the engine is made, and not for the next profile's."""
    ours = {name: value for name, value in environment.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


@contextmanager
def _unalarmed() -> Iterator[None]:
    """An engine that is being ended is no failure: vLLM would log a traceback of it."""
    reporter = logging.getLogger("vllm.v1.engine.async_llm")
    reporter.disabled = True
    try:
        yield
    finally:
        reporter.disabled = False


class InProcessEngine:
    """One model in one EngineCore process; an instance is started once."""

    def __init__(self, folder: ModelFolder, profile: Profile, window: int, records: Path) -> None:
        """`window` in tokens; `records` is where the process ids and vLLM's errors are written."""
        self._folder, self._profile, self._window, self._records = folder, profile, window, records
        self._engine: Any = None  # vllm's AsyncLLM: no type of vLLM's outside the functions that import it
        self._building: asyncio.Future[Any] | None = None
        self._processes: list[psutil.Process] = []
        self._running: set[str] = set()
        self._stopping, self._stop_lock = False, asyncio.Lock()
        self._reason: Words | None = None
        self._defaults: dict[str, Any] = {}

    @property
    def info(self) -> EngineInfo:
        """The model's name and window."""
        return EngineInfo(self._folder.name, self._window, self._folder.is_demo)

    async def start(self, on_loading: OnLoading) -> None:
        """Load, warm up; on failure nothing of it remains."""
        try:
            await asyncio.to_thread(preflight, self._profile)
            for orphan in await asyncio.to_thread(orphans.reap, self._records):
                on_loading(_ended(orphan))
            for line in await asyncio.to_thread(require_room, self._folder.path, self._profile, self._window):
                on_loading(Loading(line))
            await self._load(on_loading)
            on_loading(WARMING)
            await self._warm_up()
        except BaseException as error:  # cancellation too must leave no process behind
            await self._fail(error)
            raise

    async def _warm_up(self) -> None:
        """One answer; on a card then as many at once as will be: some kernels are compiled at their first large batch."""

        async def answer(name: str) -> None:
            async for _ in self.stream(WARM_UP, Sampling(max_tokens=WARM_UP_TOKENS), name):
                pass

        try:
            await answer("warm-up")
            if self._profile.on_gpu:
                await asyncio.gather(*(answer(f"warm-up-{number}") for number in range(self._profile.max_concurrent)))
        except RequestError as error:
            raise EngineDead(COLD) from error

    async def _fail(self, error: BaseException) -> None:
        """Let go of a start that failed, and keep why."""
        self._reason = error.words if isinstance(error, ZhidaError) else STOPPED
        await self.stop()

    async def _load(self, on_loading: OnLoading) -> None:
        """Import vLLM and build the engine, both in a thread; write EngineCore down as soon as it is there."""
        environment = await asyncio.to_thread(vllm_environment, self._profile, is_local=True)
        with _exported(environment):
            log = await asyncio.to_thread(child.log_errors, self._records)
            try:
                await self._import_and_build(on_loading)
            except Exception as error:  # vLLM, torch and transformers raise anything here
                raise await asyncio.to_thread(self._loading_error, error, log) from error
        await asyncio.to_thread(self._record)

    async def _import_and_build(self, on_loading: OnLoading) -> None:
        loop = asyncio.get_running_loop()
        on_loading(IMPORTING)
        self._building = loop.run_in_executor(None, _import)
        await asyncio.shield(self._building)
        on_loading(BUILDING)
        with child.bare_main():
            self._building = loop.run_in_executor(None, self._build)
            while not (await asyncio.wait([self._building], timeout=POLL_S))[0]:
                await asyncio.to_thread(self._record)
            self._engine = self._building.result()

    def _loading_error(self, error: Exception, log: Path | None) -> ZhidaError:
        """Why loading failed; a child that was killed from outside may well start the next time."""
        if self._stopping:
            return EngineDead(STOPPED)
        words, line = child.explain(error, log)
        logger.error("vLLM: %s", line)
        killed = "Failed core proc(s): {'EngineCore': -9}" in str(error)
        return EngineDead(words) if killed else ConfigurationError(words)

    def _build(self) -> Any:
        """The engine; blocks for 20 to 60 s."""
        from vllm import AsyncEngineArgs, AsyncLLMEngine

        options = vllm_options(self._folder.path, self._folder.name, self._profile, self._window)
        arguments = AsyncEngineArgs(**options)  # type: ignore[arg-type]  # checked by vLLM
        engine = AsyncLLMEngine.from_engine_args(arguments)
        self._defaults = engine.model_config.get_diff_sampling_param()  # reads a file: not for the event loop
        return engine

    def _record(self) -> None:
        """Write vLLM's processes down, where they are new."""
        processes = orphans.children()
        if processes != self._processes:
            self._processes = processes
            orphans.record(processes, self._records)

    async def stop(self) -> None:
        """End the engine, also one that is still loading; pending answers end with EngineDead."""
        self._stopping = True
        async with self._stop_lock:  # who calls second returns when it is done, too
            while self._building and not self._building.done():
                _kill_cores()
                await asyncio.wait([self._building], timeout=POLL_S)
            engine, self._engine = self._engine or _result(self._building), None
            if engine and self._running:
                with suppress(Exception):  # it may die, in any manner, while it is being ended
                    await engine.abort(list(self._running))
            await asyncio.to_thread(self._let_go, engine)

    def _let_go(self, engine: Any) -> None:
        """Shut vLLM down, where it had come up, and see that its processes have ended."""
        with _unalarmed():
            try:
                if engine:
                    engine.shutdown()
                psutil.wait_procs(self._processes, timeout=orphans.GRACE_S)
            finally:
                orphans.end(self._processes)
        orphans.forget(self._records)

    async def health(self) -> EngineHealth:
        """From `errored` (is_running stays true after death) and vLLM's own gauges."""
        if self._stopping:
            return EngineHealth(EngineState.DEAD, self._reason or STOPPED)
        if self._engine is None:
            return EngineHealth(EngineState.LOADING)
        if self._engine.errored:
            return EngineHealth(EngineState.DEAD, DIED)
        now = figures.from_registry(REGISTRY)
        return EngineHealth(
            EngineState.READY, None, now.running, now.waiting, now.kv_use, now.preemptions, now.generated
        )

    async def count(self, messages: Sequence[ChatMessage]) -> int:
        """Exact, also beyond the window."""
        with _translated():
            return len((await self._render(self._alive(), messages))["prompt_token_ids"])

    async def stream(
        self, messages: Sequence[ChatMessage], sampling: Sampling, request_id: str
    ) -> AsyncGenerator[Delta, None]:
        """See Engine.stream; `max_tokens` is cut to what the window leaves."""
        submitted = time.monotonic()
        with _translated():
            engine = self._alive()
            prompt = await self._render(engine, messages)
            size = len(prompt["prompt_token_ids"])
            if size >= self._window:  # an answer needs a token of room
                raise PromptTooLong(self._window, size)
            answer = engine.generate(prompt, self._params(sampling, self._window - size), request_id)
            self._running.add(request_id)
            try:
                async with aclosing(answer):
                    async for delta in self._deltas(answer, size, submitted):
                        yield delta
            finally:
                self._running.discard(request_id)

    async def bare(self, messages: Sequence[ChatMessage], sampling: Sampling, request_id: str) -> AsyncIterator[Any]:
        """The iterator of vLLM's own outputs that `stream` makes Deltas of, rendered and not begun: what the bench
        compares `stream` with. Nothing is translated, and `stop` does not know of it."""
        engine = self._alive()
        prompt = await self._render(engine, messages)
        params = self._params(sampling, self._window - len(prompt["prompt_token_ids"]))
        outputs: AsyncIterator[Any] = engine.generate(prompt, params, request_id)
        return outputs

    async def _deltas(self, answer: AsyncIterator[Any], size: int, submitted: float) -> AsyncIterator[Delta]:
        """vLLM's outputs as Deltas, the last one with usage, timings and the finish reason."""
        clean, tokens, first_text_s = CleanText(), 0, None
        async for output in answer:
            piece = output.outputs[0]
            tokens += len(piece.token_ids)
            text = clean.feed(piece.text)
            elapsed = time.monotonic() - submitted
            if text and first_text_s is None:
                first_text_s = elapsed
            if not output.finished:
                yield Delta(text)
                continue
            timings = Timings(elapsed if first_text_s is None else first_text_s, elapsed)
            yield Delta(text, self._finish(piece.finish_reason), Usage(size, tokens), timings)

    def _finish(self, reason: str | None) -> FinishReason:
        """vLLM's reason as ours; `abort` and `error` are no end that an answer comes to."""
        if reason in tuple(FinishReason):
            return FinishReason(reason)
        raise EngineDead(STOPPED) if self._stopping else StreamBroken(BROKEN)

    def _alive(self) -> Any:
        """vLLM's engine; raises EngineDead where there is none that could answer."""
        if self._engine is None or self._engine.errored:
            raise EngineDead(self._reason or DIED)
        return self._engine

    async def _render(self, engine: Any, messages: Sequence[ChatMessage]) -> Any:
        """The prompt as vLLM takes it, whatever its length; tokenizing runs in vLLM's own thread."""
        from vllm.renderers.params import ChatParams, TokenizeParams

        unlimited = TokenizeParams(max_total_tokens=None, add_special_tokens=False)
        params = ChatParams(chat_template_kwargs={"add_generation_prompt": True})
        _, (prompt,) = await engine.renderer.render_chat_async([list(messages)], params, unlimited)
        return prompt

    def _params(self, sampling: Sampling, room: int) -> Any:
        """vLLM's sampling parameters: the model's own defaults (top_k, penalties) under ours, as its server does."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        ours = {
            "temperature": sampling.temperature, "top_p": sampling.top_p,
            "max_tokens": min(sampling.max_tokens, room), "ignore_eos": sampling.ignore_eos,
            "output_kind": RequestOutputKind.DELTA,
        }  # fmt: skip
        return SamplingParams(**(self._defaults | ours))


def _ended(orphan: orphans.Orphan) -> Loading:
    """What is said of a process that a killed app had left."""
    return Loading(
        Words(
            f"上次的应用（进程 {orphan.app_pid}）留下了 {orphan.name}（进程 {orphan.pid}），已结束它",
            f"Ended {orphan.name} (process {orphan.pid}), left behind by an app (process {orphan.app_pid}) that was killed",
        )
    )


def _import() -> None:
    """What `_build` and the first request need; about 10 s."""
    import vllm.renderers.params
    import vllm.v1.engine.async_llm  # noqa: F401  # loaded for its side effect: being there


def _kill_cores() -> None:
    """End EngineCore processes of this process's; multiprocessing knows them before they have their title."""
    for process in multiprocessing.active_children():
        if process.name.startswith("EngineCore"):
            process.kill()


def _result(building: "asyncio.Future[Any] | None") -> Any:
    """The engine of a build that ended after nobody waited for it any more; None if it failed."""
    done = building is not None and not building.cancelled() and building.exception() is None
    return building.result() if building is not None and done else None
