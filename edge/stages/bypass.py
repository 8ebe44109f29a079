"""Bypass: what the request itself says against a local answer, before any of it is read."""

from edge.decision import Reason
from edge.stages import Case, Runtime


def bypass(case: Case, runtime: Runtime) -> Case:
    """Object to client tools, unusual options, attachments and unknown system prompts."""
    query = case.query
    if query.client_tools:
        case = case.because(Reason.CLIENT_TOOLS)
    if query.options or not query.last_is_user:
        case = case.because(Reason.CLIENT_OPTIONS, ",".join(sorted(query.options)) or "last_role")
    if query.attachment:
        case = case.because(Reason.ATTACHMENT)
    known = runtime.bundle.system_prompts
    if query.system is not None and known is not None and query.system not in known:
        case = case.because(Reason.SYSTEM_PROMPT, query.system)
    return case
