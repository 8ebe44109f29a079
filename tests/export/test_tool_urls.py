"""Urls of tools: no value that a user says can choose the host, the path or another query."""

from pathlib import Path

import pytest
from test_desk import problems, write

from export.desk_reader import load_desk

TOOL = """\
- name: get
  description: d
  method: {method}
  url: '{url}'
  use: {use}
  slots:
    a: {{pattern: '[0-9]{{4}}'}}
    b: {{pattern: '[0-9]{{5}}', required: false}}
"""


def tool(url: str, method: str = "POST", use: str = "suggest") -> str:
    return TOOL.format(url=url, method=method, use=use)


@pytest.mark.parametrize(
    "url",
    [
        "/",
        "/orders/{a}",
        "/orders/{a}?b={b}&c=1",
        "/orders/{a}.json?b={b}",
        "http://x/{a}",
        "https://shop.example:8443/orders/{a}?b={b}",
        "HTTPS://Shop.Example/orders",
        "http://127.0.0.1:9000/{a}",
        "http://[::1]:9000/{a}",
        "https://x?a={a}",
        "/%E4%BA%91/{a}",
    ],
)
def test_a_right_url(tmp_path: Path, url: str) -> None:
    assert load_desk(write(tmp_path, tools_yaml=tool(url, use="answer"))).tools


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("orders/{a}", "must begin with http://, https:// or, below the configured base_url, with /"),
        ("ftp://x/{a}", "must begin with http://"),
        ("{a}/orders", "must begin with http://"),
        ("{a}://x/orders", "must begin with http://"),
        ("http:/x", "must begin with http://"),
        ("//x/{a}", "begins with two slashes, which would name a host"),
        ("https://{a}.example/orders", "has a place in its host"),
        ("https://x:{a}/orders", "has a place in its host"),
        ("https://{a}@x/orders", "has a place in its host"),
        ("https://x{a}?b={b}", "has a place in its host"),
        ("https://me:word@x/orders", "holds a name or password; name a 'credential' instead"),
        ("https:///orders", "has no host that can be called"),
        ("https://x:port/orders", "has no host that can be called"),
        ("https://x..y/orders", "has no host that can be called"),
        ("/orders/{a}#top", "must be of the characters of a url, without a fragment"),
        ("/orders/{a", "must be of the characters of a url"),
        ("/orders/a}", "must be of the characters of a url"),
        ("/orders {a}", "must be of the characters of a url"),
        ("/orders/云雀", "must be of the characters of a url"),
        ("/a\\b", "must be of the characters of a url"),
        ("/tools/../admin/{a}", "has . or .. in its path"),
        ("https://x/./{a}", "has . or .. in its path"),
    ],
)
@pytest.mark.parametrize("use", ["suggest", "answer"])
def test_a_wrong_url_is_named_with_its_line(tmp_path: Path, url: str, says: str, use: str) -> None:
    found = problems(write(tmp_path, tools_yaml=tool(url, use=use)))
    assert any(problem.startswith(f"/tools.yaml:4: 'url' {says}") for problem in found), found


def test_every_place_is_a_slot_and_without_a_body_every_slot_has_a_place(tmp_path: Path) -> None:
    found = problems(write(tmp_path, tools_yaml=tool("/orders/{c}/{c}", "GET")))
    assert found == [
        "/tools.yaml:4: 'url' holds {c}, and there is no such slot; declare it in 'slots'.",
        "/tools.yaml:7: 'a' is not in the url; write {a} where it goes.",
        "/tools.yaml:8: 'b' is not in the url; write {b} where it goes.",
    ]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_slot_that_may_be_left_out_is_in_the_query(tmp_path: Path, method: str) -> None:
    """Nothing in its place would be another path."""
    tools = tool("/orders/{b}?a={a}", method, "prefetch")
    found = problems(write(tmp_path, tools_yaml=tools))
    assert found == [
        "/tools.yaml:8: 'b' is optional, so its place must be in the url's query; or give it a default."
    ]
    for right in (tools.replace("prefetch", "suggest"), tools.replace("false", "false, default: '12345'")):
        assert load_desk(write(tmp_path, tools_yaml=right)).tools
