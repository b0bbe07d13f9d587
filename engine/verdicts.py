"""What the planner's numbers mean: what is reached first, what cannot work and what would, what to know beforehand."""

import math
from collections.abc import Iterator

from engine.driver import BF16_CAPABILITY
from engine.footprint import Footprint
from engine.hardware import Card
from engine.profiles import Profile
from engine.room import GIB, Room
from engine.words import Words

COMFORTABLE_TOKENS_S = 20
"""An answer this fast is ahead of its reader."""
IDLE_SHARE = 0.97
"""From this share of free memory on there is hardly a program that could be closed."""


def limit(footprint: Footprint, profile: Profile, window: int, chats: float) -> Words:
    """Which of the profile's number, the pool and the memory's speed is reached first by full chats."""
    candidates = {
        profile.max_concurrent: Words(
            f"同时 {profile.max_concurrent} 个回答",
            f"{profile.max_concurrent} answers at once",
        ),
        int(chats): Words(f"KV 缓存，{int(chats):,} 个满对话", f"the KV cache, {int(chats):,} full chats"),
    }  # fmt: skip
    if profile.bandwidth_gb_s:
        a_step = profile.bandwidth_gb_s * 1e9 / COMFORTABLE_TOKENS_S
        a_chat = footprint.kv_bytes * sum(min(window, sliding or window) for sliding in footprint.windows)
        swift = max(0, int((a_step - footprint.weight_bytes) / a_chat))
        candidates.setdefault(swift, _swift(swift))
    return candidates[min(candidates)]


def _swift(chats: int) -> Words:
    """The memory's speed as the limit: so many full chats are written at a reader's pace."""
    if chats == 0:
        return Words(
            f"显存带宽，单个对话也慢于 {COMFORTABLE_TOKENS_S} 词元/秒",
            f"memory bandwidth, a single chat is below {COMFORTABLE_TOKENS_S} tokens/s, too",
        )
    return Words(
        f"显存带宽，{chats} 个满对话起每个慢于 {COMFORTABLE_TOKENS_S} 词元/秒",
        f"memory bandwidth, beyond {chats} full chats each below {COMFORTABLE_TOKENS_S} tokens/s",
    )


def refusals(room: Room, pool: int, card: Card | None) -> Iterator[Words]:
    """What cannot work, each with the number that would."""
    profile, model = room.profile, room.footprint
    capability = card.capability if card and profile.on_gpu else profile.capability
    if profile.on_gpu and profile.dtype == "bfloat16" and capability < BF16_CAPABILITY:
        number = f"{capability[0]}.{capability[1]}"
        yield Words(
            f"配置 {profile.name} 用 bf16，而计算能力 {number} 的显卡不支持（需要 8.0）：请设 ENGINE_PROFILE=auto，会改用 half。",
            f"Profile {profile.name} uses bf16, which capability {number} lacks (8.0 has it): set ENGINE_PROFILE=auto for half.",
        )
    if model.longest and room.window > model.longest:
        yield Words(
            f"模型的上下文最长 {model.longest:,} 词元，设置的是 {room.window:,}：请设 ENGINE_MAX_MODEL_LEN={model.longest}。",
            f"The model's context is {model.longest:,} tokens and {room.window:,} are set: set ENGINE_MAX_MODEL_LEN={model.longest}.",
        )
    if not profile.on_gpu:
        yield from _cpu_refusals(room, pool)
    elif room.a_chat(room.window) > pool:
        yield _too_small(room, pool)
    elif room.share + room.context > room.available:
        yield _taken(room)


def _too_small(room: Room, pool: int) -> Words:
    """The pool does not hold one window: which window, or which utilisation, would do."""
    need, have = room.a_chat(room.window) / GIB, pool / GIB
    window, share = room.fitting_window(pool), room.fitting_utilization()
    values = [("ENGINE_MAX_MODEL_LEN", window), ("ENGINE_GPU_UTILIZATION", share)]
    remedies = [f"{name}={value}" for name, value in values if value]
    zh = f"请设 {' 或 '.join(remedies)}" if remedies else "请换小一些的模型"
    en = f"Set {' or '.join(remedies)}" if remedies else "Take a smaller model"
    least = (room.footprint.weight_bytes + room.overhead + room.a_chat(room.window)) / GIB
    return Words(
        f"显存放不下一个 {room.window} 词元的对话：显存 {room.total / GIB:.1f} GiB 的 {room.profile.gpu_memory_utilization:.2f}，"
        f"减去权重 {room.footprint.weight_bytes / GIB:.2f} GiB 和其他开销 {room.overhead / GIB:.2f} GiB，"
        f"KV 缓存只剩 {have:.2f} GiB，需要 {need:.2f} GiB（合计至少 {least:.1f} GiB）。{zh}。",
        f"No room for one chat of {room.window} tokens: of {room.total / GIB:.1f} GiB x "
        f"{room.profile.gpu_memory_utilization:.2f}, weights ({room.footprint.weight_bytes / GIB:.2f}) and other memory "
        f"({room.overhead / GIB:.2f}) leave {have:.2f} GiB of KV cache, {need:.2f} is needed. "
        f"{en}.",
    )


def _taken(room: Room) -> Words:
    """Not enough is free: free and needed, who has it, and the utilisation that would fit, if any would."""
    free, needed = room.available / GIB, (room.share + room.context) / GIB
    zh, en = _remedy(room)
    return Words(
        f"显存空闲 {free:.1f} GiB，配置 {room.profile.name} 需要 {needed:.1f} GiB（占用比例 "
        f"{room.profile.gpu_memory_utilization:.2f}）：{zh}。",
        f"{free:.1f} GiB of GPU memory is free and profile {room.profile.name} takes {needed:.1f} "
        f"(utilisation {room.profile.gpu_memory_utilization:.2f}): {en}.",
    )


