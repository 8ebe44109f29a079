"""Every bad input, at a real server with the demo bundle and a scripted agent behind it.

Framing, and what test_admit sends without a bundle, is not repeated here.
"""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import pytest
from servers import ROOT, Desk, RawClient, Relay, ScriptedUpstream, chunk, completion, head, json_answer, post

CHAT = "/v1/chat/completions"
QUESTION = "what are the office hours"
MAX_BODY = 1_000_000  # the default
INSIDES = re.compile(rf"Traceback|\.py\b|site-packages|{re.escape(str(ROOT))}|/home/|/tmp/|models/demo")

Response = tuple[int, dict[str, str], bytes]


def chat(content: Any = QUESTION, **options: Any) -> bytes:
    return turns({"role": "user", "content": content}, **options)


def turns(*messages: Any, **options: Any) -> bytes:
    return json.dumps({"messages": messages, **options}).encode()


def with_raw(raw: bytes) -> bytes:
    """A chat body with one more option, ``raw`` as it stands."""
    return chat()[:-1] + b', "x": ' + raw + b"}"


@pytest.fixture(scope="module")
def shared_relay(desk: Desk, shared_upstream: ScriptedUpstream) -> Iterator[Relay]:
    with desk(shared_upstream.url) as relay:
        yield relay


@pytest.fixture
def upstream(shared_upstream: ScriptedUpstream) -> ScriptedUpstream:
    shared_upstream.reset()
    shared_upstream.script = json_answer(completion("from the agent"))
    return shared_upstream


@pytest.fixture
def wire(relay: Relay) -> Iterator[RawClient]:
    """A connection, which after the test must still be good for a question."""
    with RawClient(relay.port) as client:
        yield client
        client.send(post(chat()))
        status, fields, _ = client.response()
        assert (status, fields["x-frontdesk-path"], fields["x-frontdesk-reason"]) == (200, "faq", "exact")
        assert client.got == b"", "more than one response a request"


def error_of(response: Response, status: int, code: str, param: str | None = None) -> str:
    """The message of an error that is ours, OpenAI-shaped and without insides."""
    got, fields, body = response
    assert (got, fields["content-type"]) == (status, "application/json"), body
    error = json.loads(body)["error"]
    assert (error.keys(), error["code"], error["param"]) == (
        {"message", "type", "param", "code"},
        code,
        param,
    )
    assert error["type"] in ("invalid_request_error", "not_found_error", "server_error")
    assert (fields["x-frontdesk-path"], fields["x-frontdesk-reason"]) == ("error", code)
    assert not INSIDES.search(body.decode()), body
    message: str = error["message"]
    assert message
    return message


# --- refused: nothing could read it ---------------------------------------------------------------

