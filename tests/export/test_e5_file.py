"""The 4-bit blocks of the teacher's file."""

import numpy as np
import pytest

from export.e5_file import dequantise


def test_low_nibbles_come_before_high_ones() -> None:
    codes = np.arange(32) % 16
    packed = (codes[:16] | codes[16:] << 4).astype(np.uint8)
    raw = np.float16(0.5).tobytes() + packed.tobytes()
    assert np.array_equal(dequantise(raw, 32), (codes - 8) * np.float32(0.5))


def test_a_wrong_count_is_told() -> None:
    with pytest.raises(ValueError, match="Expected 64 weights"):
        dequantise(bytes(18), 64)
