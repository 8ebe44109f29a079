"""Admit: framing and size of a request, before anything of it is interpreted."""

import re
from collections.abc import MutableMapping
from typing import Any

from starlette.types import Receive, Scope

from edge.errors import BadRequest, RequestTooLarge

_BLANKS = (b" ", b"\t")


class ClientLeft(Exception):
    """The client closed the connection."""


def trimmed(scope: Scope) -> Scope:
    """The scope with header values as RFC 9110 (5.5) means them: blanks at their ends are no part of them."""
    headers = scope["headers"]
    if any(value[-1:] in _BLANKS for _, value in headers):
        return {**scope, "headers": [(name, value.strip(b" \t")) for name, value in headers]}
    return scope


def check_framing(scope: Scope) -> None:
    """Refuse what would let two servers read one byte stream as different requests.

    RFC 9112: exactly one Host (3.2), no Transfer-Encoding on HTTP/1.0 and never beside a
    Content-Length (6.1). httptools accepts the first two, h11 and others the third.
    """
    names = [name for name, _ in scope["headers"]]
    if names.count(b"host") != 1 and scope.get("http_version", "1.1") in ("1.0", "1.1"):
        raise BadRequest("The request must have exactly one Host header.", code="bad_framing")
    lengths = names.count(b"content-length")
    encoded = b"transfer-encoding" in names
    if lengths > 1 or (encoded and (lengths or scope.get("http_version") == "1.0")):
        raise BadRequest(
            "The request must have one Content-Length, or Transfer-Encoding on HTTP/1.1, not both.",
            code="bad_framing",
        )


def stays_below(path: str) -> bool:
    """Whether no server behind us can take a decoded path for one that leaves its folder.

    Some read a backslash as a slash, drop what follows a semicolon, or end the path at a NUL.
    """
    names = (re.split("[;\0]", segment)[0] for segment in re.split(r"[/\\]", path))
    return not any(name in (".", "..") for name in names)


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body. Raises RequestTooLarge over ``limit`` bytes, ClientLeft if the client goes."""
    message_text = f"The body is larger than {limit} bytes; send a shorter conversation."
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise RequestTooLarge(message_text)
    body, size, more = [], 0, True
    while more:
        message: MutableMapping[str, Any] = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunk = message.get("body", b"")
        size += len(chunk)
        body.append(chunk)
        more = message.get("more_body", False)
        if size > limit:
            raise RequestTooLarge(message_text, b"".join(body), more=more)
    return b"".join(body)
