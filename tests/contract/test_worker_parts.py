"""The parts of the isolate, one by one in workerd, give what Python's give for the same input."""

import json
import random
import unicodedata
from collections.abc import Callable, Iterator
from datetime import date
from itertools import pairwise, product
from typing import Any

import httpx2
import pytest
from isolates import PROBE, heap_bytes, workerd
from servers import DEMO, ROOT, delta, open_client

from edge import doubts
from edge.bundle import SCHEMA_VERSION, load_bundle
from edge.decision import Filled
from edge.guards import han_number
from edge.hints import Hints, format_hints, parse_keys, sign_hints
from edge.normaliser import Normaliser
from edge.pipeline import place
from edge.query import Query
from edge.slots import SlotFiller, SlotSet
from edge.sse import EventReader
from export.desk_reader import load_desk
from export.slots import slot_data
from export.tools import tool_entry

Call = Callable[..., list[Any]]
PYTHON_3_11 = unicodedata.unidata_version == "14.0.0"
ASCII = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def call() -> Iterator[Call]:
    """``call(name, rows)``: what a part of the isolate makes of each row."""
    with workerd(PROBE) as isolate, open_client(isolate.url) as client:
        client.timeout = httpx2.Timeout(60)

        def called(name: str, rows: list[Any], **options: Any) -> list[Any]:
            body = json.dumps({"call": name, "rows": rows, **options})  # ASCII: lone surrogates as escapes
            response = client.post("/", content=body.encode(), headers=ASCII)
            assert response.status_code == 200, response.text
            return list(response.json())

        yield called


def test_the_schema_is_the_same(call: Call) -> None:
    assert call("schema", [0]) == [SCHEMA_VERSION]


# --- unicode -----------------------------------------------------------------------------------


@pytest.mark.skipif(not PYTHON_3_11, reason="the worker knows Unicode 14.0, as Python 3.11 does")
def test_every_code_point_folds_and_is_told_as_in_python(call: Call) -> None:
    blocks = [
        (0, 0xD800),
        *((start, start + 0x10000) for start in range(0xE000, 0x10E000, 0x10000)),
        (0x10E000, 0x110000),
    ]
    for (start, end), found in zip(blocks, call("unicode", blocks), strict=True):
        folded = {point: (composed, small) for point, composed, small in found["folded"]}
        for point in range(start, end):
            char = chr(point)
            kinds = char.isalpha() + 2 * (char.isalpha() or char.isnumeric()) + 4 * char.isprintable()
            expected = (unicodedata.normalize("NFKC", char), char.lower())
            assert folded.get(point, (char, char)) == expected, hex(point)
            assert int(found["kinds"][point - start]) == kinds, hex(point)


@pytest.mark.skipif(not PYTHON_3_11, reason="the worker knows Unicode 14.0, as Python 3.11 does")
def test_every_code_point_folds_beside_others_as_in_python(call: Call) -> None:
    """A final sigma, an accent, a jamo: what a letter becomes may hang on its neighbours."""
    points = [*range(1, 0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200)]
    small = [f"aΣ{chr(p)} aΣ{chr(p)}a {chr(p)}Σ a{chr(p)}Σ" for p in points]
    assert call("lower", small) == [text.lower() for text in small]
    composed = [f"e{chr(p)}\u0301\u0327 \u1100{chr(p)}\u11a8 {chr(p)}\u0338" for p in points]
    assert call("nfkc", composed) == [unicodedata.normalize("NFKC", text) for text in composed]


def odd_texts() -> list[str]:
    """Texts of many scripts and signs, with what is invisible, doubled, composed or broken between them."""
    rng = random.Random(7)
    pieces = [
        "what time", "几点上班", "ＦＵＬＬ　ｗｉｄｔｈ", "幾點上班", "ﬁnance", "H\u0331", "İstanbul", "ΑΣ", "don’t", "“quoted”", "１２３",
        "👩‍💻", "e\u0301", "\u200b", "\u202e", "\ufeff", "\u00ad", "\ud800", "\u3000", "\t", "\x07", "ß", "ŉ", "한국어", "привет", "שלום",
        "ﷺ", "㈱", "½", "٣", "𝔘𝔫𝔦", "𠮷野家", "\U000323af", "\u31bb", "ー", "…", "!!", "？", "  ", "-", "7天",
    ]  # fmt: skip
    joined = ["".join(rng.choices(pieces, k=rng.randint(1, 6))) for _ in range(3000)]
    return [*pieces, *joined, "", " " * 9, "x" * 5000, "你" * 3000, "👩‍💻" * 900]


