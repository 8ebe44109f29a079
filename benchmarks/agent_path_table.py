"""The results of agent_path.py as Markdown tables.

python benchmarks/agent_path_table.py benchmarks/results/agent_path.json
"""

import argparse
import json
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    print(table(json.loads(parser.parse_args().result.read_text("utf-8"))))


def table(found):
    return json.dumps({**found,"draw":[]},ensure_ascii=False,indent=1)

if __name__ == "__main__":
    main()
