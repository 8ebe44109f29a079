"""The bilingual teacher: multilingual-e5-small, dequantised into our own BERT module."""

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import nn

from export.bert import Bert, Dims, mean_pool, pad
from export.e5_file import E5File, e5_path, read_e5
from export.vocabulary import unigram_tokenizer

PREFIX = "query: "
_BATCH_TOKENS = 2_048  # keeps a batch of activations inside the CPU caches
_MAX_TOKENS = 128


def say(line: str) -> None:
    """A line of progress."""
    print(time.strftime("%H:%M:%S"), line, file=sys.stderr, flush=True)


def load_layer(layer: nn.Module, tensors: dict[str, NDArray[np.float32]], index: int) -> None:
    """Copies teacher layer ``index`` into ``layer``."""
    names = {
        "q": "q",
        "k": "k",
        "v": "v",
        "attended": "ao",
        "attended_norm": "aln",
        "rise": "fi",
        "fall": "fo",
        "norm": "oln",
    }
    state = {
        f"{ours}.{ending}": torch.from_numpy(tensors[f"l{index}.{theirs}.{short}"])
        for ours, theirs in names.items()
        for ending, short in (("weight", "w"), ("bias", "b"))
    }
    layer.load_state_dict(state)


def autocast_pays() -> bool:
    """Whether bfloat16 is faster than float32 here: without hardware for it, it is fifty times slower."""
    a = torch.randn(512, 384)
    took: list[float] = []
    for dtype in (torch.float32, torch.bfloat16):
        left, right = a.to(dtype), a.to(dtype).T
        left @ right  # first call: kernels are chosen
        started = time.perf_counter()
        left @ right
        took.append(time.perf_counter() - started)
    return took[1] < took[0]


class Teacher:
    """Embeds texts as ``<s> query: text </s>``, mean over tokens, length 1."""

    def __init__(self, file: E5File) -> None:
        self.file = file
        self.tokenizer: Tokenizer = unigram_tokenizer(
            list(zip(file.pieces, file.scores, strict=True)), file.unk
        )
        self.tokenizer.enable_truncation(_MAX_TOKENS)
        dims = Dims(
            len(file.tensors["emb.word"]), file.positions, file.width, file.layers, file.heads, file.inner
        )
        self.model = Bert(dims)
        with torch.no_grad():
            self.model.words.weight.copy_(torch.from_numpy(file.tensors["emb.word"]))
            self.model.positions.weight.copy_(
                torch.from_numpy(file.tensors["emb.pos"] + file.tensors["emb.type"][0])
            )
            self.model.norm.weight.copy_(torch.from_numpy(file.tensors["emb.ln.w"]))
            self.model.norm.bias.copy_(torch.from_numpy(file.tensors["emb.ln.b"]))
        for i, layer in enumerate(self.model.layers):
            load_layer(layer, file.tensors, i)
        self.model.eval()
        self._bf16 = autocast_pays()

    @classmethod
    def load(cls) -> "Teacher":
        """The teacher from the installed package."""
        return cls(read_e5(e5_path()))

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts → float32 [texts, 384], each of length 1; longest first, so that a batch has one length."""
        rows = [e.ids for e in self.tokenizer.encode_batch([PREFIX + text for text in texts])]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        out = np.zeros((len(rows), self.model.dims.width), np.float32)
        at, started, told = 0, time.perf_counter(), time.perf_counter()
        while at < len(order):
            batch = order[at : at + max(1, _BATCH_TOKENS // len(rows[order[at]]))]
            ids, mask = pad([rows[i] for i in batch], self.file.pad)
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=self._bf16):
                state = self.model.states(ids, mask)[-1]
            pooled = mean_pool(state.float(), mask)
            out[batch] = nn.functional.normalize(pooled, dim=1).numpy()
            at += len(batch)
            if time.perf_counter() - told > 15:
                told = time.perf_counter()
                say(f"teacher {at}/{len(order)}, {at / (told - started):.0f} texts/s")
        return out


def embed_cached(
    texts: Sequence[str], folder: Path, teacher: Teacher, chunk: int = 8_192
) -> NDArray[np.float32]:
    """Like ``Teacher.embed``, kept as .npy files by content: a restart computes nothing twice."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[NDArray[np.float32]] = []
    for start in range(0, len(texts), chunk):
        part = texts[start : start + chunk]
        key = hashlib.sha256("\n".join([PREFIX, *part]).encode()).hexdigest()[:20]
        path = folder / f"teacher-{key}.npy"
        if not path.exists():
            kept = path.with_suffix(".part.npy")
            np.save(kept, teacher.embed(part))
            kept.rename(path)
        parts.append(np.load(path))
    return np.concatenate(parts)
