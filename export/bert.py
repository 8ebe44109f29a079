"""A plain BERT encoder in torch, small enough to read: teacher and student share it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Dims:
    """The sizes of a BERT-shaped encoder; the defaults are those of the student."""

    vocabulary: int = 16_000
    positions: int = 64
    width: int = 384
    layers: int = 4
    heads: int = 12
    inner: int = 1_536
    eps: float = 1e-12
    dropout: float = 0.0


class Layer(nn.Module):  # type: ignore[misc]  # mypy does not follow torch
    """One post-norm transformer layer with erf-GELU, as in the first BERT."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.heads, self.dropout = dims.heads, dims.dropout
        self.q = nn.Linear(dims.width, dims.width)
        self.k = nn.Linear(dims.width, dims.width)
        self.v = nn.Linear(dims.width, dims.width)
        self.attended = nn.Linear(dims.width, dims.width)
        self.attended_norm = nn.LayerNorm(dims.width, eps=dims.eps)
        self.rise = nn.Linear(dims.width, dims.inner)
        self.fall = nn.Linear(dims.inner, dims.width)
        self.norm = nn.LayerNorm(dims.width, eps=dims.eps)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """``x`` [batch, tokens, width], ``mask`` bool [batch, 1, 1, tokens] → like ``x``."""
        batch, tokens, width = x.shape
        q, k, v = (
            part(x).view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        attended = self.attended(mixed.transpose(1, 2).reshape(batch, tokens, width))
        x = self.attended_norm(x + functional.dropout(attended, self.dropout, self.training))
        risen = self.fall(functional.gelu(self.rise(x)))
        normed: Tensor = self.norm(x + functional.dropout(risen, self.dropout, self.training))
        return normed


class Bert(nn.Module):  # type: ignore[misc]  # mypy does not follow torch
    """Embeddings and layers; token types are folded into the positions."""

    def __init__(self, dims: Dims, *, sparse: bool = False) -> None:
        super().__init__()
        self.dims = dims
        self.words = nn.Embedding(dims.vocabulary, dims.width, sparse=sparse)
        self.positions = nn.Embedding(dims.positions, dims.width)
        self.norm = nn.LayerNorm(dims.width, eps=dims.eps)
        self.layers = nn.ModuleList(Layer(dims) for _ in range(dims.layers))

    def states(self, ids: Tensor, mask: Tensor) -> list[Tensor]:
        """``ids``, ``mask`` [batch, tokens] → states [batch, tokens, width] before and after each layer."""
        x = self.norm(self.words(ids) + self.positions.weight[: ids.shape[1]])
        found = [x]
        seen = mask.bool()[:, None, None, :]
        for layer in self.layers:
            x = layer(x, seen)
            found.append(x)
        return found


def mean_pool(state: Tensor, mask: Tensor) -> Tensor:
    """The mean over real tokens: [batch, tokens, width] and [batch, tokens] → [batch, width]."""
    weight = mask.to(state.dtype)[:, :, None]
    return (state * weight).sum(1) / weight.sum(1)


def pad(rows: list[list[int]], filler: int) -> tuple[Tensor, Tensor]:
    """Token rows of many lengths → ids and mask, int64 [batch, longest]."""
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), filler, dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[i, : len(row)] = 1
    return ids, mask
