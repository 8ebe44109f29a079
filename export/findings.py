"""What ``frontdesk check`` found, as lines to read and as JSON."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from export.check import Finding
from export.desk import ROUTES, Desk

LEVELS = ("error", "warning", "advice")
SHOWN = 10  # of one kind; errors are shown all


def lines(findings: Sequence[Finding]) -> list[str]:
    """Errors first; of each other kind the first ones, and how many more there are."""
    out = []
    for level in LEVELS:
        of_level = [finding for finding in findings if finding.level == level]
        for kind in dict.fromkeys(finding.kind for finding in of_level):
            some = [finding for finding in of_level if finding.kind == kind]
            shown = some if level == "error" else some[:SHOWN]
            for f in shown:
                out += [f"{f.where}: {f.level}: {f.message}", *(f"    {detail}" for detail in f.details)]
            if len(some) > len(shown):
                out.append(f"… and {len(some) - len(shown)} more like the last; --json has all.")
    return out


def summary(desk: Desk, findings: Sequence[Finding]) -> str:
    """The last line: what the desk holds, and how much was found."""
    routes = Counter(topic.route for topic in desk.topics)
    levels = Counter(finding.level for finding in findings)
    return (
        f"{len(desk.topics)} topics ({', '.join(f'{routes[route]} {route}' for route in ROUTES)}), "
        f"{len(desk.calibrate)} calibration and {len(desk.test)} test questions: {levels['error']} errors, "
        f"{levels['warning']} warnings, {levels['advice']} pieces of advice"
    )


def as_dict(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Every finding, in the order of ``findings``."""
    return [
        {
            "level": f.level,
            "kind": f.kind,
            "where": f.where,
            "message": f.message,
            "details": list(f.details),
        }
        for f in findings
    ]
