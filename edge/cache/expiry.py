"""Until when an answer may be served: a point in time that no hit moves."""

from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LIVE_SECONDS = 60.0


def zone_of(name: str) -> tzinfo:
    """The time zone of an IANA name such as ``Asia/Shanghai``. Raises ValueError."""
    if name == "UTC":  # also where a small container has no data of time zones
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError(
            "expected a time zone such as Asia/Shanghai (where the system has none, `pip install tzdata`)"
        ) from exc


def expires(volatility: str, now: float, zone: tzinfo) -> float | None:
    """When an answer that is stored ``now`` ends, in seconds since the epoch; None: when it is purged.

    ``live`` ends after a minute, ``daily`` with the day in ``zone``. Raises ValueError for ``personal`` and
    whatever else is never stored.
    """
    if volatility == "static":
        return None
    if volatility == "live":
        return now + LIVE_SECONDS
    if volatility == "daily":
        day = datetime.fromtimestamp(now, zone).date() + timedelta(days=1)
        return datetime.combine(day, time.min, zone).timestamp()
    raise ValueError(f"{volatility} answers are not stored")
