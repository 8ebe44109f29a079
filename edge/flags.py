"""What the texts of flags mean; a wrong one is told with what would be accepted."""

import argparse


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
