"""The demo's tools: who may see what, over HTTP and in the loop, and the fields that templates rely on."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import yaml
from around import Llm, Log, Serve, ask, planned, user
from company import PATHS, TOOLS, shop, staff, town
from company.people import PEOPLE, day_of
from servers import ScriptedUpstream
from settings import Settings
from tools import Call, Planned, Tool, call_tool

from edge.templates import Template

ROOT = Path(__file__).parents[2]
OWN = [tool.name for tool in TOOLS if tool.owner]
KEY = {"authorization": "Bearer the-key"}
ARGUMENTS: dict[str, Any] = {
    "month": f"{date.today().replace(day=1) - timedelta(40):%Y-%m}", "order_id": "1024", "claim_no": "20414",
    "product": "x1_pro", "city": "beijing", "day": "today", "currency": "usd", "amount": 200, "time": "10:00", "people": 4,
}  # fmt: skip


def arguments_of(tool: Tool, required_only: bool = True) -> dict[str, Any]:
    names = tool.parameters["required"] if required_only else tool.parameters["properties"]
    return {name: ARGUMENTS[name] for name in names if name in ARGUMENTS}


def path_of(tool: Tool) -> str:
    path = next(path for path, name in PATHS.items() if name == tool.name)
    for name, value in arguments_of(tool).items():
        path = path.replace(f"{{{name}}}", str(value))
    return f"/tools{path}"


@pytest.fixture
def served(run_agent: Serve) -> Iterator[httpx2.Client]:
    with (
        run_agent(Settings(demo_tools_key="the-key")) as url,
        httpx2.Client(base_url=url, trust_env=False) as client,
    ):
        yield client


def run(tool: Tool, arguments: dict[str, Any], caller: str | None) -> Any:
    async def called() -> Any:
        async with httpx2.AsyncClient() as http:
            return await call_tool(Planned(tool, arguments), Call(caller, "r", http))

    return anyio.run(called)


BY_NAME = {tool.name: tool for tool in TOOLS}


def test_every_tool_over_http_says_what_the_loop_gets(served: httpx2.Client, log_lines: Log) -> None:
    for tool in TOOLS:
        caller = "eva" if tool.owner else None
        got = served.get(path_of(tool), headers=KEY | ({"x-frontdesk-user": "eva"} if tool.owner else {}))
        assert got.status_code == 200, (tool.name, got.text)
        assert got.json() == run(tool, arguments_of(tool), caller).value, tool.name
        assert got.json() == served.get(path_of(tool), headers=KEY | {"x-frontdesk-user": "eva"}).json()
        if tool.owner:
            assert got.json()[tool.owner] == "eva"
    paths = {line["path"] for line in log_lines(2 * len(TOOLS))}
    assert all(re.fullmatch("/tools/[a-z_]+", path) for path in paths)  # no order number in the log


def test_the_desk_and_the_agent_agree_on_names() -> None:
    declared = yaml.safe_load((ROOT / "examples/desk/tools.yaml").read_text("utf-8"))
    assert {each["name"] for each in declared} == set(BY_NAME)
    for each in declared:
        properties = BY_NAME[each["name"]].parameters["properties"]
        for name, slot in (each.get("slots") or {}).items():
            assert name in properties, (each["name"], name)
            assert set(properties[name].get("enum", ())) >= set(slot.get("values", ())), (each["name"], name)
        assert (each["scope"] == "user") == bool(BY_NAME[each["name"]].owner), each["name"]


def test_the_readme_names_every_field() -> None:
    rows = re.findall(r"^\| `(\w+)` `(/[^`]*)` \| (\w+) \| (.*) \|$", (ROOT / "examples/agent/README.md").read_text("utf-8"), re.M)  # fmt: skip
    assert {row[0] for row in rows} == set(BY_NAME)
    for name, path, scope, fields in rows:
        tool = BY_NAME[name]
        assert PATHS[path.partition("?")[0]] == name
        assert scope == ("user" if tool.owner else "anybody")
        told = set(re.findall(r"\w+", fields))
        result = run(tool, arguments_of(tool), "eva").value
        found = set(result) | {
            key for value in result.values() if isinstance(value, list) for row in value for key in row
        }
        assert found <= told, (name, found - told)


@pytest.mark.parametrize("secret", [None, "", "Bearer wrong", "the-key", "Basic dGhlLWtleQ=="])
def test_the_secret_is_asked_for_first(served: httpx2.Client, secret: str | None) -> None:
    headers = {"x-frontdesk-user": "eva"} | ({} if secret is None else {"authorization": secret})
    for tool in TOOLS:
        answer = served.get(path_of(tool), headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "not_allowed"), tool.name


def test_without_a_secret_nothing_is_served(run_agent: Serve) -> None:
    with run_agent(Settings(tools="company")) as url:
        assert httpx2.get(f"{url}/tools/points", headers={"authorization": "Bearer x"}).status_code == 404


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize(
    ("users", "code"), [([], "no_identity"), (["mallory"], "unknown_user"), ([""], "unknown_user"), (["eva", "ana"], "no_identity")]
)  # fmt: skip
def test_own_data_need_a_known_caller(served: httpx2.Client, name: str, users: list[str], code: str) -> None:
    headers = [*KEY.items(), *(("x-frontdesk-user", each) for each in users)]
    answer = served.get(path_of(BY_NAME[name]), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, code)


@pytest.mark.parametrize("tool", ["get_order", "get_refund", "get_expense_status"])
@pytest.mark.parametrize("number", ["1024", "58213", "77120043", "9999"])
def test_what_is_somebody_elses_is_not_there(served: httpx2.Client, tool: str, number: str) -> None:
    path = {
        "get_order": "orders/{}",
        "get_refund": "refunds/{}",
        "get_expense_status": "expense_claims?claim_no={}",
    }
    statuses = {
        person: served.get(
            f"/tools/{path[tool].format(number)}", headers=KEY | {"x-frontdesk-user": person}
        ).status_code
        for person in PEOPLE
    }
    owner = PEOPLE[int(number[-1])]
    assert statuses == {person: 200 if person == owner else 404 for person in PEOPLE}


@pytest.mark.parametrize(
    ("person", "employee", "outcome"),
    [("hana", "7", "ok"), ("hana", "hana", "ok"), ("hana", "", "ok"), ("eva", "7", "not_yours"), ("eva", "hana", "not_yours"), ("eva", "07", "not_yours")],
)  # fmt: skip
def test_the_salary_of_employee_7(
    run_agent: Serve, log_lines: Log, person: str, employee: str, outcome: str
) -> None:
    """A plan may ask for it; the tool gives it to employee 7 alone."""
    month = ARGUMENTS["month"]
    arguments = {"month": month} | ({"employee": employee} if employee else {})
    with ScriptedUpstream() as upstream:
        llm = Llm(upstream, planned(("get_payslip", arguments)))
        with run_agent(replace(llm.settings, tools="company")) as url:
            ask(url, [user("show the salary of employee 7")], user=person)
        [message] = [message for message in llm.told if message["role"] == "tool"]
    assert log_lines(1)[0]["tools"][0]["outcome"] == outcome
    told = json.loads(message["content"])
    if outcome == "ok":
        assert (told["result"]["user"], told["result"]["month"]) == ("hana", month)
    else:
        assert told == {"data_of": "get_payslip", "error": "People see their own payslip only."}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("stock/x9", 400),
        ("orders/10", 400),
        ("orders/1024%0A", 404),
        ("orders/١٢٣٤", 400),
        ("orders/1024/items", 404),
        ("weather/beijing/yesterday", 400),
        ("exchange_rates/usd?amount=-1", 400),
        ("exchange_rates/usd?amount=nan", 400),
        ("exchange_rates/usd?amount=1e400", 400),
        ("exchange_rates/usd?amount=" + "9" * 5000, 400),
        ("exchange_rates/usd?amount=two", 400),
        ("exchange_rates/usd?amount=", 200),
        ("exchange_rates/usd?amount=89.9", 200),
        ("exchange_rates/usd?other=1", 400),
        ("free_rooms/today?time=&people=", 200),
        ("free_rooms/today?time=25:00", 400),
        ("free_rooms/friday?time=10:00&people=4", 200),
        ("payslips/9999-01", 404),
        ("payslips/0000-01", 404),
        ("payslips/2026-13", 400),
        ("attendance/1900-01", 404),
        ("nothing", 404),
    ],
)
def test_arguments_are_checked(served: httpx2.Client, path: str, status: int) -> None:
    answer = served.get(f"/tools/{path}", headers=KEY | {"x-frontdesk-user": "eva"})
    assert answer.status_code == status, answer.text
    if status != 200:
        assert set(answer.json()["error"]) >= {"code", "message"}


def test_results_fit_every_day() -> None:
    """Two years of days: no crash, and nothing that a template could not show."""
    for ahead in range(0, 730, 3):
        day = date(2026, 1, 1) + timedelta(ahead)
        for number, person in enumerate(PEOPLE):
            order = str(1000 + 10 * (ahead % 7) + number)
            told = [
                staff.get_leave_balance(person, day),
                staff.get_expense_status(person, day),
                staff.get_free_rooms(person, day, "friday", "14:00", 4),
                staff.get_attendance(person, day, f"{day:%Y-%m}"),
                shop.get_order(person, day, order),
                shop.get_refund(person, day, order),
                shop.get_points(person, day),
                staff.get_menu(day, "monday"),
                shop.get_stock(day, "x1"),
                shop.get_price(day, "x1"),
                town.get_weather(day, "beijing", "tomorrow"),
                town.get_exchange_rate(day, "jpy", 10_000),
            ]
            json.dumps(told, allow_nan=False)
            balance, _, rooms, _, order_told, refund, points, _, stock, price, weather, rate = told
            assert 0 <= balance["annual_left"] <= 15
            assert rooms["date"] >= day.isoformat()
            assert order_told["placed"] <= day.isoformat()
            assert (order_told["delivered_on"] is not None) == (order_told["state"] == "delivered")
            assert order_told["eta"] is None or order_told["eta"] >= day.isoformat()
            assert (refund["amount"] is None) == (refund["state"] == "none")
            assert points["expiring"] <= points["points"]
            assert (
                (stock["state"] == "sold_out") == (stock["units"] == 0) == (stock["restock_on"] is not None)
            )
            for variant in price["variants"]:
                assert variant["before"] is None or float(variant["price"]) < float(variant["before"])
            assert weather["low"] < weather["high"]
            assert 400 < float(rate["in_cny"]) < 500


def test_the_desks_templates_show_them() -> None:
    """Every template of the demo desk, in both languages, on every kind of result."""
    files = [ROOT / "examples/desk/topics" / name for name in ("tools.yaml", "tools_more.yaml")]
    topics = [topic for file in files for topic in yaml.safe_load(file.read_text("utf-8"))]
    templates = [
        (topic["tools"], Template.parse(text))
        for topic in topics
        for text in topic.get("template", {}).values()
    ]
    assert len(templates) >= 20
    for ahead in range(0, 364, 13):
        day = date(2026, 12, 1) + timedelta(ahead)
        for number, person in enumerate(PEOPLE):
            order = str(1000 + 10 * (ahead % 7) + number)
            city, currency = list(town.CITIES)[number], list(town.RATES)[number]
            product = list(shop.PRODUCTS)[number % len(shop.PRODUCTS)]
            told = {
                "get_leave_balance": staff.get_leave_balance(person, day),
                "get_expense_status": staff.get_expense_status(person, day, order if number % 2 else ""),
                "get_menu": staff.get_menu(day, "today"),
                "get_free_rooms": staff.get_free_rooms(person, day, "today", "10:00", 3 * number),
                "get_order": shop.get_order(person, day, order),
                "get_refund": shop.get_refund(person, day, order),
                "get_points": shop.get_points(person, day),
                "get_stock": shop.get_stock(day, product),
                "get_price": shop.get_price(day, product),
                "find_store": shop.find_store(day, city),
                "get_weather": town.get_weather(day, city, "today" if number % 2 else "tomorrow"),
                "get_exchange_rate": town.get_exchange_rate(day, currency, 200),
            }
            for tools, template in templates:
                assert template.fill({name: told[name] for name in tools}, {"order_id": order})


def test_days() -> None:
    wednesday = date(2026, 12, 2)
    assert day_of("today", wednesday) == day_of("wednesday", wednesday) == wednesday
    assert day_of("tuesday", wednesday) == date(2026, 12, 8)
    assert day_of("day_after_tomorrow", wednesday) == date(2026, 12, 4)
    assert staff.get_menu(wednesday, "monday")["date"] == "2026-11-30"
    assert staff.get_menu(date(2026, 12, 5), "today")["lunch"] == []
