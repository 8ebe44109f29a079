"""The company's tools over HTTP, as Frontdesk calls them: ``GET /tools/…``, a secret, the caller's name."""

import hmac
from collections.abc import Mapping

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from company import PATHS
from schema import problems
from tools import Call, Tool, ToolError

USER_HEADER = "x-frontdesk-user"


def tools_mount(tools: Mapping[str, Tool], secret: str, http: httpx2.AsyncClient) -> Mount:
    """Everything below /tools. ``secret``: what Frontdesk shows as its bearer token, else 401.

    The name in USER_HEADER is believed because of the secret: only Frontdesk has it, and it takes the name
    from whoever vouches for its callers.
    """

    def endpoint(tool: Tool) -> ASGIApp:
        async def answer(request: Request) -> JSONResponse:
            given = request.headers.get("authorization", "")
            if not hmac.compare_digest(given.encode("latin-1"), f"Bearer {secret}".encode()):
                return _error(401, "not_allowed", "The secret is missing or wrong.")
            users = request.headers.getlist(USER_HEADER)
            call = Call(users[0] if len(users) == 1 else None, request.scope["record"].request_id, http)
            try:
                return JSONResponse(await tool.run(_arguments(request, tool), call))
            except ToolError as error:
                return _error(error.status, error.code, error.message)

        return answer  # type: ignore[return-value]

    return Mount("/tools", routes=[Route(path, endpoint(tools[name])) for path, name in PATHS.items()])


def _arguments(request: Request, tool: Tool) -> dict[str, object]:
    """Arguments of path and query; an empty one was not given. Raises ToolError."""
    given = {**request.query_params, **request.path_params}
    arguments: dict[str, object] = {}
    for name, text in given.items():
        kind = tool.parameters["properties"].get(name, {}).get("type")
        if text:
            arguments[name] = _number(text) if kind in ("integer", "number") else text
    if wrong := list(problems(tool.parameters, arguments)):
        raise ToolError(400, "invalid_argument", " ".join(wrong))
    return arguments


def _number(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status)
