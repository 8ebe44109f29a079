"""The results of cache.py as Markdown tables.

python benchmarks/cache_table.py benchmarks/results/cache.json
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WAYS = {
    "cosine": "cosine alone",
    "ours without guard": "ours without the guard",
    "ours": "**ours**",
    "tuned cosine": "cosine alone, tuned on the demo desk",
    "tuned ours": "ours, tuned on the demo desk",
    "e5_small cosine": "cosine, multilingual-e5-small",
    "bge_small cosine": "cosine, bge-small-en",
    "minilm cosine": "cosine, all-MiniLM-L6-v2",
}
SETS = ("bustm", "afqmc", "mqp", "covidq", "written", "all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    found = json.loads(parser.parse_args().result.read_text("utf-8"))
    for table in (sets, pooled, each, hits, classes, by_threshold, streams, bounds, heads):
        print("\n".join(table(found)), "\n")


def sets(found: dict[str, Any]) -> Iterator[str]:
    yield "| set | what it is | tuned on: same / different | reported: same / different |"
    yield "|---|---|---|---|"
    for name, row in found["sets"].items():
        tuned, tested = (" / ".join(f"{n:,}" for n in row[half]) for half in ("tune", "test"))
        yield f"| {name} | {row['about']} | {tuned if any(row['tune']) else '–'} | {tested} |"


def pooled(found: dict[str, Any]) -> Iterator[str]:
    yield "| all sets, each weighing as much | hit at 1 % false hits | 2 % | 5 % |"
    yield "|---|---|---|---|"
    for way, words in WAYS.items():
        if way in found["hit_rates"]["all"]:
            row = found["hit_rates"]["all"][way]
            cells = (interval(row[f"of_different_{rate}"]) for rate in ("0.01", "0.02", "0.05"))
            yield f"| {words} | {' | '.join(cells)} |"


def each(found: dict[str, Any]) -> Iterator[str]:
    yield f"| hit at 1 / 2 / 5 % false hits | {' | '.join(SETS[:-1])} |"
    yield "|---|---|---|---|---|---|"
    for way, words in WAYS.items():
        cells = []
        for name in SETS[:-1]:
            row = found["hit_rates"][name].get(way)
            values = [row[f"of_different_{rate}"][0] for rate in ("0.01", "0.02", "0.05")] if row else []
            cells.append(" / ".join(f"{100 * value:.0f}" for value in values) or "–")
        yield f"| {words} | {' | '.join(cells)} |"


def hits(found: dict[str, Any]) -> Iterator[str]:
    yield f"| hit where 5 % of the hits are false | {' | '.join(SETS)} |"
    yield "|---|---|---|---|---|---|---|"
    for way, words in WAYS.items():
        rows = (found["hit_rates"][name].get(way) for name in SETS)
        cells = (f"{row['of_hits_0.05'][0]:.1%}" if row else "–" for row in rows)
        yield f"| {words} | {' | '.join(cells)} |"


def classes(found: dict[str, Any]) -> Iterator[str]:
    ways = ("cosine", "ours", "tuned cosine", "tuned ours")
    rows = found["classes"]
    heads_ = (f"{WAYS[way]}, above {rows[way]['threshold']:.2f}" for way in ways)
    yield f"| class | pairs | {' | '.join(heads_)} | guard alone |"
    yield "|---|---|---|---|---|---|---|"
    for kind, (_, count) in rows["cosine"]["hits"].items():
        cells = (str(rows[way]["hits"][kind][0]) for way in ways)
        alone = rows["guard alone"].get(kind, ["–"])[0]
        yield f"| {kind} | {count} | {' | '.join(cells)} | {alone} |"


def by_threshold(found: dict[str, Any]) -> Iterator[str]:
    names = list(next(iter(found["by_threshold"].values())))
    yield f"| ours above | {' | '.join(names)} | stackfaq: hit, of these wrong |"
    yield f"|---|{'---|' * (len(names) + 1)}"
    stream = found["streams"]["stackfaq"]["base"]
    for threshold, row in found["by_threshold"].items():
        cells = []
        for name in names:
            same, different = row[name]
            share = f"{same[0] / same[1]:.0%}, " if same[1] else ""
            cells.append(f"{share}{different[0] / different[1]:.1%}")
        hit, wrong = stream["ours"][f"above_{threshold}"]
        yield f"| {threshold} | {' | '.join(cells)} | {hit} of {stream['asked']}, {wrong} |"


def streams(found: dict[str, Any]) -> Iterator[str]:
    yield (
        "| stream | stored / asked | way | hit at 1 / 2 / 5 % wrong hits | threshold for 5 %, from a half "
        "| the other half |"
    )
    yield "|---|---|---|---|---|---|"
    for name, kinds in found["streams"].items():
        for kind, row in kinds.items():
            for way in ("cosine", "ours"):
                of = row[way]
                words = WAYS[way if kind == "base" else f"tuned {way}"]
                rates = " / ".join(f"{of[f'hit_{rate}']:.0%}" for rate in ("0.01", "0.02", "0.05"))
                at = of["threshold_0.05"]
                proof = "proven" if at["proven"] else f"unproven, bound {at['bound']:.0%}"
                count, asked = at["hits"]
                yield (
                    f"| {name} | {row['stored']:,} / {row['asked']:,} | {words} | {rates} "
                    f"| {at['threshold']:.2f}, {proof} | {count} of {asked} hit, {at['wrong']} wrong |"
                )


def bounds(found: dict[str, Any]) -> Iterator[str]:
    yield (
        "| way | threshold | smallest bound, on the tuning halves | hits there, of these false "
        "| on the other halves |"
    )
    yield "|---|---|---|---|---|"
    for way, rows in found["thresholds"].items():
        row = rows["0.05"]
        hit, false = row["tested"]
        proven = ", proven" if row["proven"] else ""
        tuned = f"{row['tuned'][0]}, {row['tuned'][1]}"
        bound = f"{row['threshold']:.2f} | {row['bound']:.1%}{proven}"
        yield f"| {WAYS[way]} | {bound} | {tuned} | {hit}, {false} |"


def heads(found: dict[str, Any]) -> Iterator[str]:
    yield "| trained on | features | bustm | afqmc | mqp | covidq |"
    yield "|---|---|---|---|---|---|"
    for rows, table in found["heads"].items():
        for features, row in table.items():
            yield f"| {rows} | {features} | {' | '.join(f'{100 * value:.1f}' for value in row.values())} |"


def interval(values: list[float]) -> str:
    share, low, high = (100 * value for value in values)
    return f"{share:.1f} % ({low:.0f}–{high:.0f})"


if __name__ == "__main__":
    main()
