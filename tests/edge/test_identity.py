"""Who asks: our keys, a trusted proxy, a check URL, or nobody. On real servers."""

import hashlib
import json
import threading
from datetime import date, timedelta
from ipaddress import ip_network
from typing import Any

import httpx2
import pytest
from openai import AuthenticationError, OpenAI
from servers import (
    Desk,
    Do,
    RawClient,
    Received,
    Relay,
    ScriptedUpstream,
    Step,
    chunk,
    completion,
    head,
    json_answer,
    open_client,
    post,
    serve,
)

from edge.app import create_app
from edge.cli import main
from edge.config import Answering, Key, Settings, Upstream, load_settings
from edge.errors import ConfigError, Unauthorized
from edge.host import Host
from edge.identity import Identity, new_key
from edge.pipeline import Pipeline
from edge.serve import _protocol

KEY, DIGEST = new_key()
KNOWN = Key("web", DIGEST, tenant="acme")
FAQ = {"model": "m", "messages": [{"role": "user", "content": "what time do we start"}]}
AGENT = {"model": "m", "messages": [{"role": "user", "content": "write a poem about the sea"}]}
ELSEWHERE = (ip_network("192.0.2.0/24"),)  # RFC 5737: no caller of these tests is there


@pytest.fixture(autouse=True)
def _agent_answers(shared_upstream: ScriptedUpstream) -> None:
    shared_upstream.reset()
    shared_upstream.script = json_answer(completion("agent"))


