"""What the tests of importers share: a file goes in, a desk that `frontdesk check` passes comes out."""

import json
from pathlib import Path

import pytest
from brought import Bring, Brought, Refuse

from edge.cli import main
from export.check import check_desk
from export.desk_reader import load_desk


def _write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture
def bring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bring:
    """Imports a file; the desk must load, and nothing in it may be an error."""

    def brought(name: str, content: str | bytes, *args: str) -> Brought:
        target = tmp_path / "desk"
        path = _write(tmp_path, name, content)
        assert main(["import", str(path), "-o", str(target), "--json", *args]) == 0, capsys.readouterr()
        said = json.loads(capsys.readouterr().out)
        desk = load_desk(target)
        assert [finding for finding in check_desk(desk) if finding.level == "error"] == []
        return Brought(desk, said)

    return brought


@pytest.fixture
def refuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Imports a file that is refused: the message, without the folder. Nothing may be left behind."""

    def refused(name: str, content: str | bytes, *args: str, status: int = 1) -> str:
        path = _write(tmp_path, name, content)
        before = sorted(tmp_path.iterdir())
        assert main(["import", str(path), "-o", str(tmp_path / "desk"), *args]) == status
        assert sorted(tmp_path.iterdir()) == before
        return capsys.readouterr().err.replace(f"{tmp_path}/", "").removeprefix("frontdesk: ")

    return refused
