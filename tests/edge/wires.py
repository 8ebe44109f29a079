"""One client connection for many requests, and responses as the bytes they are."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from servers import LAST_CHUNK, RawClient, chunk

Field = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """Status, fields in order with their names in lower case, body."""

    status: int
    fields: list[Field]
    body: bytes

    def all(self, name: str) -> list[str]:
        """The values of a field."""
        return [value for key, value in self.fields if key == name]

    def one(self, name: str) -> str:
        """The value of a field that must be there once."""
        [value] = self.all(name)
        return value


class Wire:
    """A kept connection; a new one after a failure, or once the server may have closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client: RawClient | None = None
        self._used = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.sock.close()
            self._client = None

    def ask(self, data: bytes) -> Response:
        """Send one request and read its response."""
        if time.monotonic() - self._used > 2:
            self.__exit__()
        client = self._client or RawClient(self._port)
        self._client = None
        try:
            client.send(data)
            top = client.read_until(b"\r\n\r\n")
            client.got = top + client.got
            status, _, body = client.response()
            assert client.got == b"", "more than one response"
        except BaseException:
            client.sock.close()
            raise
        self._client, self._used = client, time.monotonic()
        response = Response(status, fields_of(top), body)
        if ("connection", "close") in response.fields:
            self.__exit__()
        return response


def fields_of(top: bytes) -> list[Field]:
    """The fields of a head, byte for byte but for the spaces around a value."""
    lines = [line.partition(":") for line in top.decode("latin-1").split("\r\n")[1:] if line]
    return [(name.lower(), value.strip(" \t")) for name, _, value in lines]


def request(
    body: bytes,
    parts: Sequence[bytes] | None = None,
    fields: Sequence[Field] = (),
    path: str = "/v1/chat/completions",
) -> bytes:
    """A POST: with a length, or in these parts as chunks."""
    framing = ("content-length", str(len(body))) if parts is None else ("transfer-encoding", "chunked")
    lines = [f"POST {path} HTTP/1.1", "host: frontdesk"]
    lines += [f"{name}: {value}" for name, value in (framing, *fields)]
    content = body if parts is None else b"".join(map(chunk, parts)) + LAST_CHUNK
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content
