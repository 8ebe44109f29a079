"""Which entries an operator means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from edge.cache.entry import Entry
from edge.errors import BadRequest

KINDS = ("tag", "topic", "data_version", "id", "all")


@dataclass(frozen=True, slots=True)
class Selector:
    """Entries by one property: ``kind`` is one of KINDS, ``value`` what it must be ("" for all)."""

    kind: str
    value: str = ""

    @classmethod
    def of_body(cls, body: Mapping[str, Any]) -> Self:
        """From the body of a purge: exactly one kind beside ``dry_run``. Raises BadRequest."""
        named = [kind for kind in body if kind != "dry_run"]
        if len(named) != 1 or named[0] not in KINDS:
            raise BadRequest(
                "A purge names exactly one of tag, topic, data_version, id (each a text) or all: true, "
                "and may have dry_run: true.",
                code="invalid_purge",
            )
        kind, value = named[0], body[named[0]]
        if kind == "all":
            if value is not True:
                raise BadRequest("'all' must be true.", "all", "invalid_purge")
            return cls("all")
        if not isinstance(value, str) or (not value and kind != "data_version"):
            raise BadRequest(f"{kind!r} must be a text.", kind, "invalid_purge")
        return cls(kind, value)

    def matches(self, entry: Entry) -> bool:
        """Whether an entry is meant."""
        if self.kind == "all":
            return True
        if self.kind == "tag":
            return self.value in entry.tags
        return bool(getattr(entry, self.kind) == self.value)
