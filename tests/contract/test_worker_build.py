"""``frontdesk worker build``: the folder that wrangler deploys, for any bundle; and the repository's own wrangler.toml."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from isolates import COMPATIBILITY_DATE, WORKER, workerd
from servers import DEMO, ROOT, open_client

from edge.bundle import MANIFEST
from edge.cli import main
from edge.errors import BundleError
from edge.isolate import FILES, MAX_BYTES, build_worker, worker_name, wrangler_toml

LIMIT_MIB = 64  # what Cloudflare takes, uncompressed


def dry_run(folder: Path, out: Path) -> float:
    """Bundle with wrangler, as a deployment would. Returns the size of the upload in MiB."""
    wrangler = WORKER / "node_modules/.bin/wrangler"
    done = subprocess.run(
        [str(wrangler), "deploy", "--dry-run", "--outdir", str(out)],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(out.parent), "WRANGLER_SEND_METRICS": "false"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    size = re.search(r"Total Upload: ([0-9.]+) KiB", done.stdout)
    assert size, done.stdout
    return float(size[1]) / 1024


def test_the_folder_of_another_bundle_is_deployed_by_wrangler_and_answers(tmp_path: Path) -> None:
    bundle, folder = tmp_path / "bundle", tmp_path / "deep/worker"
    shutil.copytree(DEMO, bundle)
    manifest = json.loads((bundle / MANIFEST).read_bytes())
    (bundle / MANIFEST).write_text(json.dumps({**manifest, "name": "Other Desk"}), "utf-8")
    build_worker(bundle, folder)
    assert 'name = "frontdesk-other-desk"' in (folder / "wrangler.toml").read_text("utf-8")
    assert not list(folder.rglob("node_modules"))
    assert {str(path.relative_to(folder / "bundle")) for path in (folder / "bundle").rglob("*.*")} == set(
        FILES
    )
    (folder / "node_modules").symlink_to(WORKER / "node_modules")
    assert dry_run(folder, tmp_path / "out") < LIMIT_MIB
    with workerd(tmp_path / "out") as isolate, open_client(isolate.url) as client:
        answer = client.post("/v1/classify", json={"input": "what time do we start?"}).json()
    assert answer["bundle"] == f"Other Desk@{manifest['version']}"
    assert answer["data"][0]["reason"] == "exact"


def test_the_commands_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "build", str(DEMO), "-o", str(tmp_path / "a"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "folder": str(tmp_path / "a"),
        "bundle_bytes": sum((DEMO / file).stat().st_size for file in FILES),
    }
    assert main(["worker", "build", str(DEMO), "-o", str(tmp_path / "b")]) == 0
    assert "npx wrangler deploy" in capsys.readouterr().out
    assert main(["worker", "build", str(DEMO), "-o", str(tmp_path / "b")]) == 1
    assert "is there already" in capsys.readouterr().err


def test_a_bundle_that_cannot_be_used_or_is_too_large_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(DEMO, broken)
    (broken / "answers.jsonl").write_text("", "utf-8")
    with pytest.raises(BundleError, match="SHA-256"):
        build_worker(broken, tmp_path / "out")
    monkeypatch.setattr("edge.isolate.MAX_BYTES", 10 << 20)
    with pytest.raises(BundleError, match="64 MiB that Cloudflare takes"):
        build_worker(DEMO, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["broken"]


def test_the_program_without_its_bundle_has_what_is_allowed_for_it() -> None:
    [upload] = re.findall(r"Total Upload: ([0-9.]+) KiB", (WORKER / "build/sizes.txt").read_text("utf-8"))
    bundle = sum((DEMO / file).stat().st_size for file in FILES)
    assert float(upload) * 1024 - bundle < LIMIT_MIB * 2**20 - MAX_BYTES


def test_the_demos_configuration_is_what_the_command_writes() -> None:
    text = (ROOT / "wrangler.toml").read_text("utf-8")
    written, _, variant = text.partition("\n# Variant: ")
    assert written == wrangler_toml(worker_name("demo"), "edge/worker/worker.ts")
    # The variant is that of docs/deploy.md.
    shown = "\n".join(line.removeprefix("# ").removeprefix("#") for line in variant.splitlines()[2:])
    block = (ROOT / "docs/deploy.md").read_text("utf-8").partition("[[containers]]")[2].partition("[vars]")[0]
    assert shown.replace(" ", "") in re.sub("#.*", "", "[[containers]]" + block).replace(" ", "")
    assert f'compatibility_date = "{COMPATIBILITY_DATE}"' in text


@pytest.mark.parametrize(
    ("bundle", "name"),
    [("demo", "frontdesk-demo"), ("My Desk_2", "frontdesk-my-desk-2"), ("客服", "frontdesk"), ("a" * 80, "frontdesk-" + "a" * 53)],
)  # fmt: skip
def test_workers_have_names_that_cloudflare_takes(bundle: str, name: str) -> None:
    assert worker_name(bundle) == name


def test_no_file_of_ours_names_a_registry() -> None:
    lock = (WORKER / "package-lock.json").read_text("utf-8")
    assert '"resolved"' not in lock
