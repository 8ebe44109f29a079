"""What the documents point to exists, and the settings table is complete."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from edge.config import _SETTERS
from edge.decision import Reason

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "examples/agent/README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs/serving.md").read_text("utf-8")
    for name in _SETTERS:
        assert f"FRONTDESK_{name.upper()}" in text, name


def test_the_listings_of_platforms_are_read_and_set_what_there_is() -> None:
    text = (ROOT / "docs/deploy.md").read_text("utf-8")
    listings = re.findall(r"```(toml|yaml)\n(.*?)```", text, re.DOTALL)
    assert [tomllib.loads(t) if kind == "toml" else yaml.safe_load(t) for kind, t in listings]
    known = {f"FRONTDESK_{name.upper()}" for name in _SETTERS} | {"FRONTDESK_SECRET_NAME"}
    assert set(re.findall(r"FRONTDESK_[A-Z_]+", text)) <= known


def test_every_reason_the_code_gives_is_documented() -> None:
    text = (ROOT / "docs/reasons.md").read_text("utf-8")
    code = "".join(path.read_text("utf-8") for path in (ROOT / "edge").rglob("*.py"))
    guards = (ROOT / "export/guards.yaml").read_text("utf-8")
    given = [r for r in Reason if f"Reason.{r.name}" in code or f"reason: {r.value}" in guards]
    missing = [reason for reason in given if f"`{reason.value}`" not in text]
    assert missing == []
