"""Builds and runs the Dockerfile without Docker, with this machine as the base image.

Each stage is an overlay over this machine's own root, with its Python at /usr/local, where the base image has
it. RUN lines run in it as they stand, and so do ENTRYPOINT, CMD and HEALTHCHECK: as the image's user, as process 1,
on a root that nobody can write. The checkout is hidden, so that nothing of it can be meant.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from servers import ROOT

# What the base image says; it also has its Python's library among the linker's.
_BASE = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": "/usr/local/lib"}
# What is a container's before its command runs.
_MOUNTS = """
set -e
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=/,upperdir=$FILES,workdir=$WORK" "$AT"
mount --bind -o ro "$PYTHON" "$AT/usr/local"
mount -t tmpfs -o ro tmpfs "$AT$HIDDEN"
mount -t proc proc "$AT/proc"
mount --rbind /dev "$AT/dev"
if [ "$MODE" = ro ]; then mount -o remount,ro "$AT"; fi
"""
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction: its name, its flags, and what follows, with variables in it where Docker reads them."""

    name: str
    flags: Mapping[str, str]
    rest: str

    def words(self) -> list[str]:
        """The arguments, from a JSON array or from words."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)


@dataclass(slots=True)
class Stage:
    """One FROM and what comes after it. ``variables``: the environment that ENV makes."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=_BASE.copy)

    def last(self, name: str) -> Step:
        """The instruction of that name that counts."""
        return [step for step in self.steps if step.name == name][-1]


def read_stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, with the defaults of its arguments."""
    stages: list[Stage] = []
    arguments: dict[str, str] = {}
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in "\n".join(lines).replace("\\\n", "").splitlines():
        name, _, rest = line.strip().partition(" ")
        if not name:
            continue
        flags = {}
        while match := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
            flags[match[1]], rest = match[2], rest[match.end() :]
        if name in ("FROM", "COPY", "ENV", "WORKDIR", "USER", "EXPOSE"):
            known = arguments | (stages[-1].variables if stages else {})
            rest = _VARIABLE.sub(lambda m, known=known: known[m[1] or m[2]], rest)
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            stages.append(Stage(base, alias))
        elif name == "ARG":
            key, _, value = rest.partition("=")
            arguments[key] = value
        else:
            stages[-1].steps.append(Step(name, flags, rest.strip()))
            if name == "ENV":
                stages[-1].variables |= dict(pair.split("=", 1) for pair in shlex.split(rest))
    return stages


def in_context(path: Path) -> bool:
    """Whether .dockerignore leaves a path of the checkout in what the builder gets."""
    patterns = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    parts = path.relative_to(ROOT).parts
    names = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    for pattern in patterns:
        if pattern.startswith("**/"):
            if any(fnmatchcase(part, pattern[3:]) for part in parts):
                return False
        elif pattern and not pattern.startswith("#") and "/" not in pattern:
            if fnmatchcase(parts[0], pattern):
                return False
        elif any(fnmatchcase(name, pattern) for name in names):
            return False
    return True


class Image:
    """A built image: the files of its last stage, and what that stage says of running it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        stages = read_stages((ROOT / "Dockerfile").read_text("utf-8"))
        for number, stage in enumerate(stages):
            self._build(stage, self._files(stage.name or str(number)))
        self.stage = stages[-1]
        self.files = self._files(self.stage.name or str(len(stages) - 1))

    def _files(self, stage: str) -> Path:
        files = self._folder / stage
        files.mkdir(exist_ok=True)
        return files

    def _build(self, stage: Stage, files: Path) -> None:
        at = "/"
        for step in stage.steps:
            if step.name == "WORKDIR":
                at = step.rest
                (files / at[1:]).mkdir(parents=True, exist_ok=True)
            elif step.name == "COPY":
                *sources, target = step.words()
                source = self._files(step.flags["from"]) if "from" in step.flags else None
                for name in sources:
                    _copy(name, source, files / (target if target.startswith("/") else f"{at}/{target}")[1:])
            elif step.name == "RUN":
                kept = {n: v for n, v in os.environ.items() if n.startswith("PIP_") or n.endswith("_proxy")}
                command = ["env", "-i", "-C", at, *_pairs(kept | stage.variables), "sh", "-c", step.rest]
                done = subprocess.run(
                    self._inside(files, command, write=True), capture_output=True, text=True
                )
                assert done.returncode == 0, f"RUN {step.rest}\n{done.stdout}{done.stderr}"

    def _inside(
        self, files: Path, command: Sequence[str], *, write: bool = False, user: str = ""
    ) -> list[str]:
        """A command that runs ``command`` as process 1 on the files of a stage."""
        work, at = self._folder / "work", self._folder / "root"
        for folder in (work, at):
            folder.mkdir(exist_ok=True)
        variables = {"FILES": str(files), "WORK": str(work), "AT": str(at), "MODE": "rw" if write else "ro"}
        variables |= {"PYTHON": sys.base_prefix, "HIDDEN": str(ROOT)}
        change = ["chroot", *([f"--userspec={user}"] if user else []), str(at), *command]
        script = f"{_MOUNTS}exec {shlex.join(change)}"
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return ["env", *_pairs(variables), *namespaces, "sh", "-c", script]

    @contextmanager
    def run(self, *arguments: str, **variables: str) -> Iterator["Container"]:
        """A container; ``arguments`` take the place of CMD. What it says goes into the file ``log``."""
        stage = self.stage
        said = [*stage.last("ENTRYPOINT").words(), *(arguments or stage.last("CMD").words())]
        command = ["env", "-i", "-C", stage.last("WORKDIR").rest, *_pairs(stage.variables | variables), *said]
        user = stage.last("USER").rest
        with (self._folder / "log").open("w+", encoding="utf-8") as log:
            process = subprocess.Popen(self._inside(self.files, command, user=user), stdout=log, stderr=log)
            try:
                yield Container(process, stage, stage.variables | variables, Path(log.name))
            finally:
                process.kill()
                process.wait()


@dataclass(frozen=True, slots=True)
class Container:
    """A running container."""

    process: subprocess.Popen[bytes]
    stage: Stage
    variables: Mapping[str, str]
    log: Path

    @property
    def first(self) -> int:
        """The container's process 1, by its number on this machine."""
        outer = self.process.pid
        return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])

    def is_healthy(self) -> bool:
        """What HEALTHCHECK says."""
        check = self.stage.last("HEALTHCHECK").rest.removeprefix("CMD ")
        uid, _, gid = self.stage.last("USER").rest.partition(":")
        enter = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--root", "--wd"]
        command = [*enter, f"--setuid={uid}", f"--setgid={gid}", "env", "-i", *_pairs(self.variables)]
        return subprocess.run([*command, "sh", "-c", check], capture_output=True, timeout=10).returncode == 0


def _pairs(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in variables.items()]


def _copy(name: str, source: Path | None, target: Path) -> None:
    """Copy a file into a folder, or what is in a folder, as COPY does."""
    path = (source or ROOT) / name.lstrip("/")
    if path.is_file():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
        return

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [] if source else [n for n in names if not in_context(Path(folder, n))]

    shutil.copytree(path, target, symlinks=True, ignore=left_out)
