"""An app to be killed: starts the in-process engine and answers until then. Without a main guard, and beside a module
like Chainlit's, whose lazy attributes raise KeyError: both are what EngineCore has to survive.

Arguments: the model's folder, the records' folder. Prints `loaded` each time it is imported, then `answering`.
"""

import asyncio
import sys
from pathlib import Path
from types import ModuleType

from engine.base import Sampling
from tests.engine.backends import tiny_engine


def _lazy(name: str) -> object:
    raise KeyError(name)


lazy = ModuleType("lazy_like_chainlit")
lazy.__dict__.update(__getattr__=_lazy, __file__=__file__)
sys.modules[lazy.__name__] = lazy
print("loaded", flush=True)


async def main() -> None:
    """Answer until killed."""
    engine = tiny_engine(Path(sys.argv[1]), Path(sys.argv[2]))
    await engine.start(lambda loading: None)
    while True:
        async for delta in engine.stream([{"role": "user", "content": "你好"}], Sampling(max_tokens=64), "endless"):
            if delta.finish:
                print("answering", flush=True)


asyncio.run(main())
