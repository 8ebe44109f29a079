"""The student: four teacher layers, a cut vocabulary, and exits with a map into the teacher's space."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn

from export.bert import Bert, Dims, pad
from export.e5_file import E5File
from export.teacher import load_layer
from export.vocabulary import PAD, Vocabulary
from export.weights import Affine, EncoderWeights, ExitWeights, LayerWeights, Norm

MAX_TOKENS = 64
# Without the prefix the text moves up, but it keeps the position vectors it was trained at:
# ``<s>`` row 0, then what follows the three pieces of "query:".
_PREFIX_PIECES = 3
HEADS = 12
EXITS = (0, 2, 4)  # 0 reads the embeddings alone, k reads after layer k
LAYER_CHOICES = ((0, 3, 7, 11), (0, 4, 8, 11), (1, 4, 7, 10), (0, 2, 5, 9), (0, 2, 6, 11))
_RIDGE = 1e-3


class Student(nn.Module):  # type: ignore[misc]  # mypy does not follow torch
    """ids, mask [batch, tokens] → at every exit an estimate of the teacher's vector [batch, width].

    An exit is a pool and a linear map. The pool is a mean weighted by the softmax of ``state · gate``:
    a gate of zeros makes it the plain mean, from which it starts.
    """

    def __init__(self, dims: Dims, exits: Sequence[int]) -> None:
        super().__init__()
        self.bert = Bert(dims, sparse=True)
        self.exits = tuple(exits)
        self.gates = nn.Parameter(torch.zeros(len(self.exits), dims.width))
        self.projections = nn.ModuleList(nn.Linear(dims.width, dims.width) for _ in self.exits)

    def pooled(self, ids: Tensor, mask: Tensor) -> list[Tensor]:
        """The pooled states of every exit, each [batch, width]."""
        states = self.bert.states(ids, mask)
        return [gated_pool(states[e], mask, g) for e, g in zip(self.exits, self.gates, strict=True)]

    def forward(self, ids: Tensor, mask: Tensor) -> list[Tensor]:
        """The estimates of every exit, each [batch, width], not yet centred, of no fixed length."""
        return [
            projection(pooled)
            for projection, pooled in zip(self.projections, self.pooled(ids, mask), strict=True)
        ]


def gated_pool(state: Tensor, mask: Tensor, gate: Tensor) -> Tensor:
    """[batch, tokens, width], [batch, tokens], [width] → the weighted mean of tokens [batch, width]."""
    scores = (state @ gate).masked_fill(mask == 0, float("-inf"))
    mean: Tensor = (scores.softmax(1)[:, :, None] * state).sum(1)
    return mean


def start_student(
    file: E5File, vocabulary: Vocabulary, layers: Sequence[int], exits: Sequence[int] = EXITS
) -> Student:
    """A student whose every weight but those of its exits is the teacher's."""
    dims = Dims(len(vocabulary.rows), MAX_TOKENS, file.width, len(layers), file.heads, file.inner, file.eps)
    student = Student(dims, exits)
    rows = [0, *range(_PREFIX_PIECES + 1, _PREFIX_PIECES + MAX_TOKENS)]
    with torch.no_grad():
        words = file.tensors["emb.word"][list(vocabulary.rows)]
        student.bert.words.weight.copy_(torch.from_numpy(words))
        student.bert.positions.weight.copy_(
            torch.from_numpy(file.tensors["emb.pos"][rows] + file.tensors["emb.type"][0])
        )
        student.bert.norm.weight.copy_(torch.from_numpy(file.tensors["emb.ln.w"]))
        student.bert.norm.bias.copy_(torch.from_numpy(file.tensors["emb.ln.b"]))
    for layer, index in zip(student.bert.layers, layers, strict=True):
        load_layer(layer, file.tensors, index)
    return student


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Texts in reading form → ids, cut to ``MAX_TOKENS`` with ``</s>`` kept."""
    rows = [e.ids for e in tokenizer.encode_batch(list(texts))]
    return [row if len(row) <= MAX_TOKENS else [*row[: MAX_TOKENS - 1], row[-1]] for row in rows]


def run(student: Student, rows: Sequence[list[int]], *, pooled: bool = False, batch: int = 128) -> Tensor:
    """Token rows → the estimates of every exit, or the pooled states: float32 [exits, rows, width]."""
    order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
    out = torch.zeros(len(student.exits), len(rows), student.bert.dims.width)
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            some = order[start : start + batch]
            ids, mask = pad([rows[i] for i in some], PAD)
            out[:, some] = torch.stack(student.pooled(ids, mask) if pooled else student(ids, mask))
    return out


def start_exits(student: Student, rows: Sequence[list[int]], targets: Tensor) -> None:
    """Sets every exit's map to the ridge regression of ``targets`` [rows, width] on its pooled states."""
    for projection, x in zip(student.projections, run(student, rows, pooled=True), strict=True):
        weight, bias = ridge(x, targets)
        with torch.no_grad():
            projection.weight.copy_(weight)
            projection.bias.copy_(bias)


