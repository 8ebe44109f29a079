"""What the agent is told from outside: which LLM it speaks to, or how fast the scripted one is."""

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from hints import HintsKey, parse_keys


@dataclass(frozen=True, slots=True)
class Settings:
    """A value, not a reader of the environment, so that a test writes one in a single line."""

    base_url: str | None = None
    # Kept out of repr(): settings end up in tracebacks and logs, a key must not.
    api_key: str | None = field(default=None, repr=False)
    model_name: str | None = None
    prefill_ms_per_token: float = 0.2
    first_token_ms: float = 320.0
    tokens_per_second: float = 60.0
    max_body_bytes: int = 8 * 1024 * 1024
    # Shared with Frontdesk. With any, only hints that one of them signed are believed.
    hints_keys: tuple[HintsKey, ...] = ()

    def __post_init__(self) -> None:
        """Refuse at start what would otherwise fail at the first request."""
        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            raise ValueError(f"BASE_URL must start with http:// or https://, got {self.base_url!r}")
        for name in ("prefill_ms_per_token", "first_token_ms"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"SCRIPTED_{name.upper()} must be a number of at least 0, got {value}")
        if not self.tokens_per_second > 0:
            raise ValueError(f"SCRIPTED_TOKENS_PER_SECOND must be above 0, got {self.tokens_per_second}")

    @classmethod
    def from_env(cls, env: Mapping[str, str], flags: Mapping[str, float | None] | None = None) -> "Settings":
        """Flag over environment over default; an empty variable counts as not set."""
        flags = flags or {}

        def number(name: str, default: float) -> float:
            flag = flags.get(name)
            if flag is not None:
                return flag
            text = env.get(name.upper(), "")
            try:
                return float(text) if text else default
            except ValueError:
                raise ValueError(f"{name.upper()} must be a number, got {text!r}") from None

        try:
            hints_keys = parse_keys(keys) if (keys := env.get("FRONTDESK_HINTS_KEYS")) else ()
        except ValueError as error:
            raise ValueError(f"FRONTDESK_HINTS_KEYS cannot be used: {error}") from None
        return cls(
            base_url=env.get("BASE_URL", "").rstrip("/") or None,
            api_key=env.get("API_KEY") or None,
            model_name=env.get("MODEL_NAME") or None,
            prefill_ms_per_token=number("scripted_prefill_ms_per_token", 0.2),
            first_token_ms=number("scripted_first_token_ms", 320.0),
            tokens_per_second=number("scripted_tokens_per_second", 60.0),
            hints_keys=hints_keys,
        )


def parse_flags(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line. API_KEY has no flag on purpose: every user of the machine can read flags."""
    parser = argparse.ArgumentParser(
        prog="agent.py",
        description="Frontdesk's reference central agent. BASE_URL, API_KEY and MODEL_NAME choose "
        "the LLM; without BASE_URL a scripted one answers.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9001)
    parser.add_argument("--scripted-prefill-ms-per-token", type=float, metavar="MS")
    parser.add_argument("--scripted-first-token-ms", type=float, metavar="MS")
    parser.add_argument("--scripted-tokens-per-second", type=float, metavar="N")
    return parser.parse_args(argv)
