"""Offline side of Frontdesk: distils, quantises and writes what the edge serves."""

import edge  # noqa: F401 - first, because ONNX Runtime must be told to keep quiet before it is loaded