def test_texts_are_read_alike(call: Call) -> None:
    normaliser = load_bundle(DEMO).normaliser
    texts = odd_texts()
    for text, found in zip(texts, call("normalise", texts), strict=True):
        reading = normaliser.reading(text)
        assert found == [
            reading,
            normaliser.typed(text),
            normaliser.exact(reading),
            normaliser.lang(reading),
        ], ascii(text)


# --- numbers, days, slots ----------------------------------------------------------------------


def test_han_numerals(call: Call) -> None:
    rng = random.Random(3)
    numerals = [
        "半",
        "半半",
        "两百五",
        "一百零五",
        "三千五",
        "一万",
        "万",
        "十",
        "一千零一十半",
        "九" * 20,
        "九" * 21,
        "九" * 19 + "半",
    ]
    numerals += [
        "".join(rng.choices("零〇一二两三四五六七八九十百千万半", k=rng.randint(1, 9))) for _ in range(2000)
    ]
    ours = [han_number(numeral) for numeral in numerals]
    assert call("number", numerals) == [None if n is None else str(n) for n in ours]


def test_the_words_of_doubt_are_the_same(call: Call) -> None:
    [theirs] = call("doubts", [0])
    assert theirs == {name: getattr(doubts, name).pattern for name in theirs}
    assert set(theirs) == {name for name, value in vars(doubts).items() if hasattr(value, "pattern")}


SAID = [
    "next friday", "this friday", "下周五", "上个月", "30 june", "30 june 2025", "6/30", "12/31/2024", "2月29日", "3点半", "half past 3 pm",
    "明早九点一刻", "两百五十块", "-5", "负3天", "1,024", "12.0 yuan", "1.5万", "25年6月", "room 1024", "二十多人", "twenty five people",
    "2024 june", "订单1024", "order 20250630", "EX-2041", "ex-2041", "13800138000", "去年12月", "6到8月", "except june", "两天前", "in 3 weeks",
    "北京", "beijing", "usd 500", "100 美元换人民币", "from 3pm to 5pm", "𠮷 30 june", "5-6 people", "at least 3", "2025-07", "月底", "",
]  # fmt: skip


def test_slots_are_filled_alike(call: Call) -> None:
    desk, data, normaliser = load_desk(ROOT / "examples/desk"), slot_data(), Normaliser()
    tools = json.loads(json.dumps([tool_entry(tool, normaliser) for tool in desk.tools]))
    asked = [q.text for q in desk.calibrate if any(char.isdigit() for char in q.text)][:600]
    texts = [*asked, *(f"{a} {b}" for a, b in product(SAID, SAID))]
    days = [date(2025, 7, 16), date(2024, 2, 29), date(2025, 12, 31)]
    rows = [(text, str(days[i % 3])) for i, text in enumerate(texts)]
    filler = SlotFiller.of_data({t["name"]: SlotSet.of_data(t) for t in tools}, data, normaliser)
    [found] = call("slots", [{"tools": tools, "data": data, "texts": rows}])
    filled = 0
    for (text, today), theirs in zip(rows, found, strict=True):
        said = filler.suggest(filler.tools, Query.of_text(text, normaliser), date.fromisoformat(today))
        ours = [[[name, shown(slot)] for name, slot in one.slots.items()] for one in said]
        assert theirs == ours, (text, today)
        filled += sum("value" in slot for one in ours for _, slot in one)
    assert filled > 1000


def shown(slot: Any) -> dict[str, Any]:
    if isinstance(slot, Filled):
        return {"value": slot.value, "text": slot.text}
    return {"missing": slot.reason, "required": slot.required}


# --- hints -------------------------------------------------------------------------------------

KEY = "2026-12:an-example-secret-of-no-use-to-anybody"


def made_hints() -> list[Hints]:
    rng = random.Random(5)
    names = ["shop.order_status", "staff.leave", "年假", 'a"b\\c', "x" * 60, "naïve %", "👩‍💻"]
    values: list[Any] = [
        "1024",
        "北京",
        12,
        -3,
        10**15 - 1,
        12.0,
        0.5,
        -0.0,
        1234.567,
        True,
        False,
        'say "hi" 100%',
        "\\",
    ]

    def one() -> Hints:
        some = [(rng.choice(names), rng.random()) for _ in range(rng.randint(0, 3))]
        long = rng.random() < 0.2
        return Hints(
            topic=rng.choice([None, *names]),
            confidence=rng.choice([None, 0.0, 1.0, 0.8090000152587891, 0.9999999, rng.random()]),
            top=tuple(some),
            lang=rng.choice([None, "zh", "en"]),
            reason=rng.choice([None, "topic_forwards", "not a token"]),
            tools=tuple(rng.choices(names, k=rng.randint(0, 40 if long else 3))),
            slots={
                f"{name}_{i}": rng.choice(values)
                for i in range(rng.randint(0, 200 if long else 4))
                for name in ["order"]
            },
            complexity=rng.choice([None, "single"]),
            length=rng.choice([None, "short"]),
            tier=rng.choice([None, "small"]),
            budget_ms=rng.choice([None, 0, 1998]),
            bundle=rng.choice([None, "demo@1c0ffee", "桌@1", "b" * 3000]),
        )

    return [one() for _ in range(2000)]


