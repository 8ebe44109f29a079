"""What ``frontdesk check`` prints of its findings."""

from pathlib import Path

from edge.normaliser import Lang
from export.check import Finding
from export.desk import Desk, DeskTopic
from export.findings import SHOWN, as_dict, lines, summary


def findings(level: str, kind: str, count: int) -> list[Finding]:
    return [Finding(level, f"{kind}:{line}", "it.", kind) for line in range(1, count + 1)]


def test_errors_come_first_and_are_shown_all() -> None:
    found = [
        *findings("advice", "gap", 1),
        *findings("warning", "near", 1),
        *findings("error", "leak", SHOWN + 2),
    ]
    shown = lines(found)
    assert shown[0] == "leak:1: error: it."
    assert [line.split(": ")[1] for line in shown] == ["error"] * (SHOWN + 2) + ["warning", "advice"]


def test_of_each_other_kind_the_first_ones_are_shown() -> None:
    shown = lines([*findings("warning", "near", SHOWN + 3), *findings("warning", "thin", SHOWN)])
    assert len(shown) == 2 * SHOWN + 1
    assert shown[SHOWN] == "… and 3 more like the last; --json has all."
    assert shown[-1] == f"thin:{SHOWN}: warning: it."


def test_the_texts_stand_below_the_finding() -> None:
    finding = Finding("advice", "a.yaml:1", "it.", "conflict", ("a.yaml:2: 'x'",))
    assert lines([finding]) == ["a.yaml:1: advice: it.", "    a.yaml:2: 'x'"]
    assert as_dict([finding]) == [
        {
            "level": "advice",
            "kind": "conflict",
            "where": "a.yaml:1",
            "message": "it.",
            "details": ["a.yaml:2: 'x'"],
        }
    ]


def test_the_summary() -> None:
    desk = Desk(Path(), "d", (Lang.EN,), (DeskTopic("a", {}, "agent", {}, {}),))
    assert summary(desk, findings("advice", "gap", 2)) == (
        "1 topics (0 answer, 0 tool, 1 agent), 0 calibration and 0 test questions: "
        "0 errors, 0 warnings, 2 pieces of advice"
    )
