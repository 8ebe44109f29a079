"""The demo company's tools, for the agent's own loop (``TOOLS``) and, over HTTP, for Frontdesk (``PATHS``).

Who may see what is decided here and nowhere else: by the caller's name, never by what a question says.
"""

from collections.abc import Callable, Mapping
from typing import Any

from company.people import DAYS, known
from company.shop import PRODUCTS, find_store, get_order, get_points, get_price, get_refund, get_stock
from company.staff import (
    get_attendance,
    get_expense_status,
    get_free_rooms,
    get_leave_balance,
    get_menu,
    get_payslip,
)
from company.town import CITIES, RATES, get_exchange_rate, get_weather
from tools import Call, Tool, today

Schema = Mapping[str, Any]
_NUMBER = {"type": "string", "pattern": "^[0-9]{4,12}$", "description": "4 to 12 digits"}
_MONTH = {"type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$", "description": "YYYY-MM"}
_PRODUCT = {"type": "string", "enum": list(PRODUCTS)}
_CITY = {"type": "string", "enum": list(CITIES)}
_WORKDAYS = list(DAYS[:5])

TOOLS: list[Tool] = []
PATHS: dict[str, str] = {}  # below /tools, and the tool's name


def _tool(
    function: Callable[..., object],
    path: str,
    description: str,
    own: bool = False,
    optional: str = "",
    **of: Schema,
) -> None:
    """Declare one. ``own``: it tells people their own data, and needs to know who asks."""
    name = function.__name__
    required = [each for each in of if each not in optional.split()]
    parameters = {"type": "object", "properties": of, "required": required, "additionalProperties": False}

    async def run(arguments: Mapping[str, Any], call: Call) -> object:
        user = (known(call.user),) if own else ()
        return function(*user, today(), **arguments)

    TOOLS.append(Tool(name, description, parameters, run, owner="user" if own else None))
    PATHS[path] = name


_tool(
    get_leave_balance,
    "/leave_balance",
    "Days of leave of the signed-in person: left, used, carried over.",
    own=True,
)
_tool(
    get_attendance,
    "/attendance/{month}",
    "When the signed-in person came and left on each day of a month, late and missing marks.",
    own=True,
    month=_MONTH,
)
_tool(
    get_payslip,
    "/payslips/{month}",
    "The signed-in person's payslip of a month: gross, deductions, net.",
    own=True,
    optional="employee",
    month=_MONTH,
    employee={"type": "string", "description": "Name or number, only where the question names one"},
)
_tool(
    get_expense_status,
    "/expense_claims",
    "State of the signed-in person's expense claims: one, or all of the last 90 days.",
    own=True,
    optional="claim_no",
    claim_no=_NUMBER,
)
_tool(
    get_menu,
    "/canteen_menu/{day}",
    "Dishes of the canteen on a day.",
    day={"type": "string", "enum": ["today", "tomorrow", *_WORKDAYS]},
)
_tool(
    get_free_rooms,
    "/free_rooms/{day}",
    "Meeting rooms that are free on a day, or from a time of it on.",
    own=True,
    optional="time people",
    day={"type": "string", "enum": ["today", "tomorrow", "day_after_tomorrow", *_WORKDAYS]},
    time={"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$", "description": "HH:MM"},
    people={"type": "integer", "minimum": 1, "maximum": 999},
)
_tool(
    get_order,
    "/orders/{order_id}",
    "State and way of one of the signed-in customer's orders.",
    own=True,
    order_id=_NUMBER,
)
_tool(
    get_refund,
    "/refunds/{order_id}",
    "State of the return and refund of one of the signed-in customer's orders.",
    own=True,
    order_id=_NUMBER,
)
_tool(get_points, "/points", "The signed-in customer's loyalty points.", own=True)
_tool(get_stock, "/stock/{product}", "Units of a product that the shop has, by colour.", product=_PRODUCT)
_tool(get_price, "/prices/{product}", "Prices of a product, and an offer that runs.", product=_PRODUCT)
_tool(find_store, "/stores/{city}", "The company's shops in a city, with address and hours.", city=_CITY)
_tool(
    get_weather,
    "/weather/{city}/{day}",
    "Weather in a city.",
    city=_CITY,
    day={"type": "string", "enum": ["today", "tomorrow"]},
)
_tool(
    get_exchange_rate,
    "/exchange_rates/{currency}",
    "What a currency is worth in yuan (CNY), and an amount both ways.",
    optional="amount",
    currency={"type": "string", "enum": list(RATES)},
    amount={"type": "number", "minimum": 0, "maximum": 1e12},
)
