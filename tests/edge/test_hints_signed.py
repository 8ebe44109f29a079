"""Signed hints: the bytes that are signed, everything that is not believed, and what is kept to tell replays."""

import hashlib
import hmac
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from spelled import Hold

from edge.hints import (
    VALID_SECONDS,
    Hints,
    HintsError,
    HintsKey,
    Seen,
    format_hints,
    parse_hints,
    parse_keys,
    sign_hints,
    verify_hints,
)

SERVING = Path(__file__).parents[2] / "docs/serving.md"
KEY, OLD = HintsKey("2026-12", b"a" * 32), HintsKey("2026-09", b"b" * 32)
HINTS = Hints(topic="年假", confidence=0.5, reason="low_confidence")
NOW = 1_796_115_600
GOOD: dict[str, Any] = {"hints": format_hints(HINTS), "request_id": "req_1", "body": b'{"a":1}'}


def verified(**changed: Any) -> Hints:
    given = GOOD | {"keys": [KEY, OLD], "seen": Seen(), "now": NOW}
    return verify_hints(**given | {"signature": sign_hints(**GOOD, key=KEY, now=NOW)} | changed)


def why(**changed: Any) -> str:
    with pytest.raises(HintsError) as caught:
        verified(**changed)
    return caught.value.code


# --- the format ------------------------------------------------------------------------------------


def blocks() -> list[str]:
    section = SERVING.read_text("utf-8").partition("### Signed hints")[2].partition("\n## ")[0]
    return re.findall(r"```\w+\n(.*?)\n```", section, re.S)


def test_the_documented_example_is_what_is_computed() -> None:
    _, body, signed, header = blocks()
    [key] = parse_keys(re.findall(r"`(2026-12:[^…`]+)`", SERVING.read_text("utf-8"))[0])
    label, at, request_id, attempt, digest, hints = signed.split("\n")
    assert label == "frontdesk-hints-v1"
    assert digest == hashlib.sha256(body.encode()).hexdigest()
    mac = hmac.new(key.secret, signed.encode(), "sha256").hexdigest()
    name, _, signature = header.partition(": ")
    assert name == "x-frontdesk-signature"
    assert signature == f"kid={key.kid},t={at},attempt={attempt},v1={mac}"
    assert signature == sign_hints(hints, request_id, body.encode(), key, int(at), int(attempt))
    told = verify_hints(hints, signature, request_id, body.encode(), [key], Seen(), int(at))
    assert format_hints(told) == hints


def test_openssl_computes_the_same() -> None:
    signed, header = blocks()[2:]
    [key] = parse_keys(re.findall(r"`(2026-12:[^…`]+)`", SERVING.read_text("utf-8"))[0])
    command = ["openssl", "dgst", "-sha256", "-hmac", key.secret.decode()]
    done = subprocess.run(command, input=signed.encode(), capture_output=True, check=True)
    assert done.stdout.decode().split()[-1] == header[-64:]


# --- what is believed --------------------------------------------------------------------------------


def test_good_hints_are_believed() -> None:
    assert verified() == HINTS


@pytest.mark.parametrize("signing", [KEY, OLD])
def test_any_key_of_the_agents_will_do(signing: HintsKey) -> None:
    assert verified(signature=sign_hints(**GOOD, key=signing, now=NOW)) == HINTS
    assert verified(signature=sign_hints(**GOOD, key=signing, now=NOW), keys=[OLD, KEY]) == HINTS


@pytest.mark.parametrize(
    "changed",
    [
        {"hints": GOOD["hints"].replace("0.5", "0.9")},
        {"hints": GOOD["hints"] + " "},
        {"hints": ""},
        {"body": b'{"a": 1}'},
        {"body": b""},
        {"request_id": "req_2"},
        {"request_id": ""},
        {"keys": [HintsKey("2026-12", b"c" * 32)]},
    ],
)
def test_what_was_altered_is_not_believed(changed: dict[str, Any]) -> None:
    assert why(**changed) == "altered"


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("kid=2026-12", "kid=2026-09"),
        (f"t={NOW}", f"t={NOW + 1}"),
        (f"t={NOW}", f"t=0{NOW}"),
        ("attempt=1", "attempt=2"),
        ("attempt=1", "attempt=01"),
    ],
)
def test_no_part_of_the_signature_can_be_exchanged(part: str, other: str) -> None:
    signature = sign_hints(**GOOD, key=KEY, now=NOW)
    assert part in signature
    assert why(signature=signature.replace(part, other)) == "altered"


