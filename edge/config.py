"""Server settings: flag > environment > frontdesk.toml > default. Policy is not here but in the bundle."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edge.errors import ConfigError

CONFIG_FILE = "frontdesk.toml"
_HEADER_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]*")
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
            share = float(value)  # type: ignore[arg-type]
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
    first_byte_timeout: float = 60.0
    idle_timeout: float = 60.0
    max_connections: int = 512


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that ``frontdesk serve`` needs.

    ``identity_header``: a header set by a proxy in front that names the user; it decides who
    belongs to an answering share. ``budget_ms``: time to the first byte unless the request says
    otherwise. ``models``: names of models that clients send, mapped to the upstream's names.
    """

    bundle: Path = Path("models/demo")
    host: str = "127.0.0.1"
    port: int = 8080
    upstream: Upstream = Upstream()
    answering: Answering = Answering()
    max_body_bytes: int = 1_000_000
    budget_ms: int = 2000
    identity_header: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
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
    return settings


def _from_file(file: Path | None) -> Settings:
    path = file or Path(CONFIG_FILE)
    if file is None and not path.exists():
        return Settings()
    try:
        data = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}.") from exc
    except ValueError as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}.") from exc
    except RecursionError as exc:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply.") from exc
    settings = Settings()
    for key, value in data.items():
        if key == "upstream" and isinstance(value, dict):
            for inner, inner_value in value.items():
                settings = _set(settings, f"upstream_{inner}", inner_value, f"{path}: upstream.{inner}")
        elif key == "model" and isinstance(value, dict):
            models = {name: _model(target, f"{path}: model.{name}") for name, target in value.items()}
            settings = replace(settings, models=models)
        else:
            settings = _set(settings, key, value, f"{path}: {key}")
    return settings


def _from_environ(settings: Settings, environ: Mapping[str, str]) -> Settings:
    # The names that OpenAI-compatible programs share, for a single upstream.
    for short, name in (("BASE_URL", "upstream_base_url"), ("API_KEY", "upstream_api_key")):
        if environ.get(short):
            settings = _set(settings, name, environ[short], f"the variable {short}")
    if environ.get("MODEL_NAME"):
        settings = replace(settings, models={**settings.models, "frontdesk": environ["MODEL_NAME"]})
    for name in _SETTERS:
        variable = f"FRONTDESK_{name.upper()}"
        if environ.get(variable):
            settings = _set(settings, name, environ[variable], f"the variable {variable}")
    return settings


def _set(settings: Settings, name: str, value: object, where: str) -> Settings:
    parse = _SETTERS.get(name)
    if parse is None:
        raise ConfigError(f"{where} is not a setting. Settings: {', '.join(sorted(_SETTERS))}, [model].")
    try:
        parsed = parse(value)
    except (TypeError, ValueError) as exc:
        # The cause would show what is hidden here.
        raise ConfigError(f"{where} {_shown(name, value)}: {exc}.") from None
    if name.startswith("upstream_"):
        return replace(settings, upstream=replace(settings.upstream, **{name[9:]: parsed}))
    return replace(settings, **{name: parsed})


def _shown(name: str, value: object) -> str:
    """What of a wrong value may be shown: keys and passwords may not."""
    if name == "upstream_api_key":
        return "cannot be used"
    shown = _USER_INFO.sub("//***@", value) if isinstance(value, str) else value
    return f"is {shown!r}"


def _model(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(
            f"{where} is {value!r}: expected the upstream's name of the model; quote a name that has a dot."
        )
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a text")
    return value


def _host(value: object) -> str:
    host = _text(value)
    if not host or not host.isprintable() or " " in host:
        raise ValueError("expected a host name or an IP address, such as 127.0.0.1")
    return host


def _secret(value: object) -> str:
    secret = _text(value).strip()  # files of secrets end in a line break
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise ValueError("expected printable ASCII without spaces")
    return secret


def _header_name(value: object) -> str:
    name = _text(value).lower()
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError("expected the name of a header")
    return name


def _path(value: object) -> Path:
    return Path(value) if isinstance(value, Path) else Path(_text(value))


def _number(kind: Callable[[Any], Any], low: float, high: float) -> Callable[[object], Any]:
    def parse(value: object) -> Any:  # noqa: ANN401 - int or float, as kind says
        accepted = f"expected a {'whole ' if kind is int else ''}number from {low} to {high}"
        if isinstance(value, bool):
            raise TypeError(accepted)
        try:
            number = kind(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(accepted) from None
        if not low <= number <= high or (isinstance(value, float) and number != value):
            raise ValueError(accepted)
        return number

    return parse


def _url(value: object) -> str:
    address = _text(value)
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not address.isprintable() or " " in address:
        raise ValueError("expected an address such as https://host/v1")
    if "?" in address or "#" in address or "@" in parts.netloc:
        raise ValueError("expected an address without user name, query and fragment")
    return address.rstrip("/")


def _one_of(*names: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        if value not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return str(value)

    return parse


_SECONDS = _number(float, 0.001, 3600)
_SETTERS: dict[str, Callable[[object], Any]] = {
    "bundle": _path,
    "host": _host,
    "port": _number(int, 0, 65535),
    "upstream_base_url": _url,
    "upstream_api_key": _secret,
    "upstream_connect_timeout": _SECONDS,
    "upstream_first_byte_timeout": _SECONDS,
    "upstream_idle_timeout": _SECONDS,
    "upstream_max_connections": _number(int, 1, 100_000),
    "answering": Answering.of,
    "max_body_bytes": _number(int, 1000, 1_000_000_000),
    "budget_ms": _number(int, 1, 3_600_000),
    "identity_header": _header_name,
    "log": _one_of("json", "off"),
}
# Every plain field can be set from outside; a new one that is forgotten here fails at import.
assert {f.name for f in fields(Settings)} - {"upstream", "models"} <= set(_SETTERS)  # noqa: S101
assert {f"upstream_{f.name}" for f in fields(Upstream)} <= set(_SETTERS)  # noqa: S101