NO_JSON = {
    "words": b"hello",
    "a form": b"messages=hi&model=m",
    "multipart": b'--x\r\ncontent-disposition: form-data; name="messages"\r\n\r\nhi\r\n--x--\r\n',
    "gzip": gzip.compress(chat()),
    "only spaces": b" \r\n\t ",
    "only a byte order mark": b"\xef\xbb\xbf",
    "two byte order marks": b"\xef\xbb\xbf\xef\xbb\xbf" + chat(),
    "UTF-16 with a mark": chat().decode().encode("utf-16"),
    "UTF-16-LE": chat().decode().encode("utf-16-le"),
    "UTF-16-BE": chat().decode().encode("utf-16-be"),
    "UTF-32": chat().decode().encode("utf-32"),
    "GBK": '{"messages":[{"role":"user","content":"几点上班"}]}'.encode("gbk"),
    "an overlong form": b'{"messages":[{"role":"user","content":"\xc0\xaf"}]}',
    "a surrogate in UTF-8": b'{"messages":[{"role":"user","content":"\xed\xa0\xbd"}]}',
    "single quotes": b"{'messages': []}",
    "a trailing comma": chat()[:-1] + b",}",
    "a comment": b"// hi\n" + chat(),
    "a NUL at the end": chat() + b"\0",
    "two documents": chat() + b"\n" + chat(),
    "a raw line break in a text": chat("a").replace(b'"a"', b'"a\nb"'),
    "a raw NUL in a text": chat("a").replace(b'"a"', b'"a\0b"'),
    "a number": b"7",
    "true": b"true",
    "10,000 lists": b"[" * 10_000 + b"]" * 10_000,
    "10,000 lists in messages": b'{"messages":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "10,000 objects in an option": with_raw(b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    "NaN": with_raw(b"NaN"),
    "Infinity": with_raw(b"Infinity"),
    "-Infinity": with_raw(b"[-Infinity]"),
    "1e999": with_raw(b"1e999"),
    "-1e999": with_raw(b"-1e999"),
    "an integer of 5,000 digits": with_raw(b"9" * 5_000),
    "a minus alone": with_raw(b"-"),
    "a leading zero": with_raw(b"01"),
    "hex": with_raw(b"0x1F"),
}
ODD_MESSAGES = ["hi", 0, False, {}, [7], [None], [[]], ["hi"], [{}, "hi"], [{"role": "user"}, None]]


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON.keys())
def test_what_is_no_json_is_a_400(
    relay: Relay, upstream: ScriptedUpstream, wire: RawClient, body: bytes
) -> None:
    wire.send(post(body))
    error_of(wire.response(), 400, "invalid_json")
    assert not upstream.requests
    event = relay.event()
    assert (event.status, event.outcome, event.upstream_status) == (400, "invalid_json", None)


@pytest.mark.parametrize("messages", ODD_MESSAGES, ids=repr)
def test_messages_of_another_kind_are_a_400(
    upstream: ScriptedUpstream, wire: RawClient, messages: Any
) -> None:
    wire.send(post(json.dumps({"messages": messages}).encode()))
    assert "list of objects with 'role'" in error_of(wire.response(), 400, "invalid_type", "messages")
    assert not upstream.requests


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(b"", "empty|send", id="empty"),
        pytest.param(chat().decode().encode("utf-16"), "UTF-8", id="UTF-16"),
        pytest.param(with_raw(b"9" * 5_000), "digits", id="5,000 digits"),
        pytest.param(b"null", "must be a JSON object", id="null"),
        pytest.param(b"[]", "must be a JSON object", id="list"),
        pytest.param(b"[" * 10_000, "nested too deeply", id="deep"),
        pytest.param(b"{'a'}", "line 1 column 2", id="quotes"),
        pytest.param(with_raw(b"NaN"), "NaN is no number", id="NaN"),
        pytest.param(b"{}", "send a list of messages", id="no messages"),
    ],
)
def test_an_error_says_what_to_do_and_not_what_python_says(wire: RawClient, body: bytes, told: str) -> None:
    wire.send(post(body))
    message = json.loads(wire.response()[2])["error"]["message"]
    assert re.search(told, message), message
    assert not re.search(r"codec|NoneType|sys\.|set_int_max", message), message


def test_an_error_repeats_only_a_little_of_what_was_sent(wire: RawClient) -> None:
    wire.send(post(with_raw(b"9" * 100_000 + b".5")))
    response = wire.response()
    error_of(response, 400, "invalid_json")
    assert len(response[2]) < 1_000


# --- size -----------------------------------------------------------------------------------------


def chunked(body: bytes) -> bytes:
    top = f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    parts = (body[at : at + 60_000] for at in range(0, len(body), 60_000))
    return top + b"".join(map(chunk, parts)) + b"0\r\n\r\n"


