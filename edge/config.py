"""Server settings: flag > environment > frontdesk.toml > default. Policy is not here but in the bundle."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

from edge import accept
from edge.errors import ConfigError
from edge.hints import HintsKey, parse_keys
from edge.toml import read_toml

CONFIG_FILE = "frontdesk.toml"
MIN_TOOL_TOKENS = 100
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
SECRET_NAME = re.compile("[A-Z][A-Z0-9_]{0,63}")
_SECRET_VARIABLE = "FRONTDESK_SECRET_"  # noqa: S105 - a prefix of names
_USER_INFO = re.compile("//[^/]*@")


@dataclass(frozen=True, slots=True)
class Answering:
    """The grey release of answering itself: ``off``, ``observe``, or a share of users in [0, 1]."""

    mode: str = "on"
    share: float = 1.0

    @classmethod
    def of(cls, value: object) -> "Answering":
        """From ``off``, ``observe``, ``on`` or a number in [0, 1]. Raises ValueError."""
        if value in ("off", "observe", "on"):
            return cls(mode=str(value), share=1.0 if value == "on" else 0.0)
        try:
            share = float(accept.plain(value))
        except (TypeError, ValueError, OverflowError):
            share = -1.0
        if isinstance(value, bool) or not 0 <= share <= 1:
            raise ValueError("expected off, observe, on or a share between 0 and 1")
        return cls(share=share)


@dataclass(frozen=True, slots=True)
class Upstream:
    """The central agent. ``api_key`` replaces the client's; times are in seconds."""

    base_url: str = ""
    api_key: str = field(default="", repr=False)
    connect_timeout: float = 5.0
    first_byte_timeout: float = 600.0
    idle_timeout: float = 60.0
    max_connections: int = 512


@dataclass(frozen=True, slots=True)
class Context:
    """How long a forwarded conversation may be, in estimated tokens; 0 is off.

    Over ``max_tokens`` it is pruned to ``target_tokens`` (0: half of it). A text of a tool's message over
    ``max_tool_tokens`` is cut to its head and tail.
    """

    max_tokens: int = 0
    target_tokens: int = 0
    max_tool_tokens: int = 0

    @property
    def on(self) -> bool:
        """Whether anything is ever made shorter."""
        return bool(self.max_tokens or self.max_tool_tokens)


