"""The patterns of a bundle read the same in JavaScript: another host takes them from the same data."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from servers import ROOT

from edge.normaliser import Normaliser
from export.desk_reader import load_desk
from export.guards import guard_data
from export.slots import slot_data
from export.tools import tool_entry

SCRIPT = Path(__file__).parent / "node/patterns.mjs"
TEXTS = [
    "明早九点一刻到下周五六点，两百五十块或者三千五", "next friday 3:30 p.m. or 30 june 2025, 6/30/2025", "EX-2041 a1b 1024,",
    "上个月去年12月31号2025年6月 2025-06", "twenty-five people, more than 1,024 yuan", "周一到周五 3天前 两周后", "x1 pro x10",
    "可以不休吗? can't, 7天", "",
]  # fmt: skip


def test_every_pattern_matches_the_same_in_javascript() -> None:
    slots, guards = slot_data(), guard_data()
    tools = [tool_entry(tool, Normaliser()) for tool in load_desk(ROOT / "examples/desk").tools]
    patterns = [rule[key] for rule in slots["rules"] for key in ("if", "pattern")]
    patterns += [slots["amounts"]["regex"], slots["amounts"]["han"], guards["terms"], guards["numbers"]]
    patterns += [pattern["pattern"] for pattern in guards["patterns"]]
    patterns += [slot["find"] for tool in tools for slot in tool["slots"] if slot["find"]]
    listed = [question.text for question in load_desk(ROOT / "examples/desk").calibrate[::40]]
    texts = TEXTS + [
        text for text in map(Normaliser().reading, listed) if max(text, default="") < "\U00010000"
    ]
    done = subprocess.run(
        ["node", str(SCRIPT)],
        input=json.dumps({"patterns": patterns, "texts": texts}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = json.loads(done.stdout)
    for pattern, theirs in zip(patterns, found, strict=True):
        assert theirs == [ours(pattern, text) for text in texts], pattern
    assert sum(bool(matches) for theirs in found for matches in theirs) > 500


def ours(pattern: str, text: str) -> list[list[Any]]:
    return [[m.start(), m.group(), *m.groups()] for m in re.finditer(pattern, text)]
