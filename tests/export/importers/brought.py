"""What an import that went well leaves: its desk, and what was said of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from export.desk import Desk


@dataclass(frozen=True, slots=True)
class Brought:
    """An import that went well: its desk, and the summary as JSON."""

    desk: Desk
    said: dict[str, Any] = field(default_factory=dict)

    def examples(self) -> dict[str, list[str]]:
        """Topic id → examples of all languages."""
        return {t.id: [text for some in t.examples.values() for text in some] for t in self.desk.topics}

    def left(self, reason: str) -> list[str]:
        """What was left out for a reason that begins so."""
        return [one["what"] for one in self.said["left_out"] if one["reason"].startswith(reason)]


Bring = Callable[..., Brought]
Refuse = Callable[..., str]
