"""Every setting with a wrong value in frontdesk.toml: the error says the file, the line, and what would do."""

from pathlib import Path

import pytest

from edge.cli import main
from edge.config import _SETTERS, load_settings
from edge.errors import ConfigError

SHA = "0" * 64
WHOLE = "expected a whole number from"
SECONDS = "expected a number from 0.001 to 3600"
ADDRESS = "expected an address such as https://host/v1"
TEXT = "expected a text"
SHARE = "expected off, observe, on or a share between 0 and 1"

WRONG: dict[str, tuple[list[str], str]] = {
    "bundle": (["5", "true", "[]", "{path = 1}"], TEXT),
    "host": (["5", "[]", "1979-05-27"], TEXT),
    "port": (["'x'", "''", "'80 80'", "-1", "65536", "80.5", "nan", "{}", "1979-05-27", "0x10000"], WHOLE),
    "max_body_bytes": (["999", "'1MB'", "1e10", "true", "9" * 400], WHOLE),
    "budget_ms": (["0", "'2s'", "1.5", "[1]", "-inf"], WHOLE),
    "answering": (["'ON'", "''", "1.5", "-0.1", "{}", "[]", "inf", "12:00:00"], SHARE),
    "log": (["'JSON'", "true", "[]", "{}", "0"], "expected one of json, off"),
    "auth": (["'key'", "true", "[]", "''"], "expected one of passthrough, keys, proxy"),
    "keys": (["'x'", "5", "[1]", "{id = 'a'}"], ""),
    "identity_header": (["'a b'", "'x:'", "'ü'"], "expected the name of a header"),
    "tenant_header": (["'a b'", "'x\\n'"], "expected the name of a header"),
    "trusted_proxies": (["'10.0.0.1/8'", "['x']", "5", "'10.0.0.0/33'"], "such as 10.0.0.0/8"),
    "auth_check_url": (["'host'", "'ftp://host'"], ADDRESS),
    "auth_check_s": (["0", "'x'", "nan"], SECONDS),
    "hints_keys": (["5", "true", "[5]", "['a']", "'a:b'", "{a = 'b'}"], ""),
    "tools_base_url": (
        ["'host'", "''", "'ftp://h'", "'https://u:p@h'", "'https://h?a=b'"],
        "expected an address",
    ),
    "tools_secrets": (
        ["'x'", "5", "[]", "{lower = 'a'}", "{A = 5}", "{A = 'b c'}", "{'A-B' = 'c'}"],
        "",
    ),
    "context_max_tokens": (["-1", "'8k'", "1.5", "true", "10000001"], WHOLE),
    "context_target_tokens": (["-1", "'x'", "[]"], WHOLE),
    "context_max_tool_tokens": (["-1", "nan", "{}"], WHOLE),
    "upstream_base_url": (
        ["'host'", "''", "'ftp://h'", "'http://'", "'https://h:0'", "'http://h:x'"],
        ADDRESS,
    ),
    "upstream_api_key": (["5", "['x']", "true"], TEXT),
    "upstream_connect_timeout": (["0", "'x'", "nan", "3601", "true", "[]"], SECONDS),
    "upstream_first_byte_timeout": (["-1", "inf"], SECONDS),
    "upstream_idle_timeout": (["'1m'", "{}"], SECONDS),
    "upstream_max_connections": (["0", "1.5", "'many'", "100001"], WHOLE),
}
CASES = [(name, value, told) for name, (values, told) in WRONG.items() for value in values]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "frontdesk.toml"


