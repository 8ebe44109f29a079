"""The Dockerfile as it stands: what it copies is there, and the image is not root's."""

import subprocess
import tomllib

import pytest
from image import Stage, in_context, read_stages
from servers import ROOT

KNOWN = {"COPY", "RUN", "ENV", "WORKDIR", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


@pytest.fixture
def stages() -> list[Stage]:
    return read_stages((ROOT / "Dockerfile").read_text("utf-8"))


def test_every_instruction_is_one_that_these_tests_follow(stages: list[Stage]) -> None:
    assert {step.name for stage in stages for step in stage.steps} <= KNOWN | {"ARG"}


def test_what_is_copied_is_in_the_repository_and_reaches_the_builder(stages: list[Stage]) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = tracked.stdout.splitlines()
    copies = [s for stage in stages for s in stage.steps if s.name == "COPY" and "from" not in s.flags]
    names = [name for step in copies for name in step.words()[:-1]]
    assert names
    for name in names:
        found = [f for f in files if (f == name or f.startswith(f"{name}/")) and in_context(ROOT / f)]
        assert found, name


@pytest.mark.parametrize(
    ("path", "there"),
    [
        (".git/config", False),
        (".venv/bin/python", False),
        (".env", False),
        ("edge/__pycache__/app.pyc", False),
        ("edge/worker/node_modules/x/index.js", False),
        ("tests/contract/node/client.mjs", False),
        ("models/base/onnx/model_quantized.onnx", False),
        ("models/demo/onnx/model_quantized.onnx", True),
        ("edge/stages/read.py", True),
        ("my-bundle/frontdesk.json", True),
    ],
)
def test_what_reaches_the_builder(path: str, there: bool) -> None:
    assert in_context(ROOT / path) is there


def test_the_image_is_not_roots_and_its_server_gets_the_signals(stages: list[Stage]) -> None:
    last = stages[-1]
    assert last.last("USER").rest.split(":")[0].isdecimal()
    assert int(last.last("USER").rest.split(":")[0]) > 0
    for name in ("ENTRYPOINT", "CMD"):  # a shell between would keep the signals to itself
        assert last.last(name).rest.startswith("["), name
    assert [step for step in last.steps if step.name == "RUN"] == []


def test_its_python_is_one_that_the_project_takes(stages: list[Stage]) -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    for stage in stages:
        version = stage.base.removeprefix("python:").removesuffix("-slim")
        assert tuple(map(int, version.split("."))) >= tuple(map(int, needed.removeprefix(">=").split(".")))
