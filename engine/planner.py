"""What a machine will carry, before anything loads: weights, other memory, KV pool, full chats, what is in the way.

Pure. Of the memory that CUDA counts vLLM takes a share, and what weights and the peak of a trial run leave of it
becomes the KV pool.
"""

from dataclasses import dataclass, replace

from engine.footprint import Footprint
from engine.hardware import MIB, RESERVED_MIB, Card
from engine.profiles import Profile
from engine.room import GIB, Room
from engine.verdicts import limit, refusals, warnings
from engine.words import Words


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """A forecast for one model, profile and window; sizes in bytes."""

    profile: Profile
    window: int
    total: int
    """As CUDA counts it; of the CPU, the machine's memory."""
    available: int
    """Of it free now; equal to `total` where the card is not at hand."""
    weights: int
    overhead: int
    pool: int
    tokens: int
    chats: float
    """Chats of `window` tokens that the pool holds at once."""
    limit: Words
    """What is reached first."""
    refusals: tuple[Words, ...]
    warnings: tuple[Words, ...]
    waits_for_memory: bool
    """Whether nothing but memory that others hold now is in the way."""

    @property
    def rest(self) -> int:
        """What the engine leaves to others."""
        return max(0, self.total - self.weights - self.overhead - self.pool)

    @property
    def words(self) -> Words:
        """The forecast in one line."""
        gib = (self.weights / GIB, self.pool / GIB)
        return Words(
            f"预计：权重 {gib[0]:.2f} GiB，KV 缓存 {gib[1]:.1f} GiB = {self.tokens:,} 词元，"
            f"可同时容纳 {int(self.chats):,} 个满 {self.window} 的对话；先到的上限：{self.limit.zh}",
            f"Forecast: weights {gib[0]:.2f} GiB, KV cache {gib[1]:.1f} GiB = {self.tokens:,} tokens, "
            f"{int(self.chats):,} full chats of {self.window}; first limit: {self.limit.en}",
        )


def plan(
    footprint: Footprint, profile: Profile, window: int, card: Card | None = None, memory: tuple[int, int] | None = None
) -> MemoryPlan:
    """The forecast. `card` is the one at hand, None for any card of the profile's kind, all of it free.

    `memory` is the machine's total and available bytes: what counts for a profile without a card.
    """
    total, available = _memory(footprint, profile, window, card, memory)
    room = Room(footprint, profile, window, total, available)
    pool = room.pool(profile.gpu_memory_utilization)
    tokens, chats = room.capacity(pool)
    found, if_free = (tuple(refusals(there, pool, card)) for there in (room, replace(room, available=total)))
    return MemoryPlan(
        profile=profile, window=window, total=total, available=available, weights=footprint.weight_bytes,
        overhead=room.overhead, pool=pool, tokens=tokens, chats=chats, limit=limit(footprint, profile, window, chats),
        refusals=found, warnings=tuple(warnings(room, tokens)), waits_for_memory=bool(found) and not if_free,
    )  # fmt: skip


def _memory(
    footprint: Footprint, profile: Profile, window: int, card: Card | None, memory: tuple[int, int] | None
) -> tuple[int, int]:
    """Total and available bytes."""
    if profile.on_gpu and card:
        return card.usable_mib * MIB, card.free_mib * MIB
    if profile.on_gpu:
        total = int(profile.memory_gib * GIB) - RESERVED_MIB * MIB
        return total, total
    if memory:
        return memory
    room = Room(footprint, profile, window, 0, 0)
    enough = footprint.weight_bytes + room.overhead + room.pool(0)
    return enough, enough