@pytest.mark.parametrize("encode", [post, chunked], ids=["length", "chunked"])
@pytest.mark.parametrize("text", ["a", "几", " ", "\u200b"], ids=ascii)
def test_a_megabyte_of_text_is_forwarded_and_more_is_a_413(
    upstream: ScriptedUpstream, wire: RawClient, encode: Any, text: str
) -> None:
    room = MAX_BODY - len(chat(""))
    most = chat("").replace(b'""', b'"' + (text * room).encode()[:room] + b'"')
    most = most.decode(errors="ignore").encode()  # no half character
    wire.send(encode(most))
    status, fields, body = wire.response()
    assert (status, fields["x-frontdesk-path"]) == (200, "agent")
    assert fields["x-frontdesk-reason"] == "too_long"
    assert body == completion("from the agent")
    assert upstream.last().body == most
    wire.send(encode(most + b" " * 2_000_000))
    assert f"larger than {MAX_BODY} bytes" in error_of(wire.response(), 413, "request_too_large")
    assert len(upstream.requests) == 1


# --- forwarded as it came: the agent's to judge ---------------------------------------------------


def part(kind: str, **inside: Any) -> list[Any]:
    return [{"type": "text", "text": QUESTION}, {"type": kind, kind: inside}]


USER, HI = {"role": "user", "content": QUESTION}, {"role": "assistant", "content": "hi"}
TWICE_MESSAGES = (
    b'{"messages":[{"role":"user","content":"x"}],"messages":[{"role":"user","content":"qq ww"}]}'
)
TWICE_N = chat()[:-1] + b', "n": 1, "n": 2}'

FORWARDED: dict[str, tuple[bytes, str]] = {
    # content
    "empty": (chat(""), "unsupported_language"),
    "only spaces": (chat(" \u3000\n\t "), "unsupported_language"),
    "null": (chat(None), "unsupported_language"),
    "no content": (turns({"role": "user"}), "unsupported_language"),
    "no parts": (chat([]), "unsupported_language"),
    "an empty part": (chat([{"type": "text", "text": ""}]), "unsupported_language"),
    "content 7": (chat(7), "attachment"),
    "content an object": (chat({"type": "text", "text": QUESTION}), "attachment"),
    "content a bool": (chat(False), "attachment"),
    "a part that is a text": (chat([QUESTION]), "attachment"),
    "a part that is null": (chat([{"type": "text", "text": QUESTION}, None]), "attachment"),
    "a part without a text": (chat([{"type": "text"}]), "attachment"),
    "a part whose text is 7": (chat([{"type": "text", "text": 7}]), "attachment"),
    "an unknown part": (chat(part("hologram", x=1)), "attachment"),
    "an image": (chat(part("image_url", url="data:image/png;base64,AAAA")), "attachment"),
    "an audio": (chat(part("input_audio", data="AAAA", format="wav")), "attachment"),
    "a file": (chat(part("file", file_id="file-1")), "attachment"),
    "an image in the turn before": (
        turns({"role": "user", "content": part("image_url")}, USER),
        "attachment",
    ),
    # the last turn is not the user's
    "assistant last": (turns(USER, HI), "client_options"),
    "tool last": (turns(USER, {"role": "tool", "tool_call_id": "c", "content": QUESTION}), "client_tools"),
    "system last": (turns(USER, {"role": "system", "content": QUESTION}), "client_options"),
    "developer alone": (turns({"role": "developer", "content": QUESTION}), "client_options"),
    "an unknown role": (turns({"role": "narrator", "content": QUESTION}), "client_options"),
    "role 7": (turns({"role": 7, "content": QUESTION}), "client_options"),
    "role a list": (turns({"role": ["user"], "content": QUESTION}), "client_options"),
    "role an object": (turns({"role": {}, "content": QUESTION}), "client_options"),
    "no role": (turns({"content": QUESTION}), "client_options"),
    "an empty message": (turns({}), "client_options"),
    "300,000 empty messages": (b'{"messages":[' + b"{}," * 299_999 + b"{}]}", "client_options"),
    # options
    "n 0": (chat(n=0), "client_options"),
    "n 2": (chat(n=2), "client_options"),
    'stream "yes"': (chat(stream="yes"), "client_options"),
    "temperature hot": (chat(temperature="hot"), "client_options"),
    "max_tokens -1": (chat(max_tokens=-1), "client_options"),
    "max_tokens a text": (chat(max_tokens="many"), "client_options"),
    "user {}": (chat(user={}), "client_options"),
    "model 7": (chat(model=7), "client_options"),
    "model {}": (chat(model={}), "client_options"),
    "tools 7": (chat(tools=7), "client_tools"),
    "tool_calls 7": (turns({**USER, "tool_calls": 7}), "client_tools"),
    "stream_options []": (chat(stream_options=[]), "client_options"),
    "stream_options [], streamed": (chat(stream=True, stream_options=[]), "client_options"),
    "stream_options a text, streamed": (chat(stream=True, stream_options="usage"), "client_options"),
    "unknown options": (chat(x_new={"deep": [1, None]}, **{"": 0, "a\r\nb: c": 1}), "client_options"),
    "an unknown field": (turns({**USER, "mood": "\ud800"}), "attachment"),
    # JSON that a parser would change
    "900 lists": (with_raw(b"[" * 900 + b"]" * 900), "client_options"),
    "numbers": (
        with_raw(b"[1e-999,-0.0,1.0000000000000000001,1E+2," + b"9" * 4_000 + b"]"),
        "client_options",
    ),
    "messages twice": (TWICE_MESSAGES, "out_of_scope"),
    "an option twice": (TWICE_N, "client_options"),
    "a key twice in a message": (
        b'{"messages":[{"role":"user","role":"x","content":"hi"}]}',
        "client_options",
    ),
    "a byte order mark": (b"\xef\xbb\xbf" + chat(n=2), "client_options"),
    "odd spaces": (b" \r\n" + chat(n=2).replace(b":", b" :\t") + b"\n\n", "client_options"),
    "escapes": (b'{"messages":[{"role":"\\u0075ser","content":"\\/"}],"n":2}', "client_options"),
}


