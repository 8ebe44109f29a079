"""What an operator sets of the cache."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """``mode``: ``off``, ``exact`` (the same words alone) or ``semantic``.

    ``min_confidence``: the least certainty of the topic for anything to be stored or served.
    ``min_similarity``: the least cosine of two questions that share an answer; docs/cache.md has what passes
    at which. ``zone``: where the day of ``daily`` answers ends. ``data_version``: of what the
    agent knows; another one serves nothing that was stored under this. ``never``: topics that are neither
    stored nor served. ``snapshot``: a file that keeps the entries over a restart, "" for none. ``redis_url``:
    what several servers share, "" for nothing; ``redis_timeout_ms``: how long a turn waits for it.
    """

    mode: str = "off"
    min_confidence: float = 0.8
    min_similarity: float = 0.8
    zone: str = "UTC"
    data_version: str = ""
    never: tuple[str, ...] = ()
    max_entries: int = 10_000
    max_bytes: int = 64_000_000
    snapshot: str = ""
    redis_url: str = field(default="", repr=False)
    redis_timeout_ms: int = 50
