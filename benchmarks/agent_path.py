"""The whole path: users, network, Frontdesk, agent, tools and a scripted LLM, in five set-ups in one run.

    python benchmarks/agent_path.py -o benchmarks/results/agent_path.json
    python benchmarks/agent_path.py --turns 40 --block 40 --only straight,tools

Real processes on real sockets, with relays between them that take the time of a network. The same turns
come at the same Poisson times to every set-up, in blocks by turns (A B C D E A B …). The LLM is scripted:
its plans are the labels, so what goes straight to the agent is never wrong, by construction.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import date
from itertools import accumulate
from pathlib import Path
from typing import Any

from agent_path_client import Heard, ask, block, lag_of_the_loop, open_client
from agent_path_draw import Turn, draw
from agent_path_judged import Run
from agent_path_machine import Machine
from agent_path_report import report
from agent_path_setups import SETUPS, Running, json_lines, running
from agent_path_table import table

from edge.bundle import load_bundle
from export.progress import Progress


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=Path("models/demo"))
    parser.add_argument("--desk", type=Path, default=Path("examples/desk"))
    parser.add_argument("--turns", type=int, default=420, help="for each set-up")
    parser.add_argument("--rate", type=float, default=4.0, help="turns a second, while a block comes in")
    parser.add_argument("--block", type=int, default=70, help="turns, then the next set-up's block")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(SETUPS), help=f"of {', '.join(SETUPS)}")
    parser.add_argument("--logs", type=Path, help="a new folder to keep the processes' logs in")
    parser.add_argument("-o", "--out", type=Path)
    args = parser.parse_args(argv)
    names = args.only.split(",")
    if unknown := set(names) - set(SETUPS):
        parser.error(f"there is no set-up {min(unknown)}; there are {', '.join(SETUPS)}")
    if args.turns < 20:
        parser.error("shares of fewer than 20 turns say nothing")
    bundle = load_bundle(args.bundle)
    turns = draw(args.turns, args.seed, args.desk, bundle, date.today())
    with tempfile.TemporaryDirectory() as folder:
        if args.logs:
            args.logs.mkdir(parents=True)
        run = measure(names, args, turns, args.logs or Path(folder))
    found = {
        "bundle": f"{bundle.name}@{bundle.version}",
        "cpus": os.cpu_count(),
        "seed": args.seed,
        "rate": args.rate,
        "block": args.block,
        **report(run),
    }
    print(table(found))
    for name, one in found["setups"].items():
        for what, (left, right) in one["accounts"].items():
            if left != right:
                print(f"{name}: {what}: {left} and {right}", file=sys.stderr)
    if args.out:
        args.out.write_text(written(found), "utf-8")


def measure(names: Sequence[str], args: argparse.Namespace, turns: Sequence[Turn], folder: Path) -> Run:
    with running(names, args.bundle, turns, folder) as (setups, told, network):
        heard, machine = asyncio.run(_all_blocks(setups, turns, args, network))
        logs = {setup.name: {role: setup.lines(role) for role in setup.logs} for setup in setups}
    return Run(turns, heard, logs, json_lines(told), machine)  # once the legs have ended


async def _all_blocks(
    setups: Sequence[Running], turns: Sequence[Turn], args: argparse.Namespace, network: int
) -> tuple[dict[str, list[Heard]], Machine]:
    machine = Machine({"network": network, "users": os.getpid()})
    heard: dict[str, list[Heard]] = defaultdict(list)
    rng = random.Random(args.seed)
    progress = Progress("turns", len(turns) * len(setups))
    async with AsyncExitStack() as stack:
        clients = {setup.name: await stack.enter_async_context(open_client()) for setup in setups}
        for setup in setups:
            await _warm(setup, clients[setup.name])
        for start in range(0, len(turns), args.block):
            numbered = list(enumerate(turns))[start : start + args.block]
            arrivals = list(accumulate(rng.expovariate(args.rate) for _ in numbered))
            for setup in setups:
                with lag_of_the_loop() as lag, machine.watching(setup.name, setup.pids, lag):
                    client = clients[setup.name]
                    heard[setup.name] += await block(client, setup, numbered, arrivals, progress.add)
    progress.end()
    return heard, machine


async def _warm(setup: Running, client: Any) -> None:  # noqa: ANN401 - httpx2's
    """Code is loaded, connections are open, and the prompt that all turns share was read once."""
    turns = [Turn(text, "agent", "", "en", (), user="ana") for text in ("hello there", "good morning")]
    await asyncio.gather(*(ask(client, setup, turn, f"warm-{n}") for n, turn in enumerate(turns)))


def written(found: dict[str, Any]) -> str:
    """JSON with a line for each drawn turn, so that a diff can be read."""
    draw_lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in found["draw"])
    head = json.dumps({**found, "draw": []}, indent=1, ensure_ascii=False)
    return head.replace('"draw": []', f'"draw": [\n{draw_lines}\n ]') + "\n"


if __name__ == "__main__":
    main()