def encoder_weights(
    state: Mapping[str, Tensor], mean: Tensor, exits: Sequence[int], heads: int = HEADS
) -> EncoderWeights:
    """The student's state as numpy arrays; ``mean`` [width] goes into the last biases and centres all."""

    def array(name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.asarray(state[name].float().numpy(), np.float32)

    def affine(name: str) -> Affine:
        return Affine(array(f"{name}.weight"), array(f"{name}.bias"))

    def norm(name: str) -> Norm:
        return Norm(array(f"{name}.weight"), array(f"{name}.bias"))

    count = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("bert.layers."))
    layers = tuple(
        LayerWeights(
            q=affine(f"bert.layers.{i}.q"),
            k=affine(f"bert.layers.{i}.k"),
            v=affine(f"bert.layers.{i}.v"),
            attended=affine(f"bert.layers.{i}.attended"),
            attended_norm=norm(f"bert.layers.{i}.attended_norm"),
            rise=affine(f"bert.layers.{i}.rise"),
            fall=affine(f"bert.layers.{i}.fall"),
            norm=norm(f"bert.layers.{i}.norm"),
        )
        for i in range(count)
    )
    gates = array("gates")
    maps = [affine(f"projections.{place}") for place in range(len(exits))]
    found = tuple(
        ExitWeights(layer, gate, Affine(last.weight, last.bias - mean.numpy()))
        for layer, gate, last in zip(exits, gates, maps, strict=True)
    )
    words, positions = array("bert.words.weight"), array("bert.positions.weight")
    return EncoderWeights(words, positions, norm("bert.norm"), layers, found, heads)


def ridge(x: Tensor, y: Tensor, strength: float = _RIDGE) -> tuple[Tensor, Tensor]:
    """Weight [out, in] and bias [out] of the ridge regression of ``y`` [n, out] on ``x`` [n, in]."""
    x_mean, y_mean = x.mean(0), y.mean(0)
    x, y = (x - x_mean).double(), (y - y_mean).double()
    gram = x.T @ x
    gram += strength * gram.trace() / len(gram) * torch.eye(len(gram), dtype=gram.dtype)
    weight = torch.linalg.solve(gram, x.T @ y).T.float()
    return weight, y_mean - weight @ x_mean


def centred_cosine(z: Tensor, t: Tensor, mean: Tensor) -> Tensor:
    """The cosine of each row of ``z`` and ``t`` [n, width] as seen from ``mean``: the raw space is a cone."""
    return nn.functional.cosine_similarity(z - mean, t - mean, dim=1)


def choose_layers(
    file: E5File,
    vocabulary: Vocabulary,
    texts: Sequence[str],
    targets: NDArray[np.float32],
    choices: Sequence[tuple[int, ...]] = LAYER_CHOICES,
) -> tuple[Student, dict[str, float]]:
    """The untrained student that a ridge map brings nearest to the teacher, and what each choice reached.

    A quarter of the texts is kept for judging. The winner's exits are fitted on all of them.
    """
    rows = encode(vocabulary.tokenizer(), texts)
    t = torch.from_numpy(targets)
    cut = len(rows) * 3 // 4
    best: tuple[float, Student] | None = None
    reached: dict[str, float] = {}
    for choice in choices:
        student = start_student(file, vocabulary, choice)
        x = run(student, rows, pooled=True)[-1]
        weight, bias = ridge(x[:cut], t[:cut])
        score = float(centred_cosine(x[cut:] @ weight.T + bias, t[cut:], t.mean(0)).mean())
        reached[",".join(map(str, choice))] = round(score, 4)
        if best is None or score > best[0]:
            best = score, student
    if best is None:
        raise ValueError("No choice of layers was given.")
    _, student = best
    start_exits(student, rows, t)
    return student, reached
