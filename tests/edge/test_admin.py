"""/admin and feedback on real sockets: who may, what is purged, and that it is written down."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from servers import Desk, Relay, ScriptedUpstream, completion, json_answer, open_client

from edge.cache.settings import CacheSettings
from edge.sinks.jsonlog import record

CHAT, PURGE, FEEDBACK = "/v1/chat/completions", "/admin/cache/purge", "/v1/feedback"
TOKEN = "an-operators-token-of-no-use-to-anybody"
BEARER = {"authorization": f"Bearer {TOKEN}"}
ASKED, OTHER = "x1 or x1 pro?", "recommend a laptop for a student"


@pytest.fixture(scope="module")
def module_relay(desk: Desk, shared_upstream: ScriptedUpstream) -> Iterator[Relay]:
    settings = CacheSettings(mode="exact", data_version="v1")
    with desk(
        shared_upstream.url,
        cache=settings,
        admin_token=TOKEN,
        identity_header="x-user",
        tenant_header="x-tenant",
    ) as relay:
        yield relay


@pytest.fixture
def relay(module_relay: Relay, upstream: ScriptedUpstream) -> Iterator[Relay]:  # type: ignore[override]
    upstream.script = json_answer(completion("Take the X1."))
    purge(module_relay, all=True)
    module_relay.forget()
    yield module_relay
    module_relay.wait_idle()


def call(
    relay: Relay, method: str, path: str, headers: dict[str, str] | None = None, **json_body: Any
) -> httpx2.Response:
    with open_client(relay.url) as client:
        content = json.dumps(json_body).encode() if method == "POST" else None
        return client.request(method, path, content=content, headers=headers or {})


def purge(relay: Relay, **body: Any) -> httpx2.Response:
    return call(relay, "POST", PURGE, BEARER, **body)


def ask(relay: Relay, text: str = ASKED, **headers: str) -> httpx2.Response:
    sent = {"x-user": "u1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    response = call(relay, "POST", CHAT, sent, messages=[{"role": "user", "content": text}])
    relay.event()
    return response


def judge(relay: Relay, request_id: Any, verdict: Any = "wrong", **headers: str) -> httpx2.Response:
    sent = {"x-user": "u1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return call(relay, "POST", FEEDBACK, sent, request_id=request_id, verdict=verdict)


def path(response: httpx2.Response) -> str:
    return response.headers["x-frontdesk-path"]


def entries(relay: Relay) -> int:
    return int(call(relay, "GET", "/admin/cache", BEARER).json()["entries"])


# --- who may -----------------------------------------------------------------------------------

NOT_THE_TOKEN = [
    {},
    {"authorization": "Bearer"},
    {"authorization": f"Bearer {TOKEN}x"},
    {"authorization": f"Bearer {TOKEN[:-1]}"},
    {"authorization": f"bearer {TOKEN}"},
    {"authorization": TOKEN},
    {"x-user": "admin"},
]


@pytest.mark.parametrize("headers", NOT_THE_TOKEN)
@pytest.mark.parametrize(("method", "where"), [("GET", "/admin/cache"), ("POST", PURGE)])
def test_nothing_is_shown_or_done_without_the_token(
    relay: Relay, headers: dict[str, str], method: str, where: str
) -> None:
    ask(relay)
    response = call(relay, method, where, headers, all=True)
    assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")
    assert relay.event().status == 401
    assert entries(relay) == 1


def test_two_tokens_are_none(relay: Relay) -> None:
    with open_client(relay.url) as client:
        headers = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other")]
        assert client.get("/admin/cache", headers=headers).status_code == 401


def test_without_a_token_in_the_settings_there_is_no_admin(desk: Desk, upstream: ScriptedUpstream) -> None:
    with desk(upstream.url) as relay:
        for headers in ({}, {"authorization": "Bearer"}, BEARER):
            assert call(relay, "GET", "/admin/cache", headers).status_code == 404
            assert call(relay, "POST", PURGE, headers, all=True).status_code == 404


def test_the_token_opens_admin_where_callers_need_keys(desk: Desk, upstream: ScriptedUpstream) -> None:
    with desk(upstream.url, auth="proxy", identity_header="x-user", admin_token=TOKEN) as relay:
        assert call(relay, "GET", "/admin/cache", BEARER).status_code == 200
        assert call(relay, "POST", CHAT, BEARER, messages=[]).status_code == 401


@pytest.mark.parametrize(
    ("method", "where", "status"),
    [
        ("POST", "/admin/cache", 405),
        ("GET", PURGE, 405),
        ("GET", FEEDBACK, 405),
        ("GET", "/admin", 404),
        ("GET", "/admin/", 404),
        ("GET", "/admin/other", 404),
    ],
)
def test_there_is_no_other_way_in(
    relay: Relay, upstream: ScriptedUpstream, method: str, where: str, status: int
) -> None:
    assert call(relay, method, where, BEARER).status_code == status
    assert upstream.requests == []


# --- state and purges --------------------------------------------------------------------------


def test_the_state_tells_counts_and_no_text(relay: Relay) -> None:
    for _ in range(3):
        ask(relay)
    ask(relay, OTHER)
    response = call(relay, "GET", "/admin/cache", BEARER)
    state = response.json()
    assert (state["mode"], state["data_version"], state["entries"]) == ("exact", "v1", 2)
    assert state["topics"] == {
        "agent.compare_products": {"entries": 1, "hits": 2},
        "agent.recommend": {"entries": 1, "hits": 0},
    }
    assert 0 < state["bytes"] < state["max_bytes"]
    assert state["on_their_way"] == 0
    assert "x1" not in response.text.lower()


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"all": True}, 0),
        ({"tag": "agent"}, 0),
        ({"tag": "nothing has this"}, 2),
        ({"topic": "agent.recommend"}, 1),
        ({"topic": "agent"}, 2),
        ({"data_version": "v1"}, 0),
        ({"data_version": ""}, 2),
        ({"data_version": "v2"}, 2),
        ({"id": "0" * 32}, 2),
    ],
)
def test_a_purge_takes_what_it_names(relay: Relay, body: dict[str, Any], left: int) -> None:
    ask(relay)
    ask(relay, OTHER)
    dry = purge(relay, dry_run=True, **body)
    assert dry.json() == {**body, "dry_run": True, "entries": 2 - left}
    assert entries(relay) == 2
    relay.forget()
    wet = purge(relay, **body)
    assert wet.json() == {**body, "dry_run": False, "entries": 2 - left}
    line = record(relay.event())
    assert line["audit"] == {
        "action": "cache.purge",
        **body,
        "dry_run": False,
        "outcome": "ok",
        "entries": 2 - left,
    }
    assert (line["route"], line["status"]) == (PURGE, 200)
    assert line["request_id"] == wet.headers["x-request-id"]
    assert TOKEN not in json.dumps(line)
    assert entries(relay) == left


def test_one_entry_is_purged_by_the_id_that_debug_tells(relay: Relay) -> None:
    ask(relay)
    ask(relay, OTHER)
    shown = ask(relay, x_frontdesk_debug="1").headers["x-frontdesk-cache"]
    id_ = dict(part.partition("=")[::2] for part in shown.split(";"))["id"]
    assert purge(relay, id=id_).json()["entries"] == 1
    assert path(ask(relay)) == "agent"
    assert path(ask(relay, OTHER)) == "cache"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"dry_run": True},
        {"all": False},
        {"all": "yes"},
        {"all": None},
        {"topic": ""},
        {"topic": None},
        {"topic": ["a"]},
        {"tag": 1},
        {"id": ""},
        {"topic": "a", "tag": "b"},
        {"all": True, "topic": "a"},
        {"tpoic": "a"},
        {"topic": "a", "limit": 1},
        {"all": True, "dry_run": "true"},
        {"all": True, "dry_run": None},
        {"all": True, "dry_run": 1},
    ],
)
def test_a_purge_that_is_not_clear_does_nothing(relay: Relay, body: dict[str, Any]) -> None:
    ask(relay)
    response = purge(relay, **body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_purge")
    assert entries(relay) == 1


# --- feedback ----------------------------------------------------------------------------------


def test_wrong_evicts_the_answer_and_is_counted_once(relay: Relay) -> None:
    ask(relay)
    served = ask(relay)
    assert path(served) == "cache"
    id_ = served.headers["x-request-id"]
    response = judge(relay, id_)
    assert response.json() == {
        "request_id": id_, "verdict": "wrong", "path": "cache", "topic": "agent.compare_products", "evicted": True,
    }  # fmt: skip
    audit = record(relay.event())["audit"]
    assert (audit["action"], audit["of"], audit["verdict"], audit["evicted"]) == (
        "feedback",
        id_,
        "wrong",
        True,
    )
    assert judge(relay, id_).status_code == 404
    relay.forget()
    assert path(ask(relay)) == "agent"


def test_wrong_on_the_agents_own_answer_evicts_it_too(relay: Relay) -> None:
    first = ask(relay)
    assert path(first) == "agent"
    assert judge(relay, first.headers["x-request-id"]).json()["evicted"] is True
    relay.forget()
    assert path(ask(relay)) == "agent"


def test_right_is_counted_and_evicts_nothing(relay: Relay) -> None:
    ask(relay)
    before = call(relay, "GET", "/admin/cache", BEARER).json()["feedback"].get("cache_right", 0)
    relay.forget()
    assert judge(relay, ask(relay).headers["x-request-id"], "right").json()["evicted"] is False
    after = call(relay, "GET", "/admin/cache", BEARER).json()["feedback"]["cache_right"]
    assert (after, entries(relay)) == (before + 1, 1)


def test_curated_answers_are_judged_too(relay: Relay) -> None:
    response = ask(relay, "what time do we start")
    told = judge(relay, response.headers["x-request-id"]).json()
    assert (told["path"], told["topic"], told["evicted"]) == ("faq", "staff.working_hours", False)


@pytest.mark.parametrize("other", [{"x_user": "u2"}, {"x_tenant": "globex"}, {"authorization": "Bearer x"}])
def test_nobody_judges_anothers_answer(relay: Relay, other: dict[str, str]) -> None:
    ask(relay)
    id_ = ask(relay).headers["x-request-id"]
    assert judge(relay, id_, **other).status_code == 404
    assert entries(relay) == 1
    assert judge(relay, id_).status_code == 200


def test_an_id_that_a_client_uses_twice_stays_the_firsts(relay: Relay) -> None:
    ask(relay)
    ask(relay, x_request_id="mine-1", x_user="u2")
    ask(relay, x_request_id="mine-1")
    assert judge(relay, "mine-1").status_code == 404
    assert judge(relay, "mine-1", x_user="u2").status_code == 200


@pytest.mark.parametrize(
    ("request_id", "verdict"),
    [
        ("never-was", "wrong"),
        ("", "wrong"),
        (None, "wrong"),
        (5, "wrong"),
        ("x", "bad"),
        ("x", None),
        ("x", True),
    ],
)
def test_feedback_that_cannot_be_placed_is_told(relay: Relay, request_id: Any, verdict: Any) -> None:
    response = judge(relay, request_id, verdict)
    assert response.status_code == (404 if (request_id, verdict) == ("never-was", "wrong") else 400)


def test_feedback_remembers_no_more_than_it_may(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.feedback._REMEMBERED", 3)
    ids = [ask(relay, "what time do we start").headers["x-request-id"] for _ in range(5)]
    assert [judge(relay, id_).status_code for id_ in ids] == [404, 404, 200, 200, 200]
