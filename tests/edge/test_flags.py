"""Commands and their flags: what is accepted, and what a wrong value is told."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge.cli import _COMMANDS
from edge.flags import DEFAULT_BASE, DEFAULT_BUNDLE, encoding, epochs, eval_share, parser, price, seed

LEAST = {
    "serve": [],
    "dev": [],
    "ask": ["hi"],
    "check": ["DESK"],
    "import": ["FILE", "-o", "DESK"],
    "train": ["DESK", "-o", "OUT"],
    "key": ["app"],
    "observe": ["-"],
    "worker": ["build", "BUNDLE", "-o", "OUT"],
    "distill": ["DESK", "-o", "OUT"],
    "eval": [],
}


def test_every_command_that_is_offered_is_there() -> None:
    [commands] = [a.choices for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    assert set(commands) == set(_COMMANDS) == set(LEAST)


@pytest.mark.parametrize("command", LEAST)
def test_every_command_takes_its_least_and_json(command: str) -> None:
    args = parser().parse_args([command, *LEAST[command], "--json"])
    assert (args.command, args.json) == (command, True)
    assert getattr(args, "base", DEFAULT_BASE) == DEFAULT_BASE


def test_defaults() -> None:
    assert parser().parse_args(["ask", "hi"]).bundle == DEFAULT_BUNDLE == Path("models/demo")
    assert parser().parse_args(["serve"]).bundle is None  # the file or a variable may name it
    train = parser().parse_args(["train", "d", "-o", "o"])
    assert train.seed == 0
    assert not hasattr(train, "llm")  # an LLM labels for distill alone
    assert parser().parse_args(["distill", "d", "-o", "o"]).epochs == 10


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (seed, "0", 0),
        (seed, "4294967295", 2**32 - 1),
        (epochs, "1000", 1000),
        (eval_share, "0", 0.0),
        (eval_share, "0.9", 0.9),
        (price, "0.15,0.6", (0.15, 0.6)),
        (encoding, "gb18030", "gb18030"),
    ],
)
def test_values(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (seed, "4294967296"), (seed, "-1"), (seed, "１"), (seed, ""),
        (epochs, "0"), (epochs, "1001"), (epochs, "2.5"),
        (eval_share, "0.91"), (eval_share, "nan"), (eval_share, "some"),
        (price, "1"), (price, "1,2,3"), (price, "-1,2"), (price, "nan,1"), (price, "a,b"),
        (encoding, "utf-9"), (encoding, ""), (encoding, "base64"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_what_is_accepted(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected|there is no encoding"):
        read(text)
