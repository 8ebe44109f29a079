"""Settings: which source wins, and what a wrong one is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge.config import Answering, Context, Settings, Upstream, load_llm, load_settings
from edge.errors import ConfigError
from edge.hints import HintsKey


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str) -> Path:
    path = Path("frontdesk.toml")
    path.write_text(text, "utf-8")
    return path


def load(environ: dict[str, str] | None = None, **flags: object) -> Settings:
    return load_settings(flags, environ or {})


def problem(environ: dict[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(environ, **flags)
    return str(caught.value)


def test_defaults() -> None:
    assert load() == Settings()


def test_flag_over_environment_over_file_over_default() -> None:
    write("port = 1\nbudget_ms = 1\nmax_body_bytes = 1000\n")
    settings = load({"FRONTDESK_PORT": "2", "FRONTDESK_BUDGET_MS": "2"}, port=3)
    assert (settings.port, settings.budget_ms, settings.max_body_bytes, settings.host) == (
        3,
        2,
        1000,
        "127.0.0.1",
    )


def test_flags_that_are_not_given_change_nothing() -> None:
    assert load({"FRONTDESK_PORT": "2"}, port=None).port == 2


def test_an_empty_variable_is_unset() -> None:
    write("port = 1\n")
    assert load({"FRONTDESK_PORT": "", "BASE_URL": "", "MODEL_NAME": ""}) == Settings(port=1)


def test_the_whole_file() -> None:
    write(
        'bundle = "b"\nanswering = 0.25\nidentity_header = "X-User"\nlog = "off"\n'
        '[upstream]\nbase_url = "https://host/v1/"\napi_key = "sk-1"\nidle_timeout = 7\nmax_connections = 9\n'
        '[model]\nfrontdesk = "big"\n"gpt-4.1" = "small"\n'
    )
    assert load() == Settings(
        bundle=Path("b"),
        answering=Answering("on", 0.25),
        identity_header="x-user",
        log="off",
        upstream=Upstream("https://host/v1", "sk-1", idle_timeout=7.0, max_connections=9),
        models={"frontdesk": "big", "gpt-4.1": "small"},
    )


def test_a_file_with_a_byte_order_mark() -> None:
    write("\ufeffport = 5\n")
    assert load().port == 5


def test_the_names_that_other_programs_share() -> None:
    write('[upstream]\nbase_url = "https://file"\n[model]\nfrontdesk = "file"\nother = "kept"\n')
    settings = load({"BASE_URL": "https://env/v1", "API_KEY": "sk-env", "MODEL_NAME": "env"})
    assert (settings.upstream.base_url, settings.upstream.api_key) == ("https://env/v1", "sk-env")
    assert settings.models == {"frontdesk": "env", "other": "kept"}


def test_the_port_that_a_platform_sets() -> None:
    write("port = 1\n")
    assert load({"PORT": "2"}).port == 2
    assert load({"PORT": ""}).port == 1
    assert load({"PORT": "2"}, port="3").port == 3
    with pytest.raises(ConfigError, match=r"the variable PORT is .tcp://10\.0\.0\.1:80.: expected a whole"):
        load({"PORT": "tcp://10.0.0.1:80"})


def test_our_own_variable_wins_over_the_shared_one() -> None:
    environ = {"BASE_URL": "https://shared", "FRONTDESK_UPSTREAM_BASE_URL": "https://ours"}
    environ |= {"PORT": "1", "FRONTDESK_PORT": "2"}
    assert (load(environ).upstream.base_url, load(environ).port) == ("https://ours", 2)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.toml cannot be read: No such file"):
        load_settings({}, {}, tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("port = \n", ["not valid TOML", "line 1"]),
        ("prot = 1\n", ["frontdesk.toml:1: prot", "not a setting", "port"]),
        ("port = 70000\n", ["frontdesk.toml:1: port", "70000", "whole number from 0 to 65535"]),
        ("port = 3.7\n", ["3.7", "whole number"]),
        ("port = inf\n", ["whole number"]),
        ("port = true\n", ["whole number"]),
        ("port = [1]\n", ["whole number"]),
        ("budget_ms = 0\n", ["budget_ms", "from 1 to 3600000"]),
        ("host = 5\n", ["host", "text"]),
        ('host = ""\n', ["host", "host name or an IP address"]),
        ('host = "a b"\n', ["host", "host name or an IP address"]),
        ('host = "a\\nb"\n', ["host", "host name or an IP address"]),
        ('host = "\\u00a0"\n', ["host", "host name or an IP address"]),
        ("port = " + "[" * 5000, ["not valid TOML", "nested too deeply"]),
        ("answering = 2\n", ["off, observe, on or a share between 0 and 1"]),
        ("answering = true\n", ["off, observe, on"]),
        ("answering = nan\n", ["off, observe, on"]),
        (f"answering = {'9' * 400}\n", ["off, observe, on"]),
        ('log = "yaml"\n', ["log", "'yaml'", "json, off"]),
        ('identity_header = "X User:"\n', ["identity_header", "name of a header"]),
        ("[upstream]\ntimeout = 1\n", ["upstream.timeout", "not a setting", "upstream_idle_timeout"]),
        ("[upstream]\nidle_timeout = nan\n", ["upstream.idle_timeout", "0.001 to 3600"]),
        ('[model]\ngpt-4.1 = "x"\n', ["model.gpt-4", "quote a name that has a dot"]),
    ],
)
def test_an_error_in_the_file_says_where_and_what_would_do(text: str, parts: list[str]) -> None:
    write(text)
    message = problem()
    assert [part for part in ["frontdesk.toml", *parts] if part not in message] == [], message


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("FRONTDESK_PORT", "http", "whole number from 0 to 65535"),
        ("FRONTDESK_ANSWERING", "yes", "off, observe, on or a share"),
        ("FRONTDESK_UPSTREAM_CONNECT_TIMEOUT", "-1", "number from 0.001 to 3600"),
        ("FRONTDESK_UPSTREAM_BASE_URL", "host/v1", "https://host/v1"),
        ("BASE_URL", "ftp://host", "https://host/v1"),
        ("API_KEY", "sk 1", "printable ASCII"),
        ("FRONTDESK_LOG", "text", "json, off"),
    ],
)
def test_an_error_in_a_variable_names_it(name: str, value: str, accepted: str) -> None:
    message = problem({name: value})
    assert f"the variable {name}" in message
    assert accepted in message


def test_an_error_in_a_flag_names_it() -> None:
    assert "the flag --upstream-base-url is 'x'" in problem(upstream_base_url="x")
    assert "the flag --no-such is not a setting" in problem(no_such=1)


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "//host",
        "http://host:99999",
        "http://host:port",
        "http://[::1",
        "https://ho st/v1",
        "https://host/v1\n",
        "https://host/v1?",
        "https://host/v1?a=b",
        "https://host/#x",
        "https://user@host",
        "https://:pw@host",
    ],
)
def test_bad_addresses(url: str) -> None:
    assert "expected an address" in problem(upstream_base_url=url)


@pytest.mark.parametrize("url", ["http://localhost:8000", "https://host/a/b", "http://[::1]:80/v1"])
def test_good_addresses_lose_only_their_last_slash(url: str) -> None:
    assert load(upstream_base_url=url + "/").upstream.base_url == url


SECRETS = [f"{name}{'secret' * 6}+/=:" for name in "abc"]


def test_keys_for_hints() -> None:
    keys = (HintsKey("2026-12", SECRETS[0].encode()), HintsKey("old", SECRETS[1].encode()))
    text = f"2026-12:{SECRETS[0]},old:{SECRETS[1]}"
    assert load({"FRONTDESK_HINTS_KEYS": f" {text.replace(',', ' , ')}\n"}).hints_keys == keys
    write(f"[hints]\nkeys = ['2026-12:{SECRETS[0]}', 'old:{SECRETS[1]}']\n")
    assert load().hints_keys == keys
    assert load({"FRONTDESK_HINTS_KEYS": f"new:{SECRETS[2]}"}).hints_keys[0].kid == "new"
    write("[hints]\nkeys = []\n")
    assert load({"FRONTDESK_HINTS_KEYS": ""}).hints_keys == ()


@pytest.mark.parametrize(
    "keys",
    [
        SECRETS[0],
        f":{SECRETS[0]}",
        f"a b:{SECRETS[0]}",
        f"a:{SECRETS[0][:31]}",
        f"a:{SECRETS[0]} ,a:{SECRETS[1]}",
        f"a:{SECRETS[0]},",
        f"a:{SECRETS[0]}\x00",
        f"a:{SECRETS[0]}é",
    ],
)
def test_a_wrong_key_for_hints_is_told_without_it(keys: str) -> None:
    told = problem({"FRONTDESK_HINTS_KEYS": keys})
    assert told.startswith("the variable FRONTDESK_HINTS_KEYS cannot be used: expected kid:secret")
    write(f"[hints]\nkeys = {json.dumps([keys])}\n")
    assert "secretsecret" not in problem() + told


def test_secrets_are_in_no_repr_and_in_no_error() -> None:
    keys = load({"FRONTDESK_HINTS_KEYS": f"a:{SECRETS[0]}"})
    assert SECRETS[0] not in repr(keys)
    assert "HintsKey(kid='a')" in repr(keys)
    assert "sk-secret" not in repr(load({"API_KEY": "sk-secret"}))
    assert "sk-secret" not in problem({"API_KEY": "sk-secret\x00"})
    assert "hunter2" not in problem({"BASE_URL": "https://me:hunter2@host/v1"})
    write("[upstream]\napi_key = 12345\n")
    assert "12345" not in problem()


def test_a_key_loses_the_line_break_of_its_file() -> None:
    assert load({"API_KEY": "sk-1\n"}).upstream.api_key == "sk-1"


def test_context() -> None:
    assert not load().context.on
    write("[context]\nmax_tokens = 8000\nmax_tool_tokens = 100\n")
    assert load() == Settings(context=Context(8000, 0, 100))
    assert load({"FRONTDESK_CONTEXT_TARGET_TOKENS": "7999"}).context == Context(8000, 7999, 100)
    assert Context(max_tool_tokens=100).on


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            "max_tokens = 8000\ntarget_tokens = 8000",
            "target_tokens is 8000: expected less than context.max_tok",
        ),
        ("target_tokens = 4000", "target_tokens is 4000: expected less than context.max_tokens, which is 0"),
        ("max_tool_tokens = 99", "max_tool_tokens is 99: expected 0 for off, or at least 100"),
    ],
)
def test_limits_of_a_context_that_do_not_fit_each_other(table: str, said: str) -> None:
    write(f"[context]\n{table}\n")
    assert said in problem()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("off", Answering("off", 0.0)),
        ("observe", Answering("observe", 0.0)),
        ("on", Answering("on", 1.0)),
        ("0.1", Answering("on", 0.1)),
        (0, Answering("on", 0.0)),
        (1, Answering("on", 1.0)),
    ],
)
def test_answering(value: Any, expected: Answering) -> None:
    assert Answering.of(value) == expected


@pytest.mark.parametrize("value", ["", "On", "1.1", "-0.1", "nan", None, True, [], 2])
def test_answering_refuses(value: Any) -> None:
    with pytest.raises(ValueError, match="off, observe, on"):
        Answering.of(value)


LLM = {"BASE_URL": "https://env/v1/", "API_KEY": " sk-env\n", "MODEL_NAME": "env"}


def test_an_llm_is_named_by_flags_or_by_the_three_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("frontdesk.toml").write_text('[upstream]\nbase_url = "https://agent/v1"\n')
    agent = {"FRONTDESK_UPSTREAM_BASE_URL": "https://agent/v1", "FRONTDESK_UPSTREAM_API_KEY": "sk-agent"}
    assert load_llm(environ=LLM | agent) == (Upstream("https://env/v1", "sk-env"), "env")
    named = load_llm("https://flag/v1", "flag", LLM | {"BASE_URL": "nonsense"})
    assert named == (Upstream("https://flag/v1", "sk-env"), "flag")
    with pytest.raises(ConfigError, match="give --llm-url https://host/v1, or set BASE_URL"):
        load_llm(environ=agent)


@pytest.mark.parametrize(
    ("flags", "changes", "said"),
    [
        ((None, None), {"MODEL_NAME": ""}, "give --llm-model NAME, or set MODEL_NAME"),
        ((None, None), {"BASE_URL": "x"}, "the variable BASE_URL is 'x': expected an address"),
        (("https://u:sk-secret@h/v1", None), {}, "the flag --llm-url is 'https://***@h/v1': expected"),
        ((None, None), {"API_KEY": "sk-secret\x00"}, "the variable API_KEY cannot be used"),
    ],
)
def test_an_llm_that_is_named_wrongly(
    flags: tuple[str | None, str | None], changes: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_llm(*flags, LLM | changes)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)
