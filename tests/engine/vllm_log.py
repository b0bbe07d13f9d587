"""`python -m tests.engine.vllm_log FOLDER WINDOW RECORDS`: start the in-process engine, so that vLLM's log can be read."""

import asyncio
import sys
from pathlib import Path

from engine.inprocess import InProcessEngine
from engine.profiles import load_profiles
from engine.weights import ModelFolder


async def main(folder: Path, window: int, records: Path) -> None:
    """Load and let go."""
    engine = InProcessEngine(ModelFolder(folder, "m", is_demo=False), load_profiles()["cpu"], window, records)
    try:
        await engine.start(lambda loading: print(loading.step.zh, flush=True))
    finally:
        await engine.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