@pytest.mark.parametrize(("body", "reason"), FORWARDED.values(), ids=FORWARDED.keys())
def test_what_is_the_agents_to_judge_goes_up_byte_for_byte(
    upstream: ScriptedUpstream, wire: RawClient, body: bytes, reason: str
) -> None:
    wire.send(post(body))
    status, fields, answer = wire.response()
    assert (status, fields["x-frontdesk-path"]) == (200, "agent"), answer
    if reason != "out_of_scope":  # which of the router's objections comes first is not the point
        assert fields["x-frontdesk-reason"] == reason
    assert answer == completion("from the agent")
    assert [received.body for received in upstream.requests] == [body]


@pytest.mark.parametrize("value", [7, 1.5, True, [{}], [[]]], ids=repr)
def test_stream_options_of_any_kind_go_up(upstream: ScriptedUpstream, wire: RawClient, value: Any) -> None:
    body = chat(stream=True, stream_options=value)
    wire.send(post(body))
    assert wire.response()[1]["x-frontdesk-reason"] == "client_options"
    assert upstream.last().body == body


def test_classify_takes_each_of_them_too(relay: Relay, client: httpx2.Client) -> None:
    for name, (body, _) in FORWARDED.items():
        if len(body) > 100_000:
            continue
        answer = client.post(
            "/v1/classify", content=b'{"input": [' + body.removeprefix(b"\xef\xbb\xbf") + b"]}"
        )
        assert (answer.status_code, len(answer.json()["data"])) == (200, 1), name


# --- text -----------------------------------------------------------------------------------------

TEXTS = {
    "a lone high surrogate": "\ud83d",
    "a lone low surrogate": "\ude00",
    "surrogates the wrong way round": "\ude00\ud83d",
    "emoji": "👩‍💻🏳️‍🌈",
    "right to left": "\u202e\u2067ما هي",
    "zero width": "\u200b\u200c\u200d\u2060\ufeff",
    "controls": "\0\x07\x1b[31m\x7f\x85",
    "line ends": "\r\n\u2028\u2029\x0b\x0c",
    "non-characters": "\uffff\ufdd0\U0010ffff",
    "tags": "\U000e0041" * 50,
    "private use": "\ue000\U000f0000",
    "marks": "a" + "\u0301" * 2_000,
    "one that NFKC makes long": "\ufdfa" * 2_000,
}


