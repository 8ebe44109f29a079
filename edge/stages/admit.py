"""Admit: framing and size of a request, before anything of it is interpreted."""

from collections.abc import MutableMapping
from typing import Any

from starlette.types import Receive, Scope

from edge.errors import BadRequest, RequestTooLarge


class ClientLeft(Exception):
    """The client closed the connection."""


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


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body. Raises RequestTooLarge over ``limit`` bytes, ClientLeft if the client goes."""
    too_large = RequestTooLarge(f"The body is larger than {limit} bytes; send a shorter conversation.")
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise too_large
    body, size, more = [], 0, True
    while more:
        message: MutableMapping[str, Any] = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise too_large
        body.append(chunk)
        more = message.get("more_body", False)
    return b"".join(body)