def test_no_digit_of_the_mac_can_be_exchanged() -> None:
    signature = sign_hints(**GOOD, key=KEY, now=NOW)
    for place in range(1, 65):
        digit = "0" if signature[-place] != "0" else "1"
        end = signature[len(signature) - place + 1 :]
        assert why(signature=signature[:-place] + digit + end) == "altered"


def test_fields_cannot_run_into_one_another() -> None:
    """The same characters, cut elsewhere: a line feed is what keeps them apart, so none can be signed."""
    for part in ("hints", "request_id"):
        for odd in ("a\nb", "a\rb", "\x00", "é", "年", "\ud800", "\x7f"):
            with pytest.raises(HintsError):
                sign_hints(**GOOD | {part: odd}, key=KEY, now=NOW)
    for shifted in ({"request_id": "req_1\n1"}, {"request_id": "", "hints": "req_1\n" + GOOD["hints"]}):
        assert why(**shifted) == "altered"


@pytest.mark.parametrize(
    ("signature", "code"),
    [
        ("", "unsigned"),
        ("x", "malformed"),
        (" ", "malformed"),
        ("kid=2026-12,t=1,v1=" + "0" * 64, "malformed"),
        ("kid=2026-12,t=1,attempt=1,v1=" + "0" * 63, "malformed"),
        ("kid=2026-12,t=1,attempt=1,v1=" + "0" * 64 + "\n", "malformed"),
        ("kid=2026-12,t=1,attempt=1,v1=" + "A" * 64, "malformed"),
        ("kid=2026-12,t=٣,attempt=1,v1=" + "0" * 64, "malformed"),
        ("kid=2026-12,t=-1,attempt=1,v1=" + "0" * 64, "malformed"),
        (f"kid=2026-12,t={'9' * 5000},attempt=1,v1=" + "0" * 64, "malformed"),
        (", ".join(["kid=2026-12,t=1,attempt=1,v1=" + "0" * 64] * 2), "malformed"),
        ("kid=2026-11,t=1,attempt=1,v1=" + "0" * 64, "unknown_key"),
        ("kid=2026-12,t=1,attempt=1,v1=" + "0" * 64, "altered"),
    ],
)
def test_what_is_no_signature_of_ours(signature: str, code: str) -> None:
    assert why(signature=signature) == code


def test_without_keys_nothing_is_believed() -> None:
    assert why(keys=[]) == "unknown_key"


def test_signed_hints_of_another_version_are_unreadable() -> None:
    later = GOOD | {"hints": "v=2"}
    assert why(**later, signature=sign_hints(**later, key=KEY, now=NOW)) == "unreadable"


# --- time and replays --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "good"), [(-60, True), (-59.9, True), (-60.1, False), (60, True), (60.1, False), (86_400, False)]
)
def test_a_signature_is_good_for_a_minute_either_way(late: float, good: bool) -> None:
    assert (verified(now=NOW + late) == HINTS) if good else (why(now=NOW + late) == "expired")


def test_a_replay_is_told_for_as_long_as_its_signature_is_good() -> None:
    """Also where the signing clock is a minute ahead: then it is good for two."""
    seen = Seen()
    signature = sign_hints(**GOOD, key=KEY, now=NOW + VALID_SECONDS)
    assert verified(signature=signature, seen=seen) == HINTS
    for later in (0, 1, VALID_SECONDS, 2 * VALID_SECONDS - 0.1, 2 * VALID_SECONDS):
        assert why(signature=signature, seen=seen, now=NOW + later) == "replayed"
    assert why(signature=signature, seen=seen, now=NOW + 2 * VALID_SECONDS + 0.1) == "expired"


def test_another_attempt_or_request_is_no_replay() -> None:
    seen = Seen()
    for request_id, attempt in (("a", 1), ("a", 2), ("b", 1), ("a1", 1)):
        given = GOOD | {"request_id": request_id}
        signature = sign_hints(**given, key=KEY, now=NOW, attempt=attempt)
        assert verified(**given, signature=signature, seen=seen) == HINTS
        assert why(**given, signature=signature, seen=seen) == "replayed"