@pytest.mark.parametrize("place", ["{}", QUESTION + " {}", "what {}are the office hours"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_any_text_is_answered_or_goes_up_byte_for_byte(
    upstream: ScriptedUpstream, wire: RawClient, text: str, place: str
) -> None:
    message = {"role": "user", "content": place.format(text)}
    bodies = [turns(message), turns(USER, HI, message, n=2)]
    if not re.search("[\ud800-\udfff]", text):  # UTF-8 has no lone surrogates, only JSON's escapes have
        bodies += [json.dumps(json.loads(body), ensure_ascii=False).encode() for body in bodies]
    for number, body in enumerate(bodies):
        upstream.requests.clear()
        wire.send(post(body, CHAT, "x-frontdesk-debug: 1"))
        status, fields, answer = wire.response()
        assert status == 200, answer
        assert fields["x-frontdesk-reason"] != "not_ready"
        path = fields["x-frontdesk-path"]
        assert path == "agent" or (path == "faq" and number % 2 == 0 and place != "{}")
        assert [received.body for received in upstream.requests] == ([body] if path == "agent" else [])


# --- headers --------------------------------------------------------------------------------------


def test_headers_that_come_twice_go_up_twice_in_order(upstream: ScriptedUpstream, wire: RawClient) -> None:
    twice = ["authorization: Bearer a", "content-type: a/b", "openai-beta: x=1", "x-stainless-os: 1"]
    twice += ["openai-beta: x=2", "authorization: Bearer b", "content-type: c/d", "x-stainless-os: \xe9"]
    body = chat(n=2)
    top = "\r\n".join([f"POST {CHAT} HTTP/1.1", "host: a", f"content-length: {len(body)}", *twice, "", ""])
    wire.send(top.encode("latin-1") + body)
    assert wire.response()[0] == 200
    names = {"authorization", "content-type", "openai-beta", "x-stainless-os"}
    got = [f"{name}: {value}" for name, value in upstream.last().fields if name in names]
    assert got == twice
    assert upstream.last().body == body


def test_our_own_headers_may_come_twice_and_be_nonsense(upstream: ScriptedUpstream, wire: RawClient) -> None:
    odd = ["x-frontdesk-budget-ms: -1", "x-frontdesk-budget-ms: 1e9", "x-frontdesk-debug: 7"]
    odd += [
        "x-request-id: a",
        "x-request-id: b",
        "traceparent: x",
        "x-frontdesk-hints: v=9",
        "x-frontdesk-path: faq",
    ]
    wire.send(post(chat(n=2), CHAT, *odd))
    status, fields, _ = wire.response()
    assert (status, fields["x-frontdesk-path"], fields["x-request-id"]) == (200, "agent", "a")
    received = upstream.last()
    assert (received.headers["x-request-id"], "v=9" in received.headers["x-frontdesk-hints"]) == ("a", False)
    assert "x-frontdesk-path" not in received.headers


# --- methods and paths ----------------------------------------------------------------------------


def request(method: str, path: str = CHAT) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n".encode("latin-1")


@pytest.mark.parametrize("method", ["HEAD", "GET", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_another_method_on_chat_is_passed_through(
    upstream: ScriptedUpstream, wire: RawClient, method: str
) -> None:
    upstream.script = [head("204 No Content", "x-a: 1")]
    wire.send(request(method))
    top = wire.read_until(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 204 ")
    assert b"x-frontdesk-reason: bypass\r\n" in top
    assert [(r.method, r.target, r.body) for r in upstream.requests] == [(method, CHAT, b"")]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [("/v1/classify", "POST"), ("/health/liveness", "GET"), ("/health/readiness", "GET")],
)
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_another_method_on_what_is_ours_is_a_405(
    upstream: ScriptedUpstream, wire: RawClient, path: str, allowed: str, method: str
) -> None:
    wire.send(request(method, path))
    response = wire.response()
    assert error_of(response, 405, "method_not_allowed") == f"{path} takes {allowed}, got {method}."
    assert not upstream.requests
    assert response[1]["allow"].startswith(allowed)  # RFC 9110, section 15.5.6


@pytest.mark.parametrize("method", ["TRACE", "CONNECT"])
@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
def test_trace_and_connect_are_not_passed_on(
    relay: Relay, upstream: ScriptedUpstream, method: str, path: str
) -> None:
    with RawClient(relay.port) as client:
        client.send(request(method, path))
        error_of(client.response(), 405, "method_not_allowed")
    assert not upstream.requests


@pytest.mark.parametrize(
    "path",
    [
        CHAT + "//",
        "/v1/chat%2Fcompletions",
        CHAT + "?x=1&x=",
        CHAT + "#f",
        "http://x" + CHAT,
        "/v1%2Fchat/completions",
    ],
)
def test_other_spellings_of_chat_are_chat(upstream: ScriptedUpstream, wire: RawClient, path: str) -> None:
    wire.send(post(chat(), path))
    assert wire.response()[1]["x-frontdesk-reason"] == "exact"
    assert not upstream.requests


@pytest.mark.parametrize(
    "path",
    [
        *("/v1//chat/completions", "/v1/Chat/completions", "/v1/chat"),
        *(CHAT + end for end in ("%00", "%20", ";a", "/x")),
        *("/v1/" + rest for rest in ("%", "%zz", "%ff", "%c3%28", "a%0d%0ab:c", "a" * 30_000)),
    ],
    ids=lambda path: path[:32],
)
def test_what_only_looks_like_chat_is_passed_through_as_it_came(
    upstream: ScriptedUpstream, wire: RawClient, path: str
) -> None:
    wire.send(post(b"not JSON", path))
    status, fields, _ = wire.response()
    assert (status, fields["x-frontdesk-path"], fields["x-frontdesk-reason"]) == (200, "agent", "bypass")
    assert (upstream.last().target, upstream.last().body) == (path, b"not JSON")


@pytest.mark.parametrize(
    "path",
    [
        *("/V1/chat/completions", "//v1/chat/completions", "/chat/completions", "*", "/v1%2Fx", "/%76%31/x"),
        *("/v1/chat/../chat/completions", "/v1/chat/%2e%2e/chat/completions"),
    ],
)
def test_what_lies_elsewhere_is_a_404(upstream: ScriptedUpstream, wire: RawClient, path: str) -> None:
    wire.send(post(chat(), path))
    assert "the API lies under /v1" in error_of(wire.response(), 404, "not_found")
    assert not upstream.requests


@pytest.mark.parametrize(
    "sent",
    [
        *(request("GET", path) for path in ("/v1/a b", "v1/x", CHAT + "?q=\xff", "/v1/" + "a" * 70_000)),
        *(request(method) for method in ("post", "BREW")),
    ],
    ids=lambda sent: repr(sent[:24]),
)
def test_what_is_no_http_is_a_400_and_closed(relay: Relay, upstream: ScriptedUpstream, sent: bytes) -> None:
    with RawClient(relay.port) as client:
        client.send(sent)
        got = client.read_all()
    assert re.match(rb"HTTP/1\.1 400 ", got) or not got
    assert not INSIDES.search(got.decode("latin-1"))
    assert not upstream.requests
    with RawClient(relay.port) as client:
        client.send(post(chat()))
        assert client.response()[0] == 200


def test_many_bad_requests_at_once_hurt_nobody(relay: Relay, upstream: ScriptedUpstream) -> None:
    bad: Sequence[bytes] = [body for body in NO_JSON.values() if len(body) < 3_000]
    with RawClient(relay.port) as client:
        client.send(b"".join(post(body) + post(chat()) for body in bad))
        for _ in bad:
            error_of(client.response(), 400, "invalid_json")
            assert client.response()[1]["x-frontdesk-reason"] == "exact"
    assert not upstream.requests
