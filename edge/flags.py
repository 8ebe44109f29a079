"""The commands and their flags; a wrong one is told with what would be accepted."""

import argparse
from importlib.metadata import version
from pathlib import Path

DEFAULT_BUNDLE = Path("models/demo")
DEFAULT_BASE = Path("models/base")
DEMO_NAME, DEMO_QUESTIONS = "demo", Path("examples/desk/eval/test.jsonl")


def parser() -> argparse.ArgumentParser:
    """The parser of every command; ``command`` is the name of the one that was asked for."""
    top = argparse.ArgumentParser(
        prog="frontdesk", description="An edge pre-processor in front of an LLM agent."
    )
    top.add_argument("--version", action="version", version=f"frontdesk {version('frontdesk')}")
    commands = top.add_subparsers(required=True, metavar="COMMAND", dest="command")

    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON document on stdout")

    server = argparse.ArgumentParser(add_help=False)
    server.add_argument("--config", type=Path, metavar="FILE", help="default: frontdesk.toml if it exists")
    server.add_argument("--bundle", type=Path, metavar="DIR", help="default: models/demo")
    server.add_argument("--host", help="default: 127.0.0.1")
    server.add_argument("--port", help="default: 8080")
    server.add_argument("--answering", metavar="off|observe|on|SHARE", help="default: on")

    commands.add_parser("serve", parents=[common, server], help="serve a bundle in front of an agent")

    dev = commands.add_parser(
        "dev", parents=[common, server], help="serve a bundle on this machine, with an agent beside it"
    )
    dev.add_argument(
        "--agent",
        type=Path,
        metavar="FILE",
        help="a Python file that serves an agent; it gets --port and --host",
    )

    ask = commands.add_parser("ask", parents=[common], help="print the decision on one text")
    ask.add_argument("text", help="what a user would type; - reads standard input")
    ask.add_argument(
        "--bundle", type=Path, default=DEFAULT_BUNDLE, metavar="DIR", help="default: models/demo"
    )

    check = commands.add_parser("check", parents=[common], help="find what is wrong or weak in a desk")
    check.add_argument("desk", type=Path, metavar="DESK")
    check.add_argument("--base", type=Path, default=DEFAULT_BASE, metavar="DIR", help="default: models/base")
    check.add_argument(
        "--questions",
        type=Path,
        metavar="FILE",
        help="what users asked, a line each: what does no topic cover?",
    )
    check.add_argument("--no-model", action="store_true", help="only what needs no base student")

    bring = commands.add_parser(
        "import", parents=[common], help="make a desk from Rasa YAML, a CSV, JSON lines or CLINC's JSON"
    )
    bring.add_argument("file", type=Path, metavar="FILE")
    bring.add_argument("-o", "--out", type=Path, required=True, metavar="DESK", help="a new or empty folder")
    bring.add_argument(
        "--format",
        choices=("auto", "rasa", "csv", "jsonl", "clinc"),
        default="auto",
        help="default: auto, by the file's name and beginning",
    )
    bring.add_argument("--answers", type=Path, metavar="FILE", help="Rasa's domain.yml with the responses")
    bring.add_argument("--encoding", type=encoding, metavar="NAME", help="default: utf-8; GBK is gb18030")
    bring.add_argument("--lang", choices=("zh", "en"), help="the desk's only language; default: as found")
    bring.add_argument("--name", help="default: the file's")
    bring.add_argument(
        "--eval-share",
        type=eval_share,
        default=0.2,
        metavar="SHARE",
        help="of a topic's examples, held out where the file has no splits; default: 0.2",
    )

    train = commands.add_parser("train", parents=[common], help="build a bundle from a desk, without torch")
    train.add_argument("desk", type=Path, metavar="DESK")
    train.add_argument("-o", "--out", type=Path, required=True, metavar="DIR")
    train.add_argument("--base", type=Path, default=DEFAULT_BASE, metavar="DIR", help="default: models/base")
    train.add_argument("--seed", type=seed, default=0)

    key = commands.add_parser("key", parents=[common], help="make an API key for auth = keys")
    key.add_argument("id", help="a name for the key, such as the application that will use it")
    key.add_argument("--tenant", default="", help="whose key it is; it goes into the log")

    observe = commands.add_parser(
        "observe", parents=[common], help="print from a log what would have been answered, and why not"
    )
    observe.add_argument("log", type=Path, metavar="LOG", help="the server's JSON log; - is stdin")

    worker = commands.add_parser("worker", help="serve a bundle in an isolate, on Cloudflare Workers")
    build = worker.add_subparsers(required=True, metavar="COMMAND", dest="step").add_parser(
        "build", parents=[common], help="write the folder from which wrangler deploys"
    )
    build.add_argument("bundle", type=Path, metavar="BUNDLE")
    build.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="a new or empty folder")

    distill = commands.add_parser(
        "distill", parents=[common], help="build a bundle whose student is tuned on the desk, with torch"
    )
    distill.add_argument("desk", type=Path, metavar="DESK")
    distill.add_argument("-o", "--out", type=Path, required=True, metavar="DIR")
    distill.add_argument(
        "--base", type=Path, default=DEFAULT_BASE, metavar="DIR", help="default: models/base"
    )
    distill.add_argument(
        "--teacher", type=Path, metavar="DIR", help="a Hugging Face or ONNX encoder's folder"
    )
    distill.add_argument("--epochs", type=epochs, default=10)
    distill.add_argument(
        "--llm",
        type=Path,
        metavar="TRAFFIC",
        help="unlabelled texts, JSON lines or plain ones, that an LLM labels: further examples to train on",
    )
    distill.add_argument("--llm-url", metavar="URL", help="default: BASE_URL; the key is API_KEY")
    distill.add_argument("--llm-model", metavar="NAME", help="default: MODEL_NAME")
    distill.add_argument(
        "--llm-price",
        type=price,
        metavar="IN,OUT",
        help="of a million prompt and completion tokens; the cost is then told",
    )
    distill.add_argument("--seed", type=seed, default=0)

    evaluate = commands.add_parser("eval", parents=[common], help="judge held-out questions with a bundle")
    evaluate.add_argument("bundle", type=Path, nargs="?", default=DEFAULT_BUNDLE, metavar="BUNDLE")
    evaluate.add_argument(
        "--questions",
        type=Path,
        metavar="FILE",
        help="DESK/eval/test.jsonl; the demo bundle's own by default",
    )
    evaluate.add_argument("--report", type=Path, metavar="HTML", help="write a page for people, too")
    return top


