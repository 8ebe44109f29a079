"""What a setting accepts: one function a kind of value, from a flag, a variable or frontdesk.toml.

Each raises TypeError or ValueError with what it expected; config.py adds where the value came from.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

_HEADER_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]*")
# What means something else already, to HTTP or to us.
_TAKEN = frozenset(
    b"accept-encoding authorization connection content-encoding content-length content-type cookie expect "
    b"host keep-alive te trailer traceparent transfer-encoding upgrade x-request-id".decode().split()
)
_DIGITS = re.compile(r"[0-9]+(\.[0-9]*)?")


def text(value: object) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise TypeError("expected a text")
    return value


def host(value: object) -> str:
    """A host name or an address to listen at."""
    name = text(value)
    if not name or not name.isprintable() or " " in name:
        raise ValueError("expected a host name or an IP address, such as 127.0.0.1")
    return name


def networks(value: object) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks, from a list or a text with commas."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise TypeError("expected a list of networks such as 10.0.0.0/8")
    try:
        found = tuple(ip_network(text(item).strip()) for item in listed if item != "")
    except ValueError as exc:
        raise ValueError(f"expected networks such as 10.0.0.0/8 or ::1/128; {exc}") from None
    if any(getattr(network.network_address, "ipv4_mapped", None) for network in found):
        raise ValueError("expected IPv4 networks in their own form, such as 10.0.0.0/8")
    return found


def secret(value: object) -> str:
    """A credential as a header can carry it."""
    stripped = text(value).strip()  # files of secrets end in a line break
    if not stripped.isascii() or not stripped.isprintable() or " " in stripped:
        raise ValueError("expected printable ASCII without spaces")
    return stripped


def header_name(value: object) -> str:
    """The name of a header that nothing else uses, in lower case; "" for none."""
    name = text(value).lower()
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError("expected the name of a header")
    if name in _TAKEN or name.startswith("x-frontdesk-") or "_" in name:
        raise ValueError("expected a header of its own, without '_', such as x-user")
    return name


def path(value: object) -> Path:
    """A folder's path."""
    name = text(str(value) if isinstance(value, Path) else value)
    if not name or "\0" in name:
        raise ValueError("expected the path of a folder")
    return Path(name)


def plain(value: object) -> Any:  # noqa: ANN401 - what a number can be made of
    """A text only if it is digits: float and int also take "8_0" and other scripts' digits."""
    if isinstance(value, str) and not _DIGITS.fullmatch(value):
        raise ValueError("no number")
    return value


def number(kind: Callable[[Any], Any], low: float, high: float) -> Callable[[object], Any]:
    """A number of a kind, ``int`` or ``float``, from ``low`` to ``high``."""

    def parse(value: object) -> Any:  # noqa: ANN401 - int or float, as kind says
        accepted = f"expected a {'whole ' if kind is int else ''}number from {low} to {high}"
        if isinstance(value, bool):
            raise TypeError(accepted)
        try:
            parsed = kind(plain(value))
        except (TypeError, ValueError, OverflowError):
            raise ValueError(accepted) from None
        if not low <= parsed <= high or (isinstance(value, float) and parsed != value):
            raise ValueError(accepted)
        return parsed

    return parse


def url(value: object) -> str:
    """An address to send requests to."""
    address = text(value)
    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not address.isprintable() or " " in address:
        raise ValueError("expected an address such as https://host/v1")
    if "?" in address or "#" in address or "@" in parts.netloc:
        raise ValueError("expected an address without user name, query and fragment")
    try:
        httpx2.URL(address)
    except httpx2.InvalidURL as exc:
        raise ValueError("expected an address such as https://host/v1") from exc
    return address


def one_of(*names: str) -> Callable[[object], str]:
    """One of these names."""

    def parse(value: object) -> str:
        if value not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return str(value)

    return parse
