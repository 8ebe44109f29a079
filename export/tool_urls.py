"""Urls of a desk's tools: where their slots go, and that no slot's value can choose where a call goes."""

import re
from collections.abc import Iterator

from export.located import Located, Problem

_PLACE = re.compile(r"\{([^{}]*)\}")
_WITHOUT_BODY = ("GET", "HEAD", "DELETE")
_SERVER = re.compile(r"https?://([^/?]*)", re.IGNORECASE)
_HOST = re.compile(r"([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_CHARACTERS = re.compile(r"[!$%&'()*+,./0-9:;=?@A-Z\[\]_a-z~-]*")  # those of RFC 3986 but for the fragment's


def url_problems(tool: Located, slots: Located, *, called: bool) -> Iterator[Problem]:
    """(line, key, what is wrong) of a tool's url; ``called``: Frontdesk itself may call it."""
    url, line = tool.get("url"), tool.line_of("url")
    if not isinstance(url, str) or not url:
        return
    if problem := _address_problem(url):
        yield line, "url", problem
    places = _PLACE.findall(url)
    for name in dict.fromkeys(places):
        if name not in slots:
            yield line, "url", f"holds {{{name}}}, and there is no such slot; declare it in 'slots'"
    if str(tool.get("method", "")).upper() in _WITHOUT_BODY:
        for name in slots:
            if name not in places:
                what = f"is not in the url; write {{{name}}} where it goes"
                yield slots.line_of(str(name)), str(name), what
    if called:
        yield from _empty_places(url, slots)


def _empty_places(url: str, slots: Located) -> Iterator[Problem]:
    """Slots that can be without a value and stand in the path, where nothing would be another place."""
    for name in dict.fromkeys(_PLACE.findall(url.partition("?")[0])):
        slot = slots.get(name)
        if isinstance(slot, Located) and slot.get("required") is False and slot.get("default") is None:
            what = "is optional, so its place must be in the url's query; or give it a default"
            yield slots.line_of(name), name, what


def _address_problem(url: str) -> str | None:
    """Why a url is not one that a tool can be called by."""
    bare = _PLACE.sub("", url)
    if not _CHARACTERS.fullmatch(bare):
        return "must be of the characters of a url, without a fragment; write others percent-encoded"
    path = url
    if not url.startswith("/"):
        server = _SERVER.match(url)
        if server is None:
            return f"must begin with http://, https:// or, below the configured base_url, with /, got {url!r}"
        if _PLACE.search(server[1]):
            return "has a place in its host; a user's words must never choose where a call goes"
        if "@" in server[1]:
            return "holds a name or password; name a 'credential' instead"
        if not _HOST.fullmatch(server[1]):
            return f"has no host that can be called: {server[1]!r}"
        path = url[server.end() :]
    elif url.startswith("//"):
        return "begins with two slashes, which would name a host; begin with one"
    if any(part in (".", "..") for part in path.partition("?")[0].split("/")):
        return "has . or .. in its path; write the path that they lead to"
    return None
