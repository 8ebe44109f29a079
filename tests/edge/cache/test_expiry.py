"""When answers end: after a minute, with the day of a zone, or when they are purged."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from edge.cache.expiry import expires, zone_of


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone_of(zone)).timestamp()


def test_live_ends_after_a_minute_and_static_never() -> None:
    assert expires("live", 1000.0, UTC) == 1060.0
    assert expires("static", 1000.0, UTC) is None


@pytest.mark.parametrize("volatility", ["personal", "", "unheard_of"])
def test_what_is_no_class_of_shareable_answers_has_no_end(volatility: str) -> None:
    with pytest.raises(ValueError, match="not stored"):
        expires(volatility, 1000.0, UTC)


@pytest.mark.parametrize(
    ("now", "zone", "midnight"),
    [
        ("2026-12-02T00:00:00", "UTC", "2026-12-03T00:00:00"),  # midnight begins a day, it ends none
        ("2026-12-02T23:59:59.5", "UTC", "2026-12-03T00:00:00"),
        ("2026-12-02T15:59", "Asia/Shanghai", "2026-12-03T00:00:00"),
        ("2026-12-31T12:00", "Asia/Shanghai", "2027-01-01T00:00:00"),
        ("2028-02-28T12:00", "UTC", "2028-02-29T00:00:00"),
        ("2026-03-29T00:30", "Europe/Berlin", "2026-03-30T00:00:00"),  # a day of 23 hours
        ("2026-10-25T00:30", "Europe/Berlin", "2026-10-26T00:00:00"),  # and one of 25
    ],
)
def test_daily_ends_at_midnight_of_the_zone(now: str, zone: str, midnight: str) -> None:
    assert expires("daily", at(now, zone), zone_of(zone)) == at(midnight, zone)


def test_the_zone_decides_which_day_it_is() -> None:
    now = at("2026-12-02T23:30")  # already the third in Shanghai
    assert expires("daily", now, UTC) == at("2026-12-03T00:00")
    assert expires("daily", now, ZoneInfo("Asia/Shanghai")) == at("2026-12-04T00:00", "Asia/Shanghai")


@pytest.mark.parametrize("now", ["2018-11-03T23:30", "2018-11-04T01:30"])
def test_a_midnight_that_a_zone_skips_still_ends_the_day(now: str) -> None:
    zone = ZoneInfo("America/Sao_Paulo")  # there was no 00:00 on 4 November 2018
    moment = datetime.fromisoformat(now).replace(tzinfo=zone).timestamp()
    end = expires("daily", moment, zone)
    assert end is not None
    assert moment < end <= moment + 24 * 3600
    assert datetime.fromtimestamp(end, zone).date() > datetime.fromtimestamp(moment, zone).date()


@pytest.mark.parametrize("name", ["Nowhere/At_All", "", "../../etc/passwd", "/etc/localtime", "a\0b"])
def test_what_is_no_zone_is_told(name: str) -> None:
    with pytest.raises(ValueError, match="expected a time zone"):
        zone_of(name)
