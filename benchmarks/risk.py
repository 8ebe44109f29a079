"""Whether the stated wrong-answer rate is kept: where the risk is known, on public sets, on foreign traffic.

    python benchmarks/risk.py --part simulation -o FILE.json
    python benchmarks/risk.py --part sets --data DIR --work DIR -o FILE.json
    python benchmarks/risk.py --part must_forward --data DIR --bundle models/demo -o FILE.json

Without ``--part`` all three run. Each part replaces its own section of the result. ``--work`` keeps bundles,
judged questions and the peers' environment, so that a second run only draws the splits anew.
"""

import argparse
import json
import os
from pathlib import Path

PARTS = ("simulation", "sets", "must_forward")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--data", type=Path, help="the folder of public sets")
    parser.add_argument("--work", type=Path, help="a folder for what is made on the way")
    parser.add_argument("--sets", help="names of risk_sets.SOURCES, with commas; default: all")
    parser.add_argument("--base", type=Path, default=Path("models/base"))
    parser.add_argument("--bundle", type=Path, default=Path("models/demo"))
    parser.add_argument("--repetitions", type=int, default=2000, help="of the simulation, for each setting")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes of the simulation")
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()
    parts = args.part or PARTS
    if args.data is None and set(parts) - {"simulation"}:
        parser.error("--data is missing")
    if args.work is None and "sets" in parts:
        parser.error("--work is missing")

    if "simulation" in parts:
        from risk_simulation import simulate

        write(args.out, "simulation", simulate(args.repetitions, args.workers))
    if "sets" in parts:
        from risk_sets import SOURCES, measure

        for name in args.sets.split(",") if args.sets else SOURCES:
            write(args.out, "sets", {name: measure(name, args.data, args.base, args.work)}, add=True)
    if "must_forward" in parts:
        from risk_forward import must_forward

        write(args.out, "must_forward", must_forward(args.data, args.bundle))


def write(out: Path, part: str, found: dict[str, object], add: bool = False) -> None:
    """Put a part into the result file; ``add``: to what it has there."""
    result = json.loads(out.read_text("utf-8")) if out.exists() else {}
    kept = result.get(part, {}) if add else {}
    result = {name: result[name] for name in PARTS if name in result} | {part: kept | found}
    out.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
