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
    planning_ms: float = 280.0
    plans: str | None = None
    tools: str | None = None
    identity_header: str | None = None
    frontdesk_url: str | None = None
    strong_confidence: float = 0.8
    max_steps: int = 3
    plan_timeout_ms: float = 10_000.0
    tool_result_tokens: int = 800
    fold_over_tokens: float = 6000.0
    demo_tools_key: str | None = field(default=None, repr=False)
    tool_delays_ms: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse at start what would otherwise fail at the first request."""
        for name, url in (("BASE_URL", self.base_url), ("FRONTDESK_URL", self.frontdesk_url)):
            if url is not None and not url.startswith(("http://", "https://")):
                raise ValueError(f"{name} must start with http:// or https://, got {url!r}")
        waits = {
            f"SCRIPTED_{name.upper()}": getattr(self, name)
            for name in ("prefill_ms_per_token", "first_token_ms", "planning_ms")
        }
        waits |= {f"TOOL_DELAYS_MS of {tool}": ms for tool, ms in self.tool_delays_ms.items()}
        for name, value in waits.items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a number of at least 0, got {value}")
        if not self.tokens_per_second > 0:
            raise ValueError(f"SCRIPTED_TOKENS_PER_SECOND must be above 0, got {self.tokens_per_second}")
        if not 0 <= self.strong_confidence <= 1:
            raise ValueError(f"AGENT_STRONG_CONFIDENCE must be from 0 to 1, got {self.strong_confidence}")
        for name in ("max_steps", "plan_timeout_ms", "tool_result_tokens", "fold_over_tokens"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"AGENT_{name.upper()} must be at least 1, got {getattr(self, name)}")

    @classmethod
    def from_env(cls, env: Mapping[str, str], flags: Mapping[str, float | None] | None = None) -> "Settings":
        """Flag over environment over default; an empty variable counts as not set."""
        flags = flags or {}

        def number(name: str, default: float) -> float:
            flag = flags.get(name)
            if flag is not None:
                return flag
            return _number(name.upper(), env.get(name.upper(), ""), default)

        def whole(name: str, default: int) -> int:
            text = env.get(name.upper(), "")
            if text and not text.isdecimal():
                raise ValueError(f"{name.upper()} must be a whole number, got {text!r}")
            return int(text) if text else default

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
            planning_ms=number("scripted_planning_ms", 280.0),
            plans=env.get("SCRIPTED_PLANS") or None,
            tools=env.get("AGENT_TOOLS") or None,
            identity_header=env.get("IDENTITY_HEADER") or None,
            frontdesk_url=env.get("FRONTDESK_URL", "").rstrip("/").removesuffix("/v1") or None,
            strong_confidence=number("agent_strong_confidence", 0.8),
            max_steps=whole("agent_max_steps", 3),
            plan_timeout_ms=number("agent_plan_timeout_ms", 10_000.0),
            tool_result_tokens=whole("agent_tool_result_tokens", 800),
            fold_over_tokens=number("agent_fold_over_tokens", 6000.0),
            demo_tools_key=env.get("DEMO_TOOLS_KEY") or None,
            tool_delays_ms=_delays(env.get("TOOL_DELAYS_MS", "")),
        )


def _number(name: str, text: str, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None


def _delays(text: str) -> dict[str, float]:
    """``get_order=300,*=100``; ``*`` is for tools that are not named."""
    delays = {}
    for part in filter(None, map(str.strip, text.split(","))):
        tool, equals, ms = part.partition("=")
        if not equals:
            raise ValueError(f"TOOL_DELAYS_MS must be like get_order=300,*=100, got {part!r}")
        delays[tool] = _number("TOOL_DELAYS_MS", ms, 0.0)
    return delays


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
    parser.add_argument("--scripted-planning-ms", type=float, metavar="MS")
    return parser.parse_args(argv)