def _remedy(room: Room) -> tuple[str, str]:
    """To close what holds the memory, where something does, and the utilisation that would fit, where one would."""
    share, lowest = room.highest_utilization(), room.fitting_utilization()
    fits = lowest is not None and share >= lowest
    if room.available >= IDLE_SHARE * room.total:
        setting = f"ENGINE_GPU_UTILIZATION={share:.2f}"
        return (f"请设 {setting}", f"set {setting}") if fits else ("请换小一些的模型", "take a smaller model")
    least = room.footprint.weight_bytes + room.overhead + room.a_chat(room.window) + room.beyond
    lacking = max(0.1, (least - room.available) / GIB)
    zh = f"或设 ENGINE_GPU_UTILIZATION={share:.2f}" if fits else f"至少腾出 {lacking:.1f} GiB"
    en = f"or set ENGINE_GPU_UTILIZATION={share:.2f}" if fits else f"at least {lacking:.1f} GiB more"
    return f"请用 nvidia-smi 找出并关闭占用显存的程序，{zh}", f"close what nvidia-smi shows, {en}"


def _cpu_refusals(room: Room, pool: int) -> Iterator[Words]:
    """The KV space below one window, or more than there is."""
    need = room.a_chat(room.window)
    if need > pool:
        window = room.fitting_window(pool)
        shorter = f"ENGINE_MAX_MODEL_LEN={window}" if window else ""
        yield Words(
            f"KV 缓存 {pool / GIB:.0f} GiB 放不下一个 {room.window} 词元的对话（需要 {need / GIB:.2f} GiB）："
            f"请设环境变量 VLLM_CPU_KVCACHE_SPACE={math.ceil(need / GIB)}{shorter and f'，或设 {shorter}'}。",
            f"A KV cache of {pool / GIB:.0f} GiB cannot hold one chat of {room.window} tokens ({need / GIB:.2f} GiB): "
            f"set VLLM_CPU_KVCACHE_SPACE={math.ceil(need / GIB)}{shorter and f' or {shorter}'}.",
        )
    if room.footprint.weight_bytes + pool > room.available:
        yield _short_of_memory(room, pool, room.footprint.weight_bytes + pool)


def _short_of_memory(room: Room, pool: int, needed: int) -> Words:
    """The machine's memory is not enough: with which KV space it would be."""
    space = (room.available - (needed - pool)) // GIB
    smaller = space >= 1 and space * GIB >= room.a_chat(room.window)
    zh = f"，或设环境变量 VLLM_CPU_KVCACHE_SPACE={space}" if smaller else "，或换小一些的模型"
    en = f", or set VLLM_CPU_KVCACHE_SPACE={space}" if smaller else ", or take a smaller model"
    return Words(
        f"可用内存 {room.available / GIB:.1f} GiB，引擎约需 {needed / GIB:.1f} GiB（权重 "
        f"{room.footprint.weight_bytes / GIB:.2f}，KV 缓存 {pool / GIB:.1f}）：请关闭其他程序{zh}。",
        f"{room.available / GIB:.1f} GiB of memory is available and the engine takes about {needed / GIB:.1f} (weights "
        f"{room.footprint.weight_bytes / GIB:.2f}, KV cache {pool / GIB:.1f}): close other programs{en}.",
    )


def warnings(room: Room, tokens: int) -> Iterator[Words]:
    """What works, and not as well as it might seem."""
    profile, model = room.profile, room.footprint
    asked = profile.max_concurrent * room.window
    if 0 < tokens < asked:
        yield Words(
            f"{profile.max_concurrent} 个回答都写满 {room.window} 时要 {asked:,} 词元，KV 缓存只有 {tokens:,}：那时后来的会等待或重算。"
            f"不会出错；要避免，可设 ENGINE_MAX_CONCURRENT={max(1, tokens // room.window)}。",
            f"{profile.max_concurrent} full chats of {room.window} take {asked:,} tokens and the KV cache holds {tokens:,}: "
            f"later ones would wait or be computed again. ENGINE_MAX_CONCURRENT={max(1, tokens // room.window)} avoids that.",
        )
    if profile.on_gpu and room.share + room.context <= room.available < room.share + room.beyond:
        yield _tight(room)
    whole = model.weight_bytes + room.overhead + room.pool(0)
    if not profile.on_gpu and whole > room.available >= model.weight_bytes + room.pool(0):
        yield _short_of_memory(room, room.pool(0), whole)
    if not model.exact:
        yield Words(
            "没有权重文件，权重大小按 config.json 估算。", "Without the files, weights are estimated from config.json."
        )


def _tight(room: Room) -> Words:
    """vLLM starts, and a full batch may find no memory: the utilisation that leaves enough, where one does."""
    share, lowest = room.highest_utilization(), room.fitting_utilization()
    fits = lowest is not None and share >= lowest
    setting = f"ENGINE_GPU_UTILIZATION={share:.2f}" if fits else "更小的 ENGINE_MAX_CONCURRENT"
    setting_en = f"ENGINE_GPU_UTILIZATION={share:.2f}" if fits else "a lower ENGINE_MAX_CONCURRENT"
    rest, beyond = (room.available - room.share) / GIB, room.beyond / GIB
    return Words(
        f"引擎在占用比例 {room.profile.gpu_memory_utilization:.2f} 之外估计还要 {beyond:.2f} GiB 显存，空闲的只够 {rest:.2f} GiB："
        f"若启动或忙时显存不足，请设 {setting}。",
        f"Beyond its utilisation of {room.profile.gpu_memory_utilization:.2f} the engine takes an estimated {beyond:.2f} GiB "
        f"and {rest:.2f} are free: should memory run out, set {setting_en}.",
    )
