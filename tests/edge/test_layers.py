"""The dependency rule: values <- parts <- pipeline <- forward <- app, endpoints <- cli."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "edge").rglob("*.py"))
}


def _modules(names: str) -> set[str]:
    return {f"edge.{name}" for name in names.split()}


VALUES = _modules(
    "wire query decision complexity errors budget telemetry normaliser accept conversation markdown cache.expiry"
)
PARTS = _modules(
    "router bundle guards hints moments amounts doubts words asked pairs slots sse stages tools toolbox results "
    "prefetch templates template_syntax config context breaker"
)
PARTS |= {name for name in SOURCES if name.startswith(("edge.stages.", "edge.cache"))} - VALUES
# What the commands may load beside the runtime's libraries, and only when a command needs it.
LAZY = {
    "edge.cli": {"export", "onnx", "sklearn", "torch", "yaml"},
    "edge.serve": {"uvicorn"},
    "edge.cache.redis_store": {"redis"},
}
UPPER = _modules(
    "pipeline host classify forward exchange execution access outbound caching feedback admin beside endpoints "
    "app cli flags serve isolate"
)
ALLOWED = sys.stdlib_module_names | {"numpy", "onnxruntime", "tokenizers", "starlette", "httpx2", "edge"}


def imports_of(tree: ast.AST, name: str) -> set[str]:
    """Every module that a module names in an import, wherever it stands."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno}: a relative import"
            found.add(node.module or name)
            # ``from edge import wire`` names a module too.
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & set(SOURCES)
    return found


IMPORTS = {name: imports_of(ast.parse(path.read_text("utf-8")), name) for name, path in SOURCES.items()}


def reaches(name: str) -> set[str]:
    """The modules of edge that importing a module loads, itself left out."""
    seen: set[str] = set()
    todo = {name}
    while todo:
        seen |= todo
        todo = {found for step in todo for found in IMPORTS[step] if found in SOURCES} - seen
    return seen - {name}


def test_the_walk_sees_imports() -> None:
    assert len(SOURCES) > 25
    assert reaches("edge.pipeline") >= {"edge.stages.route", "edge.bundle", "edge.decision"}
    assert "starlette.types" in IMPORTS["edge.stages.admit"]


def foreign(found: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in found} - ALLOWED


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_the_runtime_imports_only_what_it_may(name: str) -> None:
    assert foreign(IMPORTS[name]) <= LAZY.get(name, set())


@pytest.mark.parametrize("name", sorted(LAZY))
def test_the_commands_load_more_only_when_they_need_it(name: str) -> None:
    tree = ast.parse(SOURCES[name].read_text("utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    later = {id(node) for top in functions for node in ast.walk(top)}
    named = {id(node) for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))}
    at_once = ast.Module([n for n in ast.walk(tree) if id(n) in named - later], [])  # type: ignore[misc]
    assert foreign(imports_of(at_once, name)) == set()


def test_hints_imports_the_standard_library_alone() -> None:
    assert {found.partition(".")[0] for found in IMPORTS["edge.hints"]} <= sys.stdlib_module_names


@pytest.mark.parametrize("name", sorted(VALUES))
def test_values_import_no_parts(name: str) -> None:
    assert reaches(name) <= VALUES


@pytest.mark.parametrize("name", sorted(PARTS & set(SOURCES)))
def test_parts_import_nothing_above_them(name: str) -> None:
    assert reaches(name) & UPPER == set()


def test_pipeline_and_forward_know_nothing_of_the_application() -> None:
    app = {"edge.app", "edge.endpoints", "edge.exchange", *LAZY}
    assert reaches("edge.pipeline") & (app | {"edge.forward"}) == set()
    assert reaches("edge.forward") & (app | {"edge.pipeline", "edge.host"}) == set()


def test_nothing_imports_the_cli_and_it_alone_the_server_and_the_flags() -> None:
    assert [name for name, found in IMPORTS.items() if "edge.cli" in found] == []
    for name in ("edge.serve", "edge.flags"):
        assert [other for other, found in IMPORTS.items() if name in found] == ["edge.cli"]


def test_no_circle_exists() -> None:
    assert [name for name in SOURCES if any(name in reaches(other) for other in reaches(name))] == []


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_no_module_is_too_long(name: str) -> None:
    assert len(SOURCES[name].read_text("utf-8").splitlines()) <= 400


@pytest.mark.parametrize("entry", ["edge.app", "edge.cli"])
def test_starting_loads_nothing_heavy(entry: str) -> None:
    heavy = {"torch", "transformers", "onnx", "sklearn", "scipy", "pandas", "yaml", "export", "opencc"}
    code = f"import sys, {entry}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert entry in loaded
    assert {name.partition(".")[0] for name in loaded} & heavy == set()
