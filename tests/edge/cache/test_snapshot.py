"""The cache in a file: whole or not at all, of this bundle and data alone, and without what was forgotten."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from entries import NOON, SetClock, entry_of

from edge.cache.memory import Memory
from edge.cache.snapshot import Snapshot, read_snapshot

HERE = {"bundle": "demo@1", "data_version": ""}


def memory_of(*questions: str, clock: SetClock | None = None, **fields: Any) -> Memory:
    memory = Memory(100, 10_000_000, (clock or SetClock()).clock)
    for question in questions:
        memory.put(entry_of(question, **fields))
    return memory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.jsonl"


def saved(path: Path, *questions: str, **fields: Any) -> Path:
    memory = memory_of(**fields)
    snapshot = Snapshot(path, memory)
    for question in questions:
        memory.put(entry_of(question, **fields))
    asyncio.run(snapshot.save())
    return path


def loaded(path: Path, memory: Memory | None = None, stamp: str = "", **where: str) -> list[str]:
    memory = memory_of() if memory is None else memory
    count = asyncio.run(Snapshot(path, memory).load(**{**HERE, **where}, stamp=stamp))
    questions = sorted(entry.question for entry in memory.entries())
    assert count <= len(questions)
    return questions


def test_what_was_saved_is_there_after_a_restart(path: Path) -> None:
    saved(path, "one", "二", "line\u2028separator\nand break")
    memory = memory_of()
    assert loaded(path, memory) == ["line\u2028separator\nand break", "one", "二"]
    [found] = [entry for entry in memory.entries() if entry.question == "one"]
    assert found == entry_of("one")
    assert memory.nearest("s", entry_of().vector, 4)[0][0] == 1.0  # type: ignore[arg-type]


def test_it_is_for_its_owner_alone_and_leaves_nothing_beside_it(path: Path) -> None:
    saved(path, "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_nothing_is_written_where_nothing_has_changed(path: Path) -> None:
    memory = memory_of()
    snapshot = Snapshot(path, memory)
    asyncio.run(snapshot.save())
    assert not path.exists()
    memory.put(entry_of())
    asyncio.run(snapshot.save())
    written = path.stat().st_mtime_ns
    asyncio.run(snapshot.save())
    assert path.stat().st_mtime_ns == written


def test_what_ended_meanwhile_is_not_taken_in(path: Path) -> None:
    clock = SetClock()
    saved(path, "live", expires=NOON + 60)
    clock.pass_(59)
    assert loaded(path, memory_of(clock=clock)) == ["live"]
    clock.pass_(1)
    assert loaded(path, memory_of(clock=clock)) == []


def test_a_clock_that_was_put_back_prolongs_nothing(path: Path) -> None:
    saved(path, "live", expires=NOON + 60)
    clock = SetClock()
    clock.wall -= 3600
    assert loaded(path, memory_of(clock=clock)) == []


def test_another_bundles_and_another_datas_answers_stay_out(path: Path) -> None:
    saved(path, "one")
    assert loaded(path, bundle="demo@2") == []
    assert loaded(path, data_version="v2") == []
    assert loaded(path) == ["one"]


def test_what_was_stored_since_the_start_is_newer(path: Path) -> None:
    saved(path, "one", text="old")
    memory = memory_of("one", text="new")
    loaded(path, memory)
    assert [entry.text for entry in memory.entries()] == ["new"]


def test_a_file_from_before_a_purge_is_not_taken_in(path: Path) -> None:
    memory = memory_of("one")
    snapshot = Snapshot(path, memory)
    memory.put(entry_of("two"))
    asyncio.run(snapshot.save("7"))
    assert loaded(path, stamp="8") == []
    assert loaded(path, stamp="") == []
    assert loaded(path, stamp="7") == ["one", "two"]


def test_forgetting_removes_the_file_at_once(path: Path) -> None:
    memory = memory_of()
    snapshot = Snapshot(path, memory)
    memory.put(entry_of("secret"))
    asyncio.run(snapshot.save())
    snapshot.forget()
    assert not path.exists()
    snapshot.forget()  # there need not be one
    asyncio.run(snapshot.save())  # what is left is written again
    assert loaded(path) == ["secret"]


def test_a_file_that_was_being_written_while_something_was_forgotten_is_not_put_there(path: Path) -> None:
    memory = memory_of()
    snapshot = Snapshot(path, memory)
    for i in range(50):
        memory.put(entry_of(f"question {i}"))

    async def forget_meanwhile() -> None:
        saving = asyncio.create_task(snapshot.save())
        await asyncio.sleep(0)  # the entries are copied, the thread writes
        memory.drop(entry_of("question 7").id)
        snapshot.forget()
        await saving

    asyncio.run(forget_meanwhile())
    assert list(path.parent.iterdir()) == []
    asyncio.run(snapshot.save())
    assert len(loaded(path)) == 49


def damaged(whole: bytes) -> dict[str, bytes]:
    head, _, body = whole.partition(b"\n")
    told = json.loads(head)
    return {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "without its last byte": whole[:-1],
        "with one byte changed": whole.replace(b"answer", b"answes", 1),
        "with a line more": whole + body,
        "another format": json.dumps({**told, "frontdesk_cache": 2}).encode() + b"\n" + body,
        "no format": b"{}\n" + body,
        "a list": b"[]\n" + body,
        "nested": b"[" * 100_000,
        "binary": bytes(range(256)) * 10,
    }


@pytest.mark.parametrize("kind", damaged(b'{"a": 1}\nanswer').keys())
def test_a_file_that_is_not_whole_is_left_out_with_a_word(
    path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    saved(path, "one", "two")
    path.write_bytes(damaged(path.read_bytes())[kind])
    assert loaded(path) == []
    assert "The cache begins empty" in caplog.text
    assert "answer" not in caplog.text


def test_no_file_is_no_word(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert loaded(path) == []
    assert caplog.text == ""


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = memory_of()
    snapshot = Snapshot(tmp_path / "missing" / "cache.jsonl", memory)
    memory.put(entry_of())
    asyncio.run(snapshot.save())
    assert "cannot be written" in caplog.text


def test_what_a_killed_process_left_is_cleared_away(path: Path) -> None:
    saved(path, "one")
    left = path.parent / f".{path.name}-abc123"
    left.write_text("half")
    assert [entry.question for entry in read_snapshot(path)] == ["one"]
    assert not left.exists()
