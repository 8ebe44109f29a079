"""Our own general texts: out-of-scope questions and follow-ups that no desk has to write."""

from dataclasses import dataclass
from pathlib import Path

from export.located import read_json_lines

POOLS = Path(__file__).with_name("pools")


@dataclass(frozen=True, slots=True)
class Pools:
    """``out_of_scope``: texts that no desk answers. The others train the needs-context head."""

    out_of_scope: tuple[str, ...]
    follow_ups: tuple[str, ...]
    stand_alone: tuple[str, ...]


def load_pools(folder: Path = POOLS) -> Pools:
    """The pools of a folder with ``out_of_scope.jsonl`` and ``follow_up.jsonl``."""
    follow_up = [row for _, row in read_json_lines(folder / "follow_up.jsonl")]
    return Pools(
        out_of_scope=tuple(row["text"] for _, row in read_json_lines(folder / "out_of_scope.jsonl")),
        follow_ups=tuple(row["text"] for row in follow_up if row["needs_context"]),
        stand_alone=tuple(row["text"] for row in follow_up if not row["needs_context"]),
    )