def epochs(text: str) -> int:
    """A whole number from 1 to 1000."""
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1000):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 1000, got {text!r}")
    return int(text)


def seed(text: str) -> int:
    """A whole number of 32 bits."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) < 2**32):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {2**32 - 1}, got {text!r}")
    return int(text)


def encoding(text: str) -> str:
    """The name of an encoding."""
    try:
        bytes(4).decode(text)  # of no bytes at all, any name would do
    except (LookupError, ValueError) as exc:
        raise argparse.ArgumentTypeError(
            f"there is no encoding {text!r}; try utf-8, gb18030, utf-16"
        ) from exc
    return text


def eval_share(text: str) -> float:
    """A share that leaves examples to train on."""
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 0.9:
        raise argparse.ArgumentTypeError(f"expected a share from 0 to 0.9, got {text!r}")
    return share


def price(text: str) -> tuple[float, float]:
    """Money for a million prompt tokens and for a million completion tokens, as in 0.15,0.6."""
    try:
        prompt, completion = map(float, text.split(","))
    except ValueError:
        prompt = completion = -1.0
    if not (0 <= prompt < 1e6 and 0 <= completion < 1e6):
        raise argparse.ArgumentTypeError(
            f"expected the prices of a million prompt and completion tokens, such as 0.15,0.6, got {text!r}"
        )
    return prompt, completion
