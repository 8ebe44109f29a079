"""Tools that are elsewhere: JSON over HTTP with bounds, for your own tools and for prefetched results."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from tools import Call, Run, ToolError

MAX_BYTES = 256 * 1024  # of a result; what an LLM is told of it is much less: see compress.py
_PLACE = re.compile(r"\{[A-Za-z0-9_]+\}")
_TOLD = {401: "not_allowed", 403: "not_allowed", 404: "not_found"}


async def fetch_json(
    http: httpx2.AsyncClient, method: str, url: str, headers: Mapping[str, str], body: object = None
) -> object:
    """The JSON of an answer with status 2xx. Raises ToolError for any other, for HTML, and for too much."""
    content = None if body is None else json.dumps(body).encode()
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    if body is not None:
        sent.append((b"content-type", b"application/json"))
    try:
        async with http.stream(method, url, headers=sent, content=content) as response:
            if not response.is_success:
                code = _TOLD.get(response.status_code, "failed")
                raise ToolError(response.status_code, code, f"The tool answered {response.status_code}.")
            data = bytearray()
            async for part in response.aiter_bytes():
                data += part
                if len(data) > MAX_BYTES:
                    raise ToolError(502, "too_large", f"The result has more than {MAX_BYTES} bytes.")
    except httpx2.TimeoutException as error:
        raise ToolError(504, "timeout", "The tool gave no result in time.") from error
    except httpx2.RequestError as error:
        raise ToolError(502, "unreachable", "The tool cannot be reached.") from error
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ToolError(502, "not_json", "The tool's answer was no JSON.") from None


def over_http(method: str, url: str, secret: str = "", identity_header: str = "x-frontdesk-user") -> Run:
    """What ``Tool.run`` is for a tool behind ``url``, such as ``https://shop.example/orders/{order_id}``.

    Arguments fill the url's places, percent-encoded; the others become its query, or with POST a JSON object.
    ``secret`` is sent as the bearer token, and the caller's name in ``identity_header``: the tool must check
    on its side that what is asked belongs to them.
    """

    async def run(arguments: Mapping[str, Any], call: Call) -> object:
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        if call.user is not None:
            headers[identity_header] = call.user
        headers["x-request-id"] = call.request_id
        target, rest = url, {}
        for name, value in arguments.items():
            filled = target.replace(f"{{{name}}}", quote(_text(value), safe=""))
            if filled == target:
                rest[name] = value
            target = filled
        target = _PLACE.sub("", target)  # of optional arguments that were not given
        if method == "GET" and rest:
            query = "&".join(f"{quote(name)}={quote(_text(value), safe='')}" for name, value in rest.items())
            target += ("&" if "?" in target else "?") + query
        return await fetch_json(call.http, method, target, headers, rest if method == "POST" else None)

    return run


def _text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