def test_what_is_not_believed_is_not_kept() -> None:
    """Else whoever guesses a request id could spoil it."""
    seen = Seen(limit=1)
    for changed in ({"body": b""}, {"now": NOW + 61}, {"signature": ""}, {"keys": [OLD]}):
        why(**changed, seen=seen)
    assert verified(seen=seen) == HINTS


def test_memory_is_bounded_and_freed_again() -> None:
    seen = Seen(limit=100)
    for number in range(100):
        seen.add(str(number), 1, NOW)
    for number in (100, 101):
        with pytest.raises(HintsError) as caught:
            seen.add(str(number), 1, NOW + 120)
        assert caught.value.code == "too_many"
    with pytest.raises(HintsError) as caught:
        seen.add("0", 1, NOW + 120)
    assert caught.value.code == "replayed"
    for number in range(1000):  # each second one is forgotten: what is kept never exceeds the limit
        seen.add(str(number), 1, NOW + 121 + number * 2)
    assert len(seen._until) <= 61


def test_of_many_threads_one_is_first() -> None:
    seen, first = Seen(), []
    start = threading.Barrier(8)

    def add() -> None:
        start.wait()
        for number in range(500):
            try:
                seen.add(str(number), 1, NOW)
            except HintsError:
                continue
            first.append(number)

    threads = [threading.Thread(target=add) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(first) == list(range(500))


# --- anything at all -----------------------------------------------------------------------------------

ANYTHING = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["a\r\nx-evil: 1", "\x00", "年假", '"', "\ud800", "x" * 65_536, "字" * 30_000]
)
SPOILT = st.tuples(st.integers(0, 200), st.text(st.characters(), max_size=2))


def test_any_hints_are_signed_in_one_line_and_come_back(hold: Hold) -> None:
    def rule(given: tuple[Hints, bytes, int]) -> None:
        hints, body, attempt = given
        header = format_hints(hints)
        signature = sign_hints(header, "req_1", body, KEY, NOW, attempt)
        assert re.fullmatch("[!-~]{1,200}", signature)
        assert verify_hints(header, signature, "req_1", body, [KEY], Seen(), NOW) == parse_hints(header)

    hints = st.builds(
        Hints,
        topic=st.none() | ANYTHING,
        reason=st.none() | ANYTHING,
        tools=st.lists(ANYTHING, max_size=3).map(tuple),
        tier=st.none() | ANYTHING,
    )
    hold(rule, st.tuples(hints, st.binary(max_size=50), st.integers(1, 9999)), 200)


def test_anything_else_is_refused_with_a_reason(hold: Hold) -> None:
    def rule(given: tuple[str, str, str, bytes, tuple[int, str]]) -> None:
        hints, signature, request_id, body, (place, junk) = given
        good = sign_hints(**GOOD, key=KEY, now=NOW)
        spoilt = good[:place] + junk + good[place + 1 :]
        for changed in (
            {"signature": signature},
            {"signature": spoilt},
            {"hints": hints},
            {"request_id": request_id},
            {"body": body},
            {"hints": hints, "signature": spoilt, "request_id": request_id, "body": body},
        ):
            if changed in ({"signature": good}, {"body": GOOD["body"]}, {"request_id": "req_1"}):
                continue
            assert why(**changed) in ("unsigned", "malformed", "unknown_key", "altered")

    hold(rule, st.tuples(ANYTHING, ANYTHING, ANYTHING, st.binary(max_size=9), SPOILT), 200)


def test_any_keys_are_read_or_refused_without_being_told(hold: Hold) -> None:
    def rule(text: str) -> None:
        told = ""
        try:
            assert all(len(key.secret) >= 32 for key in parse_keys(text))
        except ValueError as error:
            told = str(error)
        assert "s3cr3t" not in told

    pieces = st.sampled_from(["a", "b", ":", ",", " ", "s3cr3t" * 6, "s3cr3t", "\n", "é", "=", "\x00"])
    hold(rule, st.lists(pieces, max_size=9).map("".join), 300)