def ask(relay: Relay, body: dict[str, Any] = FAQ, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with open_client(relay.url) as client:
        return client.post("/v1/chat/completions", json=body, headers=named)


# --- our own keys ------------------------------------------------------------------------------


def test_a_key_of_ours_opens_and_the_upstream_gets_the_servers_key(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    with desk(shared_upstream.url, auth="keys", keys=(KNOWN,), public=False, api_key="sk-up") as relay:
        local = ask(relay, authorization=f"Bearer {KEY}")
        event = relay.event()
        forwarded = ask(relay, AGENT, authorization=f"bearer {KEY}")
    assert local.headers["x-frontdesk-path"] == "faq"
    assert (event.tenant, event.status) == ("acme", 200)
    assert forwarded.json()["choices"][0]["message"]["content"] == "agent"
    assert shared_upstream.last().headers["authorization"] == "Bearer sk-up"
    assert KEY not in str([r.head for r in shared_upstream.requests])


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer nope"},
        {"authorization": f"Basic {KEY}"},
        {"authorization": KEY},
        {"authorization": f"Bearer {DIGEST}"},  # the stored hash must not open
        {"authorization": f"Bearer {KEY[:-1]}"},
        {"x-api-key": KEY},
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/classify", "/v1/models", "/v1/embeddings"])
def test_without_a_key_nothing_opens(
    desk: Desk, shared_upstream: ScriptedUpstream, path: str, given: dict[str, str]
) -> None:
    with desk(shared_upstream.url, auth="keys", keys=(KNOWN,)) as relay, open_client(relay.url) as client:
        method = "GET" if path == "/v1/models" else "POST"
        response = client.request(method, path, json=FAQ | {"input": "hi"}, headers=given)
        health = client.get("/health/readiness")
    error = response.json()["error"]
    assert response.status_code == 401
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["x-frontdesk-path"] == "error"
    assert "Bearer" in error["message"]
    assert KEY not in response.text
    assert shared_upstream.requests == []
    assert health.status_code == 200


def test_the_sdk_sees_an_authentication_error_and_does_not_retry(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    with desk(shared_upstream.url, auth="keys", keys=(KNOWN,)) as relay:
        client = OpenAI(base_url=f"{relay.url}/v1", api_key="wrong")
        with client, pytest.raises(AuthenticationError) as caught:
            client.chat.completions.create(**FAQ)
        relay.event()
        assert relay._events.empty()
    assert caught.value.code == "invalid_api_key"


def test_a_key_ends_with_its_last_day(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    today = date.today()
    (key1, hash1), (key2, hash2) = new_key(), new_key()
    keys = (
        Key("old", hash1, valid_until=today - timedelta(days=2)),
        Key("new", hash2, valid_until=today + timedelta(days=2)),
    )
    with desk(shared_upstream.url, auth="keys", keys=keys) as relay:
        old, new = ask(relay, authorization=f"Bearer {key1}"), ask(relay, authorization=f"Bearer {key2}")
    assert (old.status_code, new.status_code) == (401, 200)
    assert "was valid until" in old.json()["error"]["message"]


def test_keys_without_an_upstream_key_forward_no_credential(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    """Our key opens our door; the agent must not learn it."""
    with desk(shared_upstream.url, auth="keys", keys=(KNOWN,)) as relay:
        ask(relay, AGENT, authorization=f"Bearer {KEY}")
    assert "authorization" not in shared_upstream.last().headers


# --- a trusted proxy ------------------------------------------------------------------------------


def test_a_trusted_proxy_names_user_and_tenant(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    names = {"identity_header": "x-user", "tenant_header": "x-tenant"}
    with desk(shared_upstream.url, auth="proxy", public=False, api_key="sk-up", **names) as relay:
        local = ask(relay, x_user="ann", x_tenant="acme")
        event = relay.event()
        ask(relay, AGENT, x_user="ann", x_tenant="acme")
        nobody = ask(relay)
    assert local.headers["x-frontdesk-path"] == "faq"
    assert event.tenant == "acme"
    assert "ann" not in repr(event)  # a user's name is personal data
    received = shared_upstream.last().headers
    assert (received["x-user"], received["x-tenant"]) == ("ann", "acme")
    assert received["authorization"] == "Bearer sk-up"
    assert nobody.status_code == 401
    assert "x-user" in nobody.json()["error"]["message"]


@pytest.mark.parametrize("auth", ["proxy", "passthrough", "keys"])
@pytest.mark.parametrize("answering", ["on", "observe"])
def test_who_is_no_trusted_proxy_names_nobody(
    desk: Desk, shared_upstream: ScriptedUpstream, auth: str, answering: str
) -> None:
    settings = {
        "auth": auth,
        "keys": (KNOWN,) if auth == "keys" else (),
        "identity_header": "x-user",
        "tenant_header": "x-tenant",
        "trusted_proxies": ELSEWHERE,
    }
    with desk(shared_upstream.url, Answering.of(answering), public=False, **settings) as relay:
        response = ask(relay, AGENT, x_user="root", x_tenant="all", authorization=f"Bearer {KEY}")
        event = relay.event()
    if auth == "proxy":
        assert response.status_code == 401
        assert shared_upstream.requests == []
        return
    assert "x-user" not in shared_upstream.last().headers
    assert "x-tenant" not in shared_upstream.last().headers
    assert event.tenant == ("acme" if auth == "keys" else "")


# --- passthrough ----------------------------------------------------------------------------------


def test_a_desk_that_is_not_public_forwards_whom_nobody_knows(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    with desk(shared_upstream.url, public=False) as relay:
        response = ask(relay, authorization="Bearer users-own", x_frontdesk_debug="1")
        with open_client(relay.url) as client:
            classified = client.post("/v1/classify", json={"input": "what time do we start"})
    assert response.headers["x-frontdesk-path"] == "agent"
    assert response.headers["x-frontdesk-reason"] == "unverified_caller"
    assert shared_upstream.last().headers["authorization"] == "Bearer users-own"
    assert classified.status_code == 401


def test_the_body_names_nobody(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    body = FAQ | {"user": "root", "metadata": {"tenant": "acme", "x-user": "root"}}
    with desk(shared_upstream.url, public=False, identity_header="x-user") as relay:
        assert ask(relay, body).headers["x-frontdesk-reason"] == "unverified_caller"
        assert relay.event().tenant == ""


def test_the_upstream_key_is_lent_to_this_machine_alone() -> None:
    identity = Identity(Settings())
    for address, lent in (
        ("127.0.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.7", False),
        ("x", False),
    ):
        scope = {"type": "http", "headers": [], "client": (address, 1)}
        assert identity.admit(scope)[0].lent_key is lent, address


@pytest.mark.parametrize("name", ["forwarded", "via", "x-forwarded-for", "x-real-ip"])
def test_the_upstream_key_is_not_lent_to_those_for_whom_a_proxy_on_this_machine_asks(name: str) -> None:
    scope = {"type": "http", "headers": [(name.encode(), b"1.1 x")], "client": ("127.0.0.1", 1)}
    assert not Identity(Settings()).admit(scope)[0].lent_key
    key = Settings(auth="keys", keys=(KNOWN,))
    known = scope | {"headers": [*scope["headers"], (b"authorization", f"Bearer {KEY}".encode())]}
    assert Identity(key).admit(known)[0].lent_key


@pytest.mark.parametrize("came", [["eva", "bob"], ["eva", "eva"]])
@pytest.mark.parametrize("peer", ["127.0.0.1", "192.0.2.7"])
def test_with_a_key_a_name_in_vain_names_nobody(came: list[str], peer: str) -> None:
    """Twice, or from an address that nobody trusts: neither that name nor the key's own."""
    identity = Identity(Settings(auth="keys", keys=(KNOWN,), identity_header="x-user"))
    authorization = (b"authorization", f"Bearer {KEY}".encode())
    given = came if peer == "127.0.0.1" else came[:1]
    headers = [authorization, *((b"x-user", name.encode()) for name in given)]
    scope = {"type": "http", "headers": headers, "client": (peer, 1)}
    assert identity.admit(scope)[0].user == ""
    assert identity.admit({**scope, "headers": [authorization]})[0].user == KNOWN.id


def checker(status: int, gate: threading.Event | None = None) -> Any:
    def script(received: Received) -> list[Step]:
        known = dict(received.fields).get("authorization") == "Bearer good"
        code = status if known or status >= 500 else 401
        steps: list[Step] = [gate] if gate else []
        return [*steps, head(f"{code} X", "content-length: 0")]

    return script


def test_the_check_url_vouches_and_is_asked_once(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    with ScriptedUpstream() as check:
        check.script = checker(204)
        with desk(shared_upstream.url, public=False, auth_check_url=f"{check.url}/me") as relay:
            first = ask(relay, authorization="Bearer good")
            again = ask(relay, authorization="Bearer good")
            bad = ask(relay, authorization="Bearer bad")
            none = ask(relay)
            unneeded = ask(relay, AGENT, authorization="Bearer other")
    assert [r.headers["x-frontdesk-path"] for r in (first, again)] == ["faq", "faq"]
    assert [r.headers["x-frontdesk-reason"] for r in (bad, none)] == ["unverified_caller"] * 2
    assert unneeded.headers["x-frontdesk-reason"] != "unverified_caller"
    asked = [r.headers["authorization"] for r in check.requests]
    assert asked == ["Bearer good", "Bearer bad"]  # once each, and never for what is forwarded anyway
    assert {r.target for r in check.requests} == {"/v1/me"}
    assert "auth;dur=" in first.headers["server-timing"]


def test_a_check_url_that_fails_forwards(
    desk: Desk, shared_upstream: ScriptedUpstream, closed_port: int
) -> None:
    with ScriptedUpstream() as check:
        check.script = checker(500)
        for url in (check.url, f"http://127.0.0.1:{closed_port}/"):
            with desk(shared_upstream.url, public=False, auth_check_url=url) as relay:
                response = ask(relay, authorization="Bearer good")
            assert response.headers["x-frontdesk-reason"] == "unverified_caller"
            assert response.json()["choices"][0]["message"]["content"] == "agent"


def test_callers_with_one_credential_ask_the_check_url_together(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    gate = threading.Event()
    with ScriptedUpstream() as check:
        check.script = checker(200, gate)
        with desk(shared_upstream.url, public=False, auth_check_url=check.url) as relay:
            found: list[httpx2.Response] = []
            threads = [
                threading.Thread(target=lambda: found.append(ask(relay, authorization="Bearer good")))
                for _ in range(5)
            ]
            for thread in threads:
                thread.start()
            check.wait_for(1)
            gate.set()
            for thread in threads:
                thread.join()
    assert [r.headers["x-frontdesk-path"] for r in found] == ["faq"] * 5
    assert len(check.requests) == 1


# --- settings ------------------------------------------------------------------------------------


def test_the_key_command_prints_what_the_settings_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    assert main(["key", "web", "--tenant", "acme"]) == 0
    printed = capsys.readouterr().out
    key = next(line[2:] for line in printed.splitlines() if line.startswith("# fd_"))
    file = tmp_path / "frontdesk.toml"
    file.write_text(f'auth = "keys"\n{printed}', "utf-8")
    settings = load_settings(environ={}, file=file)
    assert settings.keys == (Key("web", hashlib.sha256(key.encode()).hexdigest(), "acme"),)
    as_json = json.dumps([{"id": "web", "sha256": settings.keys[0].sha256, "tenant": "acme"}])
    from_environment = load_settings(environ={"FRONTDESK_AUTH": "keys", "FRONTDESK_KEYS": as_json})
    assert from_environment.keys == settings.keys


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('auth = "keys"', "frontdesk key"),
        ('auth = "proxy"', "identity_header"),
        ('auth = "none"', "1: auth is 'none': expected one of passthrough, keys, proxy"),
        ('[[keys]]\nid = "a"\nsha256 = "zz"', "1: keys cannot be used: key 'a' needs the sha256"),
        ('[[keys]]\nid = "a b"', "1: keys cannot be used: key 1 needs an id"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nuser = "x"', "key 1 has 'user'"),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\nvalid_until = 5', "valid_until such as 2027-12-31"),
        (
            f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"\n[[keys]]\nid = "a"\nsha256 = "{DIGEST}"',
            "an earlier one",
        ),
        (f'[[keys]]\nid = "a"\nsha256 = "{DIGEST}"', 'set auth = "keys"'),
        ('\ntrusted_proxies = ["10.0.0.0/33"]', "2: trusted_proxies"),
        ('port = 1\n\nauth_check_url = "ftp://x"', "3: auth_check_url"),
    ],
)
def test_wrong_settings_say_where_and_what(tmp_path: Any, text: str, said: str) -> None:
    file = tmp_path / "frontdesk.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load_settings(environ={}, file=file)
    assert said in str(caught.value)
    assert DIGEST not in str(caught.value)


# --- what a tester got through with ----------------------------------------------------------------

PROXIED = {"identity_header": "x-user", "tenant_header": "x-tenant"}


def test_a_connection_that_was_reset_is_not_a_unix_socket() -> None:
    """uvicorn cannot tell the peer of a socket that was reset; a Unix socket has a path and no port."""
    named = [(b"x-user", b"boss")]
    proxy = Identity(Settings(auth="proxy", identity_header="x-user"))
    lost = {"type": "http", "headers": named, "client": None, "server": ("127.0.0.1", 8080)}
    with pytest.raises(Unauthorized):
        proxy.admit(lost)
    assert proxy.admit(lost | {"server": ("/run/frontdesk.sock", None)})[0].user == "boss"
    with pytest.raises(Unauthorized):
        proxy.admit(lost | {"server": None})
    assert not Identity(Settings()).admit(lost)[0].lent_key


def test_a_sender_that_resets_its_connection_names_nobody(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    body = json.dumps(AGENT).encode()
    with desk(shared_upstream.url, auth="proxy", trusted_proxies=ELSEWHERE, **PROXIED) as relay:
        for _ in range(20):
            client = RawClient(relay.port)
            client.send(post(body, "/v1/chat/completions", "x-user: boss"))
            client.leave(abort=True)
        ask(relay)
    assert shared_upstream.requests == []


@pytest.mark.parametrize(
    "fields",
    [
        ("x-user: mallory", "x-user: alice"),  # a proxy that adds its own after the client's
        ("x-user: alice", "X_User: mallory"),
        ("x-user: alice", "x-tenant: a", "x-tenant: b"),
        ("x-user: alice", "x-tenant: a b"),
        ("x-user: alice", f"x-tenant: {'a' * 65}"),
    ],
)
@pytest.mark.parametrize("answering", ["on", "observe"])
def test_names_that_contradict_each_other_name_nobody(
    desk: Desk, shared_upstream: ScriptedUpstream, fields: tuple[str, ...], answering: str
) -> None:
    body = json.dumps(AGENT).encode()
    for auth in ("proxy", "passthrough"):
        with desk(shared_upstream.url, Answering.of(answering), auth=auth, **PROXIED) as relay:
            with RawClient(relay.port) as client:
                client.send(post(body, "/v1/chat/completions", *fields))
                status = client.response()[0]
            assert relay.event().tenant == ""
        assert status == (401 if auth == "proxy" else 200)
    (received,) = shared_upstream.requests
    names = {name.replace("_", "-") for name, _ in received.fields}
    assert not names & {"x-user", "x-tenant"}


@pytest.mark.parametrize("answering", ["on", "observe"])
def test_an_underscore_does_not_carry_a_name_past_us(
    desk: Desk, shared_upstream: ScriptedUpstream, answering: str
) -> None:
    settings = PROXIED | {"trusted_proxies": ELSEWHERE}
    with (
        desk(shared_upstream.url, Answering.of(answering), **settings) as relay,
        RawClient(relay.port) as client,
    ):
        client.send(post(json.dumps(AGENT).encode(), "/v1/chat/completions", "X_User: boss"))
        client.response()
    assert b"boss" not in shared_upstream.last().head


def test_behind_a_proxy_only_those_it_names_get_the_servers_key(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    with desk(shared_upstream.url, api_key="sk-up", **PROXIED) as relay:
        ask(relay, AGENT, authorization="Bearer own")
        ask(relay, AGENT, authorization="Bearer own", x_user="ann")
    assert [r.headers["authorization"] for r in shared_upstream.requests] == ["Bearer own", "Bearer sk-up"]


def test_trailers_name_nobody(shared_upstream: ScriptedUpstream, demo: Pipeline) -> None:
    """uvicorn appends trailer fields to the headers; the protocol that we serve with does not."""
    settings = Settings(upstream=Upstream(base_url=shared_upstream.url), auth="proxy", log="off", **PROXIED)
    body = json.dumps(AGENT).encode()
    request = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
        + chunk(body)
        + b"0\r\nx-user: boss\r\n\r\n"
    )
    with serve(create_app(settings, host=Host(demo)), http=_protocol()) as served:
        for _ in range(2):
            with RawClient(served.port) as client:
                client.send(request)
                assert client.response()[0] == 401
    assert shared_upstream.requests == []


@pytest.mark.parametrize(
    "script",
    [
        [head("302 Found", "location: //:99999/", "content-length: 0")],
        [head("302 Found", "location: /elsewhere", "content-length: 0")],
        [b"HTTP/1.1 nonsense\r\n\r\n"],
        [head("500 No", "content-length: 0")],
        [b"HTTP/1.1 200 OK\r\n", 0.3, b"x: y\r\n", 0.3, Do.CLOSE],
        [Do.RESET],
    ],
    ids=["odd redirect", "redirect", "no HTTP", "500", "half", "reset"],
)
def test_whatever_the_check_url_does_the_turn_is_forwarded(
    desk: Desk, shared_upstream: ScriptedUpstream, script: list[Step]
) -> None:
    with ScriptedUpstream() as check:
        check.script = script
        with desk(shared_upstream.url, public=False, auth_check_url=check.url) as relay:
            for _ in range(2):
                response = ask(relay, authorization="Bearer good")
                assert response.headers["x-frontdesk-reason"] == "unverified_caller"
    assert len(check.requests) == 1


def test_a_check_that_never_ends_is_given_up(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    """A byte now and then must not reset the time, and the body of the answer does not matter."""
    drip: list[Step] = [part for _ in range(100) for part in (b"x: y\r\n", 0.2)]
    with ScriptedUpstream() as check:
        check.scripts += [[b"HTTP/1.1 200 OK\r\n", *drip]]
        check.script = [head("200 OK", "content-length: 1000000000"), Do.STALL]
        with desk(shared_upstream.url, public=False, auth_check_url=check.url) as relay:
            slow = ask(relay, authorization="Bearer slow")
            endless = ask(relay, authorization="Bearer endless")
    assert slow.headers["x-frontdesk-reason"] == "unverified_caller"
    assert endless.headers["x-frontdesk-path"] == "faq"


def test_no_cookie_of_one_caller_speaks_for_another(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    def script(received: Received) -> list[Step]:
        fields = dict(received.fields)
        good = "good" in fields["authorization"] or "session" in fields.get("cookie", "")
        return [
            head("200 OK" if good else "401 No", "set-cookie: session=alice; path=/", "content-length: 0")
        ]

    with ScriptedUpstream() as check:
        check.script = script
        with desk(shared_upstream.url, public=False, auth_check_url=check.url) as relay:
            paths = [
                ask(relay, authorization=f"Bearer {who}").headers["x-frontdesk-path"]
                for who in ("good", "bad")
            ]
    assert paths == ["faq", "agent"]
    assert all("cookie" not in dict(r.fields) for r in check.requests)


def test_credentials_of_any_bytes_are_checked_or_forwarded(
    desk: Desk, shared_upstream: ScriptedUpstream
) -> None:
    body = json.dumps(FAQ).encode()
    with ScriptedUpstream() as check:
        check.script = [head("204 OK")]
        with desk(shared_upstream.url, public=False, auth_check_url=check.url) as relay:
            found = []
            for fields in (("authorization: Bearer caf\xe9",), ("authorization: a", "authorization: b")):
                with RawClient(relay.port) as client:
                    top = post(body, "/v1/chat/completions", *fields)
                    client.send(top.decode("utf-8").encode("latin-1") if "\xe9" in fields[0] else top)
                    found.append(client.response()[1]["x-frontdesk-path"])
    assert found == ["faq", "agent"]  # of two credentials the agent might judge the other one
    assert dict(check.last().fields)["authorization"] == "Bearer caf\xe9"


def test_debug_headers_tell_strangers_nothing(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    with desk(shared_upstream.url, public=False) as relay:
        for body in (FAQ, AGENT):
            headers = ask(relay, body, x_frontdesk_debug="1").headers
            assert not {n for n in headers if n.startswith("x-frontdesk-")} - {
                "x-frontdesk-schema", "x-frontdesk-path", "x-frontdesk-reason",
            }  # fmt: skip


def test_the_list_of_models_is_not_ours_to_open(desk: Desk, shared_upstream: ScriptedUpstream) -> None:
    shared_upstream.script = json_answer(b'{"error":{"message":"no key"}}', "401 Unauthorized")
    with desk(shared_upstream.url) as relay, open_client(relay.url) as client:
        response = client.get("/v1/models?limit=3")
    assert (response.status_code, response.json()) == (401, {"error": {"message": "no key"}})
    assert shared_upstream.last().target == "/v1/models?limit=3"


@pytest.mark.parametrize(
    "text",
    [
        'identity_header = "authorization"',
        'identity_header = "Host"',
        'identity_header = "x-frontdesk-user"',
        'tenant_header = "x_tenant"',
        'identity_header = "x-user"\ntenant_header = "X-User"',
        'trusted_proxies = ["::ffff:10.0.0.0/104"]',
        'auth_check_url = "http://[v1.a]/"',
        '[upstream]\nbase_url = "http://\u2603.com"',
        'port = "８０８０"',
        'port = "8_0"',
        'answering = "0_1"',
    ],
)
def test_settings_that_would_weaken_are_refused(tmp_path: Any, text: str) -> None:
    file = tmp_path / "frontdesk.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError):
        load_settings(environ={}, file=file)


def test_the_check_url_keeps_its_slash(tmp_path: Any) -> None:
    file = tmp_path / "frontdesk.toml"
    file.write_text('auth_check_url = "https://h/check/"', "utf-8")
    assert load_settings(environ={}, file=file).auth_check_url == "https://h/check/"
