"""The runtime of Frontdesk."""

import os

# ONNX Runtime 1.29 and later tells its maker of each process and model, and keeps a number for the machine
# in ~/.cache, unless it is told not to before it is loaded. Whoever wants that sets a value of their own.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
