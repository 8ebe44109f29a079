"""ONNX Runtime's telemetry is off: nothing is kept in the home folder, which comes before anything is sent."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import DEMO, ROOT


@pytest.mark.parametrize(
    "command",
    [["-m", "edge.cli", "ask", "--bundle", str(DEMO), "where can I park"], ["-c", "import export.encoder"]],
    ids=lambda command: command[-1],
)
def test_nothing_is_kept_in_the_home_folder(tmp_path: Path, command: list[str]) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}  # CI would do, too
    done = subprocess.run([sys.executable, *command], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.rglob("*")) == []
