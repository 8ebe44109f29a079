"""The results of risk.py as Markdown tables.

python benchmarks/risk_table.py benchmarks/results/risk.json
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

METHODS = {
    "shipped": "shipped: pooled bound, up to four sequences",
    "pooled": "pooled bound, one sequence",
    "strata": "a bound for each stratum, combined by the traffic",
    "strata_sum": "the same by sums over the strata",
    "unordered": "pooled bound, looked at everywhere",
    "observed": "observed rate, no bound",
}
# Shapes that allow something to be answered, and something to be wrongly answered.
USEFUL = ("clean", "floor", "steep", "sure_errors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    result = json.loads(parser.parse_args().result.read_text("utf-8"))
    if "simulation" in result:
        found = result["simulation"]
        print("\n".join([*methods(found), "", *shapes(found), "", *edge(found)]), "\n")
    if "sets" in result:
        found = result["sets"]
        print("\n".join([*sets(found), "", *ways(found), "", *same_risk(found)]), "\n")
    if "must_forward" in result:
        print("\n".join(must_forward(result["must_forward"])))


def methods(found: dict[str, Any]) -> Iterator[str]:
    """Every method over all settings."""
    settings = found["settings"]
    yield (
        f"| way to choose the threshold | broken at most | settings above {found['delta']:.0%} for certain "
        "| something proven | answered, of what is possible |"
    )
    yield "|---|---|---|---|---|"
    useful = [row for row in settings if row["shape"] in USEFUL]
    for name, words in METHODS.items():
        rows = [row["methods"][name] for row in settings]
        worst = max(rows, key=lambda row: row["broken"])
        certain = sum(row["interval"][0] > found["delta"] for row in rows)
        low, high = worst["interval"]
        yield (
            f"| {words} | {worst['broken']:.1%} ({low:.1%}–{high:.1%}) | {certain} of {len(rows)} "
            f"| {mean(row['methods'][name]['proven'] for row in useful):.0%} "
            f"| {mean(row['methods'][name]['coverage'] / row['oracle'] for row in useful):.0%} |"
        )


def shapes(found: dict[str, Any]) -> Iterator[str]:
    """Power where strata have fixed sizes."""
    yield (
        "| errors | stated | questions | proven: shipped / pooled / strata "
        "| answered, of what is possible: shipped / pooled / strata "
        "| broken: shipped / unordered / observed |"
    )
    yield "|---|---|---|---|---|---|"
    for row in found["settings"]:
        if row["design"] == "fixed" and row["shape"] in USEFUL and row["questions"] >= 1000:
            of = row["methods"]
            proven = " / ".join(f"{of[name]['proven']:.0%}" for name in ("shipped", "pooled", "strata"))
            answered = " / ".join(
                f"{of[name]['coverage'] / row['oracle']:.0%}" for name in ("shipped", "pooled", "strata")
            )
            broken = " / ".join(f"{of[name]['broken']:.1%}" for name in ("shipped", "unordered", "observed"))
            yield (
                f"| {row['shape']} | {row['max_wrong']:.0%} | {row['questions']:,} | {proven} | {answered} "
                f"| {broken} |"
            )


def edge(found: dict[str, Any]) -> Iterator[str]:
    """Where whatever is proven is broken."""
    yield (
        "| drawn | errors | stated | questions | broken: shipped (95 % interval) | pooled | strata "
        "| unordered | observed |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in found["settings"]:
        if row["shape"] in ("edge", "waves") and row["questions"] >= 1000:
            of = row["methods"]
            low, high = of["shipped"]["interval"]
            rest = " | ".join(
                f"{of[name]['broken']:.1%}" for name in ("pooled", "strata", "unordered", "observed")
            )
            yield (
                f"| {row['design']} | {row['shape']} | {row['max_wrong']:.0%} | {row['questions']:,} "
                f"| {of['shipped']['broken']:.1%} ({low:.1%}–{high:.1%}) | {rest} |"
            )


def sets(found: dict[str, Any]) -> Iterator[str]:
    yield (
        "| set | topics | examples, of a topic | held out: in scope / out of scope | topic right "
        "| not held back by a guard: in scope / out of scope |"
    )
    yield "|---|---|---|---|---|---|"
    for name, row in found.items():
        low, high = row["examples_a_topic"]
        yield (
            f"| {name} | {row['topics']} | {row['examples']:,}, {low}–{high} "
            f"| {row['held']['in_scope']:,} / {row['held']['out_of_scope']:,} | {row['topic_right']:.1%} "
            f"| {row['open']['in_scope']:.1%} / {row['open']['out_of_scope']:.1%} |"
        )


def ways(found: dict[str, Any]) -> Iterator[str]:
    yield (
        "| set, in scope : out of scope | stated | way | answering | wrong, of all answers | above the rate "
        "| rejected | answered: mean (quartiles) | in scope |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, row in found.items():
        for promise in row["promises"]:
            shares = " : ".join(f"{share:.0%}" for share in promise["traffic"].values())
            for way, of in promise["ways"].items():
                if way.endswith("same risk"):
                    continue
                wrong = "–" if of["wrong_rate"] is None else f"{of['wrong_rate']:.2%}"
                low, middle, high = of["quartiles"]
                yield (
                    f"| {name}, {shares} | {promise['max_wrong']:.0%} | {way} | {of['answering']:.1%} "
                    f"| {wrong} | {of['above']:.1%} | {of['rejected']:.1%} "
                    f"| {of['coverage']:.1%} ({low:.1%}, {middle:.1%}, {high:.1%}) "
                    f"| {of['coverage_in_scope']:.1%} |"
                )


def same_risk(found: dict[str, Any]) -> Iterator[str]:
    """What each score can answer where it errs no more often than ours did, over splits that ours answers."""
    yield "| set, in scope : out of scope | stated | ours as calibrated | ours | minilm | bge |"
    yield "|---|---|---|---|---|---|"
    for name, row in found.items():
        for promise in row["promises"]:
            if not promise["ways"]["frontdesk"]["answering"]:
                continue
            shares = " : ".join(f"{share:.0%}" for share in promise["traffic"].values())
            names = (
                "frontdesk",
                *(f"{who}, same risk" for who in ("frontdesk", "nearest_minilm", "nearest_bge")),
            )
            cells = (promise["ways"].get(way, {}).get("coverage_where_answering") for way in names)
            words = " | ".join("–" if cell is None else f"{cell:.1%}" for cell in cells)
            yield f"| {name}, {shares} | {promise['max_wrong']:.0%} | {words} |"


def must_forward(found: dict[str, Any]) -> Iterator[str]:
    yield "| questions | asked | answered | at most (95 %) | of these languages | answered as |"
    yield "|---|---|---|---|---|---|"
    for name, row in found["sets"].items():
        langs = ", ".join(f"{lang} {hit} of {of:,}" for lang, (hit, of) in row["by_language"].items())
        topics = ", ".join(f"{topic} {count}" for topic, count in list(row["answered_topics"].items())[:3])
        yield (
            f"| {name} | {row['asked']:,} | {row['answered']} | {row['upper_bound']:.2%} | {langs} "
            f"| {topics or '–'} |"
        )


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


if __name__ == "__main__":
    main()
