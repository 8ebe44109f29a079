"""The results of router.py as Markdown tables.

python benchmarks/router_table.py benchmarks/results/router_train.json
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    for path in parser.parse_args().results:
        result = json.loads(path.read_text("utf-8"))
        print("\n".join([f"{path.name}, by `{result['how']}`:", "", *table(result["sets"])]), "\n")
        for name, figures in result["sets"].items():
            if "peers" in figures:
                print("\n".join([f"{name}, beside others:", "", *peers(figures["peers"])]), "\n")


def table(sets: dict[str, Any]) -> Iterator[str]:
    yield (
        "| set | in scope: as shipped / all layers | oos AUROC: confidence / softmax "
        "| oos recall, 95 % kept | leave after 0 / 2 / 4 layers, % | time, all layers = 1 | bundle MB |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, figures in sets.items():
        shipped, whole = figures["as_shipped"], figures["all_layers"]
        confidence, softmax = shipped["confidence"], shipped["max_softmax"]
        auroc = f"{confidence['oos_auroc']} / {softmax['oos_auroc']}" if "oos_auroc" in confidence else "–"
        leave = " / ".join(f"{shipped['exits'].get(e, {'share': 0})['share']:.0f}" for e in ("0", "2", "4"))
        yield (
            f"| {name} | {shipped['in_scope_accuracy']} / {whole['in_scope_accuracy']} | {auroc} "
            f"| {confidence.get('oos_recall_keeping_95', '–')} | {leave} "
            f"| {figures['exits']['time_ratio']} | {figures['bundle_mb']} |"
        )


def peers(found: dict[str, Any]) -> Iterator[str]:
    yield "| router | in scope | oos AUROC | oos recall, 95 % kept | MB | time p50 / mean, ours = 1 |"
    yield "|---|---|---|---|---|---|"
    for name, row in found.items():
        if name != "missing":
            yield (
                f"| {name} | {row['in_scope_accuracy']} | {row.get('oos_auroc', '–')} "
                f"| {row.get('oos_recall_keeping_95', '–')} | {row['model_mb']} "
                f"| {row['p50_ratio']} / {row['mean_ratio']} |"
            )


if __name__ == "__main__":
    main()
