"""The base student: texts in, embeddings out, through onnxruntime alone."""

import json
from collections.abc import Sequence
from copy import copy
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from scipy.sparse import csr_matrix
from tokenizers import Tokenizer

from edge.bundle import ROUTER_FILE
from edge.errors import BundleError
from edge.normaliser import NORMALISER_VERSION, Normaliser
from export.graph import encoder_graph
from export.heads import token_shares
from export.progress import Progress
from export.weights import EncoderWeights, read_weights

_LEAST_LENGTH, _LEAST_SPREAD, _SEVERAL = 0.5, 1e-5, 8


class Encoder:
    """``models/base``: a sentence encoder with its tokenizer and normaliser."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise BundleError(
                f"There is no base student at {folder}; run this in the checkout, or name it with --base DIR."
            )
        for name in (ROUTER_FILE, "tokenizer.json", "normaliser.json", "config.json"):
            if not (folder / name).is_file():
                raise BundleError(f"{folder} is no base student: it lacks {name}.")
        table = json.loads((folder / "normaliser.json").read_text("utf-8"))
        if table["version"] != NORMALISER_VERSION:
            raise BundleError(
                f"{folder} was made for normaliser version {table['version']}, this Frontdesk has "
                f"{NORMALISER_VERSION}; distil the base again."
            )
        self.normaliser = Normaliser(table["traditional"], table["simplified"])
        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        self.max_tokens = int(self.config["max_tokens"])
        if "exits" not in self.config:
            raise BundleError(
                f"{folder / 'config.json'} names no 'exits': the base is older than this Frontdesk."
            )
        self._tokenizer, self._counter = (Tokenizer.from_file(str(folder / "tokenizer.json")) for _ in "12")
        for tokenizer in (self._tokenizer, self._counter):
            tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.max_tokens)
        self._counter.no_truncation()
        self._weights: EncoderWeights | None = None
        self._open(str(folder / ROUTER_FILE))

    def _open(self, model: str | bytes) -> None:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._outputs = [output.name for output in self._session.get_outputs()]

    def tuned(self, weights: EncoderWeights) -> "Encoder":
        """The same encoder with other weights, as it will be shipped: in INT8."""
        other = copy(self)
        other._weights = weights
        other._open(encoder_graph(weights, quantized=True).SerializeToString())
        return other

    def ids(self, normal: str) -> list[int]:
        """The tokens of a text in reading form, cut to ``max_tokens``."""
        return list(self._tokenizer.encode(normal).ids)

    def weights(self) -> EncoderWeights:
        """The weights, for a router or a training that begins here."""
        if self._weights is not None:
            return self._weights
        model = onnx.load(str(self.folder / ROUTER_FILE))
        return read_weights(
            model, int(self.config["num_attention_heads"]), float(self.config.get("layer_norm_eps", 1e-12))
        )

    def token_count(self, text: str) -> int:
        """Router tokens of a text, without the special ones and without a limit."""
        return len(self._counter.encode(self.normaliser.reading(text), add_special_tokens=False).ids)

    def tokens(self, texts: Sequence[str]) -> csr_matrix:
        """The share of each token in each text, ``[texts, vocabulary]``, without the special ones."""
        ids = [
            self._counter.encode(self.normaliser.reading(text), add_special_tokens=False).ids
            for text in texts
        ]
        return token_shares(ids, self._counter.get_vocab_size())

    @property
    def exits(self) -> tuple[int, ...]:
        """After how many layers each exit reads; the last one reads after all."""
        return tuple(self.config["exits"])

    def embed(self, texts: Sequence[str], what: str = "Embedding", batch: int = 32) -> np.ndarray:
        """The embeddings of every exit, float32 ``[exits, len(texts), dim]``, L2-normalised."""
        encoded = [self._tokenizer.encode(self.normaliser.reading(text)).ids for text in texts]
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
        out: np.ndarray | None = None
        progress = Progress(what, len(texts))
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            rows = self._run([encoded[i] for i in chosen])
            if out is None:
                out = np.empty((len(rows), len(texts), rows.shape[2]), np.float32)
            out[:, chosen] = rows
            progress.add(len(chosen))
        progress.end()
        if out is None:
            raise ValueError("There is nothing to embed.")
        self._check(out)
        return out

    def _check(self, embeddings: np.ndarray) -> None:
        """Raise BundleError for embeddings that tell nothing apart: a head on them would look calibrated."""
        for exit_, x in zip(self.exits, embeddings, strict=True):
            what = None
            if not np.isfinite(x).all():
                what = "are not finite"
            elif (np.linalg.norm(x, axis=1) < _LEAST_LENGTH).any():
                what = "are zeros"
            elif len(x) >= _SEVERAL and (np.abs(x - x[0]) < _LEAST_SPREAD).all():
                what = "are the same for every text"
            if what is not None:
                raise BundleError(
                    f"The embeddings of {self.folder} at exit {exit_} {what}: the base is broken; "
                    "fetch or distil it again."
                )

    def _run(self, ids: Sequence[Sequence[int]]) -> np.ndarray:
        width = max(map(len, ids))
        input_ids = np.zeros((len(ids), width), np.int64)
        mask = np.zeros_like(input_ids)
        for row, values in enumerate(ids):
            input_ids[row, : len(values)] = values
            mask[row, : len(values)] = 1
        feed = {"input_ids": input_ids, "attention_mask": mask}
        return np.stack(self._session.run(self._outputs, feed))