def problem(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as caught:
        load_settings({}, {}, path)
    return str(caught.value)


def test_no_setting_is_left_out() -> None:
    assert set(WRONG) == set(_SETTERS)


@pytest.mark.parametrize(("name", "value", "told"), CASES, ids=lambda value: str(value)[:24])
def test_a_wrong_value_is_told_with_file_line_and_fix(path: Path, name: str, value: str, told: str) -> None:
    table, _, inner = (
        name.partition("_")
        if name.startswith(("upstream_", "hints_", "tools_", "context_"))
        else ("", "", name)
    )
    value = value.replace("'", '"')
    top = f"# {inner} = 1\n[{table}]\n" if table else f"# {inner} = 1\n\n"
    message = problem(path, f"{top}{inner} = {value}\n")
    shown = f"{table}.{inner}" if table else inner
    assert message.startswith(f"{path}:3: {shown} ")
    assert told in message
    assert "expected" in message or name in ("keys", "tools_secrets")
    assert "b c" not in message  # what may be a secret
    assert message.endswith(".")


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("\nprot = 1\n", 2, "prot is not a setting. Settings: answering,"),
        ("Port = 1\n", 1, "Port is not a setting"),
        ("[server]\nport = 1\n", 1, "server is not a setting"),
        ("upstream = 5\n", 1, "upstream is not a setting"),
        ("[[upstream]]\nbase_url = 'http://h'\n", 1, "upstream is not a setting"),
        ("[upstream]\n\nbase-url = 'http://h'\n", 3, "upstream.base-url is not a setting"),
        ("model = 'x'\n", 1, "[model]"),
        ("[model]\na = 'b'\nc = 5\n", 3, "expected the upstream's name"),
        ("[model]\n'a.b' = []\n", 2, "expected the upstream's name"),
        ("[model]\n'a' = 'b'\n'x[1]' = 5\n", 3, "expected the upstream's name"),
        # other spellings
        ("\nport=1e9\n", 2, "port is 1000000000.0"),
        ("\n  'port'  =  'x' # port\n", 2, "port is 'x'"),
        ("log = 'off'\nupstream.idle_timeout = 0\n", 2, "upstream.idle_timeout is 0"),
        ("\nupstream = {idle_timeout = 0}\n", 2, "upstream.idle_timeout is 0"),
        ("\n[ upstream ] # idle_timeout\nidle_timeout = 0\n", 3, "upstream.idle_timeout is 0"),
        ("[upstream]\n[model]\nidle_timeout = 'x'\n[upstream.y]\n", 4, "upstream.y is not a setting"),
        ("\r\n\r\nport = 'x'\r\n", 3, "port is 'x'"),
        ("\ufeff\nport = 'x'\n", 2, "port is 'x'"),
        ("port = [\n  1,\n]\n", 1, "port is [1]"),
        ("identity_header = '''\nport = 1'''\nport = 'x'\n", 1, "expected the name of a header"),
    ],
)
def test_the_line_is_found_however_it_is_written(path: Path, text: str, line: int, told: str) -> None:
    message = problem(path, text)
    assert message.startswith(f"{path}:{line}: ")
    assert told in message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("bundle = '''\nport = 1'''\nport = 'x'\n", 3),
        ("# \u2028\nport = 'x'\n", 2),
        (f"[[keys]]\nid = 'a'\nsha256 = '{SHA}'\n[[keys]]\nid = 'b'\nsha256 = 'x'\n", 4),
        ("[model]\n[model.x]\ny = 'z'\n", 2),
        ("[upstream]\n\n[upstream.x]\ny = 1\n", 3),
        ("'upstream'.'idle_timeout' = 1\n\n['model']\na = 5\n", 4),
    ],
    ids=[
        "a text of many lines",
        "a line separator",
        "the second key",
        "a table in [model]",
        "a table in [upstream]",
        "a quoted table",
    ],
)
def test_the_line_is_found_in_odd_files(path: Path, text: str, line: int) -> None:
    assert problem(path, text).startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\nport\n", 2),
        ("\nport = \n", 2),
        ("port 1\n", 1),
        ("port: 1\n", 1),
        ("port = 1,\n", 1),
        ("port = 1\n\nport = 2\n", 3),
        ("[upstream]\n\n[upstream]\n", 3),
        ("port = 08\n", 1),
        ('log = "json\n', 1),
        ('bundle = "C:\\path"\n', 1),
        ("\n\nport = yes\n", 3),
        ("{}\n", 1),
        ("log = 'a\0b'\n", 1),
        ('log = "\\ud800"\n', 1),
    ],
    ids=repr,
)
def test_what_is_no_toml_is_told_with_its_line(path: Path, text: str, line: int) -> None:
    message = problem(path, text)
    assert message.startswith(f"{path} is not valid TOML: ")
    assert f"(at line {line}, column " in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"log = 'off'\n# caf\xe9\n", "UTF-8"),
        ("port = 1\n".encode("utf-16"), "UTF-8"),
        (b"\nport = " + b"9" * 5_000, "digits"),
    ],
    ids=["Latin-1", "UTF-16", "5,000 digits"],
)
def test_what_python_cannot_read_is_told_in_our_words(path: Path, text: bytes, told: str) -> None:
    message = problem(path, text)
    assert told in message
    assert "codec" not in message
    assert "set_int_max" not in message


@pytest.mark.parametrize("text", ["bundle = ''\n", "bundle = 'a\\u0000b'\n", "[model]\na = ''\n"])
def test_a_text_that_can_name_nothing_is_refused(path: Path, text: str) -> None:
    assert "expected" in problem(path, text.replace("'", '"'))


@pytest.mark.parametrize("name", ["frontdesk.toml/x", "."])
def test_a_file_that_cannot_be_opened_is_named(path: Path, name: str) -> None:
    path.write_text("port = 1\n")
    with pytest.raises(ConfigError) as caught:
        load_settings({}, {}, path / "x" if name != "." else path.parent)
    assert "cannot be read: " in str(caught.value)
    assert str(path.parent) in str(caught.value)


@pytest.mark.parametrize("command", [["serve"], ["serve", "--json"], ["dev"]])
def test_the_command_ends_with_2_and_one_line(
    path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    path.write_text("# ours\nport = 'x'\n")
    assert main([*command, "--config", str(path)]) == 2
    out, err = capsys.readouterr()
    assert err == f"frontdesk: {path}:2: port is 'x': {WHOLE} 0 to 65535.\n"
    assert bool(out) is ("--json" in command)
