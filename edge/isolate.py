"""The folder from which wrangler deploys an isolate: the worker's sources and what it reads of a bundle."""

import re
import shutil
import tempfile
from pathlib import Path

from edge.bundle import MANIFEST, ROUTER_FILE, load_bundle
from edge.errors import BundleError

SOURCES = Path(__file__).parent / "worker"
FILES = (MANIFEST, "answers.jsonl", "tokenizer.json", ROUTER_FILE)
# Cloudflare takes 64 MiB uncompressed; onnxruntime-web's plain build has 13.6, the rest of the program 0.3.
MAX_BYTES = (64 - 14) << 20
_COPIED = ("src", "modules.d.ts", "package.json", "package-lock.json", "tsconfig.json")
_ENTRY = "worker.ts"
_DEMO = "../../models/demo/"  # where the sources import the bundle from
_TOML = """\
# Made by `frontdesk worker build`: docs/worker.md has the steps, limits and settings.
name = "{name}"
main = "{main}"
compatibility_date = "2026-04-01"
# Without it nobody would tell that the client has gone.
compatibility_flags = ["enable_request_signal"]

# Plain settings, under the names that `frontdesk serve` reads. What is secret never stands here:
# `wrangler secret put FRONTDESK_UPSTREAM_API_KEY`, and the same for FRONTDESK_KEYS and FRONTDESK_HINTS_KEYS.
[vars]
# FRONTDESK_UPSTREAM_BASE_URL = "https://your-agent/v1"
# FRONTDESK_ANSWERING = "observe"

[observability]
enabled = true

[[rules]]
type = "Data"
globs = ["**/*.onnx", "**/*.jsonl", "**/frontdesk.json", "**/tokenizer.json"]
fallthrough = true
"""


def wrangler_toml(name: str, main: str) -> str:
    """The configuration of a worker that is called ``name`` and begins at the file ``main``."""
    return _TOML.format(name=name, main=main)


def worker_name(bundle: str) -> str:
    """What a bundle's worker is called: Cloudflare takes small letters, digits and hyphens, 63 in all."""
    return "-".join(["frontdesk", *re.findall("[a-z0-9]+", bundle.lower())])[:63].rstrip("-")


def build_worker(bundle: Path, target: Path) -> int:
    """Write the folder, whole or not at all. Returns the bytes of the bundle in it.

    Raises BundleError where the bundle cannot be used or is too large, or where the target holds files.
    """
    if not SOURCES.is_dir():
        raise BundleError("This installation lacks the worker's sources (edge/worker); use a checkout.")
    loaded = load_bundle(bundle)
    size = sum((bundle / name).stat().st_size for name in FILES)
    if size > MAX_BYTES:
        raise BundleError(
            f"{bundle} has {size / 2**20:.0f} MiB; a worker of more than {MAX_BYTES >> 20} passes the 64 MiB "
            "that Cloudflare takes. Train it with fewer examples, or on a smaller base."
        )
    target = target.absolute()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise BundleError(f"{target} is there already; choose a new or an empty folder.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            folder.chmod(0o755)
            _write(bundle, folder, worker_name(loaded.name))
            folder.rename(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as exc:
        raise BundleError(f"{target} cannot be written ({exc.strerror}); nothing was.") from exc
    return size


def _write(bundle: Path, folder: Path, name: str) -> None:
    for source in _COPIED:
        copy = shutil.copytree if (SOURCES / source).is_dir() else shutil.copyfile
        copy(SOURCES / source, folder / source)
    entry = (SOURCES / _ENTRY).read_text("utf-8")
    (folder / _ENTRY).write_text(entry.replace(_DEMO, "./bundle/"), "utf-8")
    (folder / "wrangler.toml").write_text(wrangler_toml(name, _ENTRY), "utf-8")
    for file in FILES:
        path = folder / "bundle" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(bundle / file, path)
