"""Every error of Frontdesk, and the one place where an error becomes OpenAI-shaped JSON.

FrontdeskError
├── ConfigError            frontdesk.toml, a variable or a flag is wrong
├── BundleError            the bundle cannot be used
├── DeskError              the operator's source folder cannot be used (one or more problems)
├── LLMError               the LLM that labels traffic cannot be asked
├── TemplateError          a tool's result does not fill the topic's template
└── RequestError           an HTTP answer: status, type, code
    ├── BadRequest         400
    ├── Unauthorized       401
    ├── RequestTooLarge    413
    ├── NotFound           404
    ├── MethodNotAllowed   405
    ├── NotReady           503
    ├── UpstreamUnset      503
    ├── UpstreamUnreachable 502
    ├── ToolFailed         502
    └── UpstreamTimeout    504
"""

import json
from typing import ClassVar


class FrontdeskError(Exception):
    """The root: anything that Frontdesk itself raises."""


class ConfigError(FrontdeskError):
    """A setting is missing or wrong; the message says where and what would be accepted."""


class BundleError(FrontdeskError):
    """The bundle is missing, half written, altered, or of another schema."""


class DeskError(FrontdeskError):
    """The desk cannot be used; one line a problem, each with file, line and fix."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class LLMError(FrontdeskError):
    """The LLM that labels traffic cannot be asked, or says nothing that can be used."""


class TemplateError(FrontdeskError):
    """A tool's result does not fill the topic's template; the message names the field, never its value."""


class RequestError(FrontdeskError):
    """An error that the client sees."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str] = "internal_error"
    # Whether the same request may be sent again: False where the agent may have begun to work on it.
    repeatable: bool = False

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.error_code = code or self.code


class BadRequest(RequestError):
    """The request itself cannot be read."""

    status = 400
    type = "invalid_request_error"
    code = "invalid_request"


class Unauthorized(RequestError):
    """Nobody knows the caller."""

    status = 401
    type = "invalid_request_error"
    code = "invalid_api_key"


class RequestTooLarge(RequestError):
    """The body is over the configured limit."""

    status = 413
    type = "invalid_request_error"
    code = "request_too_large"

    def __init__(self, message: str, read: bytes = b"", *, more: bool = True) -> None:
        super().__init__(message)
        self.read = read  # what of the body was received before that was known
        self.more = more  # whether there is more to receive


class NotFound(RequestError):
    """No such path here."""

    status = 404
    type = "not_found_error"
    code = "not_found"


class MethodNotAllowed(RequestError):
    """The path exists, the method does not."""

    status = 405
    type = "invalid_request_error"
    code = "method_not_allowed"

    def __init__(self, message: str, allow: str) -> None:
        super().__init__(message)
        self.allow = allow


class NotReady(RequestError):
    """The bundle is not loaded, so a question that needs it cannot be answered."""

    status = 503
    code = "not_ready"
    repeatable = True


class UpstreamUnset(RequestError):
    """A turn has to go to the agent, and no agent is configured."""

    status = 503
    code = "upstream_unset"


class UpstreamUnreachable(RequestError):
    """The agent could not be connected to, or broke off before its first byte."""

    status = 502
    code = "upstream_unavailable"

    def __init__(self, message: str, code: str | None = None, *, repeatable: bool = False) -> None:
        super().__init__(message, code=code)
        self.repeatable = repeatable


class ToolFailed(RequestError):
    """A tool that was called for the agent brought nothing."""

    status = 502
    code = "tool_failed"


class UpstreamTimeout(RequestError):
    """The agent sent no first byte in time."""

    status = 504
    type = "timeout"
    code = "upstream_timeout"

    def __init__(self, message: str, *, repeatable: bool = False) -> None:
        super().__init__(message)
        self.repeatable = repeatable


def error_json(error: RequestError) -> bytes:
    """The OpenAI error envelope of an error, as bytes."""
    inner = {"message": error.message, "type": error.type, "param": error.param, "code": error.error_code}
    return json.dumps({"error": inner}, ensure_ascii=False).encode("utf-8", "backslashreplace")
