"""Symmetric INT8 for weights and embedding rows, in numpy."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# Weights stop at 63: kernels without VNNI add two products of a uint8 and an int8 in 16 bits,
# and 2 · 255 · 63 = 32,130 is the last that fits below 32,768. The lost bit costs no accuracy.
WEIGHT_TOP = 63
ROW_TOP = 127
ACTIVATION_ZERO = 128
# Below this a row of activations counts as zero, so that nothing is divided by 0.
SCALE_FLOOR = 1e-8


@dataclass(frozen=True, slots=True)
class Quantized:
    """``values`` int8 [rows, columns], and float32 ``scale`` [rows]: the original is values · scale."""

    values: NDArray[np.int8]
    scale: Floats

    def restored(self) -> Floats:
        """The float32 matrix that the integers stand for."""
        out: Floats = self.values.astype(np.float32) * self.scale[:, None]
        return out


def quantize_rows(matrix: Floats, top: int = ROW_TOP) -> Quantized:
    """One scale for each row of ``matrix`` [rows, columns]; the largest entry of a row becomes ±``top``."""
    scale = np.maximum(np.abs(matrix).max(axis=1) / top, SCALE_FLOOR).astype(np.float32)
    values = np.rint(matrix / scale[:, None]).astype(np.int8)
    return Quantized(values, scale)
