"""Results that Frontdesk asked a tool for while it forwarded the turn: collected instead of calling anew."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import anyio
import httpx2

from hints import SIGNATURE_HEADER, HintsError, HintsKey, sign_hints
from remote import fetch_json
from tools import Planned, Result, ToolError
from wire import Chat


@dataclass(frozen=True, slots=True)
class Prefetched:
    """What can be collected for one turn. ``ids``: id → tool's name, each good for one read.

    ``slots``: what Frontdesk read in the question, so what it has called the tools with.
    """

    url: str
    ids: dict[str, str]
    slots: Mapping[str, object]
    request_id: str
    key: HintsKey
    user: str | None

    def take(self, planned: Planned) -> str | None:
        """The id of a result of this very call, if there may be one; it is then nobody else's."""
        said = {
            name: self.slots[name] for name in planned.tool.parameters["properties"] if name in self.slots
        }
        if any(planned.arguments.get(name) != value for name, value in said.items()):
            return None
        found = next((each for each, name in self.ids.items() if name == planned.tool.name), None)
        if found is not None:
            del self.ids[found]
        return found

    async def collect(self, id_: str, planned: Planned, http: httpx2.AsyncClient) -> Result:
        """Wait for a result. Raises ToolError where it must be fetched by a call of our own."""
        started = time.perf_counter()
        asked = f"GET /v1/prefetch/{id_}"
        try:
            signature = sign_hints(asked, self.request_id, b"", self.key, int(time.time()))
        except HintsError:
            raise ToolError(502, "not_found", "No such id was ever given.") from None
        headers = {"x-request-id": self.request_id, SIGNATURE_HEADER: signature}
        url = f"{self.url}/v1/prefetch/{quote(id_, safe='')}"
        try:
            # Its call began before ours could: a result that is not there by then will hardly come.
            with anyio.fail_after(planned.tool.timeout_s):
                got = await fetch_json(http, "GET", url, headers)
        except TimeoutError:
            raise ToolError(504, "timeout", "The prefetched result did not come in time.") from None
        if not isinstance(got, dict) or got.get("tool") != planned.tool.name or "result" not in got:
            raise ToolError(502, "another_tool", "The prefetched result is another tool's.")
        arguments = got.get("arguments")
        given = {} if not isinstance(arguments, dict) else arguments
        if {name: value for name, value in given.items() if value is not None} != dict(planned.arguments):
            raise ToolError(502, "other_arguments", "The prefetched result is of another call.")
        planned.tool.check_owner(got["result"], self.user)
        ms = (time.perf_counter() - started) * 1000
        return Result(planned, "ok", got["result"], ms=round(ms, 1))


def prefetched_for(chat: Chat, url: str | None) -> Prefetched | None:
    """What can be collected for a turn, if Frontdesk's address is known and its hints are signed."""
    if url is None or chat.key is None or chat.hints is None or not chat.hints.prefetch:
        return None
    return Prefetched(url, dict(chat.hints.prefetch), chat.hints.slots, chat.request_id, chat.key, chat.user)