@dataclass(frozen=True, slots=True)
class Key:
    """An API key of ours, known by its SHA-256 alone. ``valid_until``: the last day (UTC) that it works."""

    id: str
    sha256: str
    tenant: str = ""
    valid_until: date | None = None


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """``base_url``: where tools are whose url is a path. ``secrets``: those that tools declare, by name."""

    base_url: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that ``frontdesk serve`` needs.

    ``auth``: who tells callers apart. ``passthrough``: the agent, by the client's own credential;
    ``keys``: we, by our own keys; ``proxy``: a proxy in front, by ``identity_header``. That header, and
    ``tenant_header``, are believed only from ``trusted_proxies``. ``auth_check_url``: asked about a
    client's credential before a desk that is not public answers; remembered for ``auth_check_s``
    seconds. ``budget_ms``: time to the first byte unless the request says otherwise. ``models``: names
    of models that clients send, mapped to the upstream's names. ``hints_keys``: the first signs hints;
    without any they go unsigned.
    """

    bundle: Path = Path("models/demo")
    host: str = "127.0.0.1"
    port: int = 8080
    upstream: Upstream = Upstream()
    answering: Answering = Answering()
    max_body_bytes: int = 1_000_000
    budget_ms: int = 2000
    auth: str = "passthrough"
    keys: tuple[Key, ...] = ()
    identity_header: str = ""
    tenant_header: str = ""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = _LOOPBACK
    auth_check_url: str = ""
    auth_check_s: float = 60.0
    models: Mapping[str, str] = field(default_factory=dict)
    context: Context = Context()
    hints_keys: tuple[HintsKey, ...] = ()
    tools: ToolSettings = ToolSettings()
    log: str = "json"


def load_settings(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """The settings of this process. Raises ConfigError, which names the file or variable and the fix."""
    environ = os.environ if environ is None else environ
    settings = _from_file(file)
    settings = _from_environ(settings, environ)
    for name, value in (flags or {}).items():
        if value is not None:
            settings = _set(settings, name, value, f"the flag --{name.replace('_', '-')}")
    _check_together(settings)
    return settings


def load_llm(
    url: str | None = None, model: str | None = None, environ: Mapping[str, str] | None = None
) -> tuple[Upstream, str]:
    """An LLM's address and key, and its model: two flags, then BASE_URL, API_KEY and MODEL_NAME.

    Nothing else is read: the upstream of frontdesk.toml is the agent. Raises ConfigError.
    """
    environ = os.environ if environ is None else environ
    names = ("API_KEY", "MODEL_NAME") if url else ("BASE_URL", "API_KEY", "MODEL_NAME")
    settings = _from_environ(Settings(), {name: environ.get(name, "") for name in names})
    if url:
        settings = _set(settings, "upstream_base_url", url, "the flag --llm-url")
    if not settings.upstream.base_url:
        raise ConfigError("--llm needs an LLM: give --llm-url https://host/v1, or set BASE_URL.")
    model = model or settings.models.get("frontdesk", "")
    if not model:
        raise ConfigError("--llm needs a model: give --llm-model NAME, or set MODEL_NAME.")
    return settings.upstream, model


def _check_together(settings: Settings) -> None:
    """Raise ConfigError for settings that are right alone and wrong together."""
    if settings.auth == "keys" and not settings.keys:
        raise ConfigError(
            "auth is keys, and there is no key: make one with `frontdesk key NAME` and put what it prints "
            f"into {CONFIG_FILE}."
        )
    if settings.keys and settings.auth != "keys":
        raise ConfigError(f'There are keys, and auth is {settings.auth}: set auth = "keys" or remove them.')
    if settings.identity_header and settings.identity_header == settings.tenant_header:
        raise ConfigError("identity_header and tenant_header are the same: the log must not hold users.")
    if settings.auth == "proxy" and not settings.identity_header:
        raise ConfigError(
            'auth is proxy: name the header in which the proxy says who asks, identity_header = "…".'
        )
    context = settings.context
    if context.target_tokens and not context.target_tokens < context.max_tokens:
        raise ConfigError(
            f"context.target_tokens is {context.target_tokens}: expected less than context.max_tokens, "
            f"which is {context.max_tokens}."
        )
    if 0 < context.max_tool_tokens < MIN_TOOL_TOKENS:
        raise ConfigError(
            f"context.max_tool_tokens is {context.max_tool_tokens}: expected 0 for off, or at least "
            f"{MIN_TOOL_TOKENS}, so that something is left of an output."
        )


def _from_file(file: Path | None) -> Settings:
    path = file or Path(CONFIG_FILE)
    settings = Settings()
    if file is None and not path.exists():
        return settings
    toml = read_toml(path)
    for key, value in toml.data.items():
        if key in (*_TABLES, "hints") and isinstance(value, dict):
            for inner, inner_value in value.items():
                settings = _set(settings, f"{key}_{inner}", inner_value, toml.place(key, inner))
        elif key == "model" and isinstance(value, dict):
            models = {name: _model(target, toml.place(key, name)) for name, target in value.items()}
            settings = replace(settings, models=models)
        elif key == "keys" and isinstance(value, list):
            for index in range(len(value)):  # so that a wrong one is told with its own line
                settings = _set(settings, key, value[: index + 1], toml.place(key, index))
        else:
            settings = _set(settings, key, value, toml.place(key))
    return settings


def _from_environ(settings: Settings, environ: Mapping[str, str]) -> Settings:
    # The names that OpenAI-compatible programs share, for a single upstream; and the one that platforms set.
    for short, name in (("BASE_URL", "upstream_base_url"), ("API_KEY", "upstream_api_key"), ("PORT", "port")):
        if environ.get(short):
            settings = _set(settings, name, environ[short], f"the variable {short}")
    if environ.get("MODEL_NAME"):
        settings = replace(settings, models={**settings.models, "frontdesk": environ["MODEL_NAME"]})
    for name in _SETTERS:
        variable = f"FRONTDESK_{name.upper()}"
        if environ.get(variable):
            settings = _set(settings, name, environ[variable], f"the variable {variable}")
    for variable in sorted(environ):
        if variable.startswith(_SECRET_VARIABLE) and environ[variable]:
            secrets = {**settings.tools.secrets, variable.removeprefix(_SECRET_VARIABLE): environ[variable]}
            settings = _set(settings, "tools_secrets", secrets, f"the variable {variable}")
    return settings


def _set(settings: Settings, name: str, value: object, where: object) -> Settings:
    parse = _SETTERS.get(name)
    if parse is None:
        raise ConfigError(f"{where} is not a setting. Settings: {', '.join(sorted(_SETTERS))}, [model].")
    try:
        parsed = parse(value)
    except (TypeError, ValueError, RecursionError) as exc:
        # The cause would show what is hidden here.
        raise ConfigError(f"{where} {_shown(name, value)}: {exc}.") from None
    table, _, inner = name.partition("_")
    if table in _TABLES:
        return replace(settings, **{table: replace(getattr(settings, table), **{inner: parsed})})
    return replace(settings, **{name: parsed})


def _shown(name: str, value: object) -> str:
    """What of a wrong value may be shown: keys and passwords may not."""
    if name in ("upstream_api_key", "keys", "hints_keys", "tools_secrets"):
        return "cannot be used"
    shown = _USER_INFO.sub("//***@", value) if isinstance(value, str) else value
    return f"is {shown!r}"


def _model(value: object, where: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(
            f"{where} is {value!r}: expected the upstream's name of the model; quote a name that has a dot."
        )
    return value


def _keys(value: object) -> tuple[Key, ...]:
    """From a TOML array of tables, or the same as JSON."""
    listed = json.loads(value) if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise TypeError("expected tables [[keys]] with id, sha256, tenant and valid_until")
    keys = tuple(_key(number, entry) for number, entry in enumerate(listed, 1))
    for what in ("id", "sha256"):
        seen = [getattr(key, what) for key in keys]
        twice = [index for index, item in enumerate(seen) if item in seen[:index]]
        if twice:
            raise ValueError(f"key {keys[twice[0]].id!r} has the {what} of an earlier one")
    return keys


def _key(number: int, entry: Mapping[str, Any]) -> Key:
    unknown = entry.keys() - {"id", "sha256", "tenant", "valid_until"}
    if unknown:
        raise ValueError(f"key {number} has {min(unknown)!r}; it takes id, sha256, tenant and valid_until")
    id_, digest, tenant = entry.get("id"), entry.get("sha256"), entry.get("tenant", "")
    if not isinstance(id_, str) or not NAME.fullmatch(id_):
        raise ValueError(f"key {number} needs an id of letters, digits, '_', '.' and '-'")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise ValueError(f"key {id_!r} needs the sha256 that `frontdesk key` printed: 64 hexadecimal digits")
    if not isinstance(tenant, str) or not (tenant == "" or NAME.fullmatch(tenant)):
        raise ValueError(f"key {id_!r} needs a tenant of letters, digits, '_', '.' and '-'")
    until = entry.get("valid_until")
    try:
        until = date.fromisoformat(until) if isinstance(until, str) else until
    except ValueError:
        until = 0
    if until is not None and type(until) is not date:
        raise ValueError(f"key {id_!r} needs a valid_until such as 2027-12-31")
    return Key(id_, digest, tenant, until)


def _hints_keys(value: object) -> tuple[HintsKey, ...]:
    """From a list of ``kid:secret``, or the same with commas."""
    text = ",".join(map(accept.text, value)) if isinstance(value, list) else accept.text(value)
    return parse_keys(text) if text else ()


def _secrets(value: object) -> dict[str, str]:
    """From the table [tools.secrets], or the same as JSON."""
    named = json.loads(value) if isinstance(value, str) else value
    if not isinstance(named, dict) or not all(SECRET_NAME.fullmatch(name) for name in named):
        raise TypeError(f"expected secrets by names that match {SECRET_NAME.pattern}")
    return {name: accept.secret(secret) for name, secret in named.items()}


# The tables of frontdesk.toml that are values of their own in Settings.
_TABLES: Mapping[str, type] = {"upstream": Upstream, "tools": ToolSettings, "context": Context}
_SECONDS = accept.number(float, 0.001, 3600)
_TOKENS = accept.number(int, 0, 10_000_000)
_SETTERS: dict[str, Callable[[object], Any]] = {
    "bundle": accept.path,
    "host": accept.host,
    "port": accept.number(int, 0, 65535),
    "upstream_base_url": lambda value: accept.url(value).rstrip("/"),
    "upstream_api_key": accept.secret,
    "upstream_connect_timeout": _SECONDS,
    "upstream_first_byte_timeout": _SECONDS,
    "upstream_idle_timeout": _SECONDS,
    "upstream_max_connections": accept.number(int, 1, 100_000),
    "answering": Answering.of,
    "max_body_bytes": accept.number(int, 1000, 1_000_000_000),
    "budget_ms": accept.number(int, 1, 3_600_000),
    "auth": accept.one_of("passthrough", "keys", "proxy"),
    "keys": _keys,
    "identity_header": accept.header_name,
    "tenant_header": accept.header_name,
    "trusted_proxies": accept.networks,
    "auth_check_url": lambda value: accept.url(value) if value else "",
    "auth_check_s": _SECONDS,
    "hints_keys": _hints_keys,
    "tools_base_url": lambda value: accept.url(value).rstrip("/"),
    "tools_secrets": _secrets,
    "context_max_tokens": _TOKENS,
    "context_target_tokens": _TOKENS,
    "context_max_tool_tokens": _TOKENS,
    "log": accept.one_of("json", "off"),
}
# Every plain field can be set from outside; a new one that is forgotten here fails at import.
assert {f.name for f in fields(Settings)} - {*_TABLES, "models"} <= set(_SETTERS)  # noqa: S101
assert {f"{t}_{f.name}" for t, kind in _TABLES.items() for f in fields(kind)} <= set(_SETTERS)  # noqa: S101
