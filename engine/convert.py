"""GGUF to bf16 safetensors: `python -m engine.convert FILE.gguf FOLDER`, in a process of its own.

A process of its own, so that the app neither keeps torch's memory nor waits for its interpreter lock.
Exit status 3: a library is missing.
"""

import importlib.util
import os
import sys
import threading
from pathlib import Path

MISSING_LIBRARY = 3


def convert(gguf: Path, folder: Path) -> None:
    """Write model, tokenizer and chat template of `gguf` into `folder`. Needs transformers 5, gguf and accelerate."""
    if importlib.util.find_spec("accelerate") is None:  # transformers finds out half-way
        raise ImportError("accelerate")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source, name = str(gguf.parent), gguf.name
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=name, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    # Left in place, these two make save_pretrained write a model that claims to be quantized.
    model.hf_quantizer = None  # type: ignore[assignment]
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=name).save_pretrained(folder)


def _end_with_parent() -> None:
    """Standard input is a pipe from the parent: it ends when the parent does, however that dies."""
    os.read(0, 1)  # sys.stdin would hold its lock when the interpreter ends, and abort it
    os._exit(1)


def main() -> int:
    """Convert argv[1] into the folder argv[2]."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except ImportError as error:
        print(error, file=sys.stderr)
        return MISSING_LIBRARY
    return 0


if __name__ == "__main__":
    sys.exit(main())