def as_row(hints: Hints) -> dict[str, Any]:
    """The hints as JSON; a float among the slots is told from a whole number by its list."""
    slots = {name: [value] if type(value) is float else value for name, value in hints.slots.items()}
    row = {
        name: getattr(hints, name)
        for name in ("topic", "confidence", "top", "lang", "reason", "tools", "bundle")
    }
    row |= {name: getattr(hints, name) for name in ("complexity", "length", "tier")}
    return {**row, "slots": slots, "budgetMs": hints.budget_ms}


def test_any_hints_make_the_same_header(call: Call) -> None:
    hints = made_hints()
    headers = [format_hints(one) for one in hints]
    assert call("hints", [as_row(one) for one in hints]) == headers
    assert (
        sum(one.slots != {} and "slots=" not in header for one, header in zip(hints, headers, strict=True))
        > 50
    )


def test_signatures_are_the_same(call: Call) -> None:
    [key] = parse_keys(KEY)
    rows = [
        ("v=1", "req_1", '{"a":"你好"}', 1796115600),
        ("", "x", "", 0),
        (format_hints(made_hints()[0]), "r" * 128, "b" * 9999, 1),
    ]
    ours = [sign_hints(hints, id_, body.encode(), key, now) for hints, id_, body, now in rows]
    assert call("sign", [(hints, id_, body, KEY, now) for hints, id_, body, now in rows]) == ours


def test_a_share_takes_the_same_users(call: Call) -> None:
    users = ["", "anna", "acme/anna", "Bearer x", "用户", *map(str, range(100))]
    assert call("place", users) == [place(user) for user in users]


# --- the wire ----------------------------------------------------------------------------------

STREAM = (
    b"\xef\xbb\xbf: ping\r\n\r\n"
    + delta("你好 👩‍💻")
    + b"data:no space\rdata: two lines\r\n\r\nevent: x\ndata\n\n"
    b'data: {"usage":{"completion_tokens":3}}\n\n' + b"data: [DONE]\n\n" + b"data: half"
)


def events(pieces: list[bytes]) -> list[Any]:
    reader = EventReader()
    return [[list(event) for piece in pieces for event in reader.feed(piece)], reader.mid_event]


def test_a_stream_split_at_every_byte_holds_the_same_events(call: Call) -> None:
    splits = [[STREAM[:at], STREAM[at:]] for at in range(len(STREAM) + 1)] + [
        [bytes([b]) for b in STREAM],
        [STREAM],
    ]
    rng = random.Random(1)
    for _ in range(300):
        stream = b"".join(
            rng.choices([b"\r", b"\n", b"data:", b"data: x", b" ", b":", b"\xe4", b"\xef\xbb\xbf"], k=20)
        )
        cuts = [0, *sorted(rng.choices(range(len(stream)), k=4)), len(stream)]
        splits.append([stream[a:b] for a, b in pairwise(cuts)])
    expected = [events(pieces) for pieces in splits]
    assert call("events", [[list(piece) for piece in pieces] for pieces in splits]) == expected
    assert len(expected[0][0]) == 5


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        ('{"model":"a","n":12345678901234567890}', '{"model":"b","n":12345678901234567890}'),
        (
            '{ "x": {"model": "a"}, "model" : "a" , "y":[1.0]}',
            '{ "x": {"model": "a"}, "model" : "b" , "y":[1.0]}',
        ),
        ('{"s":"\\"model\\":\\"a\\"","model":null}', '{"s":"\\"model\\":\\"a\\"","model":"b"}'),
        ('{"mod\\u0065l":{"deep":[1,{"model":2}]},"z":1}', '{"mod\\u0065l":"b","z":1}'),
        ('{"model":"a","model":"a"}', '{"model":"b","model":"b"}'),
    ],
)
def test_only_the_model_is_changed(call: Call, body: str, changed: str) -> None:
    assert call("member", [(body, "model", "b")]) == [changed]


# --- settings ----------------------------------------------------------------------------------


def test_settings_of_variables(call: Call) -> None:
    env = {
        "BASE_URL": "https://ignored/v1", "FRONTDESK_UPSTREAM_BASE_URL": "https://agent/v1/", "API_KEY": "k\n", "MODEL_NAME": "gpt",
        "FRONTDESK_ANSWERING": 0.25, "FRONTDESK_BUDGET_MS": "500", "FRONTDESK_HINTS_KEYS": KEY, "FRONTDESK_AUTH": "keys",
        "FRONTDESK_KEYS": [{"id": "web", "sha256": "0" * 64, "tenant": "acme", "valid_until": "2027-12-31"}],
    }  # fmt: skip
    [settings] = call("settings", [env])
    assert settings["upstreamBaseUrl"] == "https://agent/v1"
    assert (settings["upstreamApiKey"], settings["models"]) == ("k", {"frontdesk": "gpt"})
    assert (settings["answering"], settings["budgetMs"]) == ({"mode": "on", "share": 0.25}, 500)
    assert settings["keys"][0]["validUntil"] == "2027-12-31"
    assert [key["kid"] for key in settings["hintsKeys"]] == ["2026-12"]
    [usual] = call("settings", [{}])
    assert (usual["auth"], usual["maxBodyBytes"], usual["trustedProxies"]) == ("passthrough", 1_000_000, 2)


@pytest.mark.parametrize(
    ("env", "said"),
    [
        (
            {"FRONTDESK_ANSWERING": "1.5"},
            'FRONTDESK_ANSWERING is "1.5": expected off, observe, on or a share',
        ),
        ({"FRONTDESK_UPSTREAM_BASE_URL": "https://me:secret@x/v1"}, "***@x/v1"),
        ({"FRONTDESK_UPSTREAM_API_KEY": "two words"}, "FRONTDESK_UPSTREAM_API_KEY cannot be used"),
        ({"FRONTDESK_HINTS_KEYS": "k:short-secret"}, "FRONTDESK_HINTS_KEYS cannot be used"),
        ({"FRONTDESK_KEYS": '[{"id":"a"}]', "FRONTDESK_AUTH": "keys"}, "FRONTDESK_KEYS cannot be used"),
        ({"FRONTDESK_AUTH": "keys"}, "there is no key"),
        ({"FRONTDESK_AUTH": "proxy"}, "FRONTDESK_IDENTITY_HEADER"),
        ({"FRONTDESK_IDENTITY_HEADER": "authorization"}, "expected a header of its own"),
        ({"FRONTDESK_TRUSTED_PROXIES": "10.0.0.1/8"}, "expected networks"),
        ({"FRONTDESK_MAX_BODY_BYTES": "1_000"}, "expected a whole number from 1000"),
    ],
)
def test_a_wrong_setting_is_told_and_no_secret(call: Call, env: dict[str, str], said: str) -> None:
    [message] = call("settings", [env])
    assert isinstance(message, str)
    assert said in message
    assert not any(secret in message for secret in ("me:secret", "short-secret", "two words"))


def test_addresses_and_networks(call: Call) -> None:
    networks = ["10.0.0.0/8", "::1", "2001:db8::/32", "192.0.2.7"]
    inside = ["10.255.0.1", "::1", "0:0:0:0:0:0:0:1", "2001:db8::7", "::ffff:10.1.2.3", "192.0.2.7"]
    outside = [
        "11.0.0.1",
        "::2",
        "2001:db9::1",
        "192.0.2.8",
        "",
        "10.0.0",
        "010.0.0.1",
        "x",
        ":::1",
        "1::2::3",
        "::ffff:11.0.0.1",
    ]
    assert call("within", [(address, networks) for address in inside]) == [True] * len(inside)
    assert call("within", [(address, networks) for address in outside]) == [False] * len(outside)


# --- the router --------------------------------------------------------------------------------


def test_readings_asked_for_at_once_are_those_asked_for_one_by_one(call: Call) -> None:
    texts = [
        f"{text} {i}"
        for i, text in enumerate(["when do we start", "我的订单到哪了", "can i return a tablet"] * 8)
    ]
    assert call("read", texts, together=True) == call("read", texts)


def test_two_first_requests_load_the_bundle_once(call: Call) -> None:
    [[is_one, reads]] = call("loads", [0])
    assert is_one
    assert reads == 2  # for its hash, and for the session


def test_heap_and_wasm_memory_stay_under_what_cloudflare_gives_an_isolate() -> None:
    texts = [f"can i have my salary in advance {i}" for i in range(300)]
    with workerd(PROBE, inspect=True) as isolate, open_client(isolate.url) as client:
        for body in ({"call": "read", "rows": texts}, {"call": "slots", "rows": []}):
            assert client.post("/", json=body, timeout=60).status_code == 200
        [wasm] = client.post("/", json={"call": "memory", "rows": [0]}).json()
        heap = heap_bytes(isolate)
    assert wasm > 20e6  # a model of 14 MB was read into it
    assert heap > 10e6
    assert wasm + heap < 128e6
