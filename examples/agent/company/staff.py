"""The staff: leave, attendance, pay, expense claims, canteen, meeting rooms."""

import calendar
from datetime import date, timedelta
from typing import Any

from company.people import DAYS, PEOPLE, check_owner, day_of, iso, money, pick, roll
from tools import ToolError

_CLAIMS = ("waiting_manager", "waiting_finance", "approved", "paid", "sent_back")
_WHAT = (
    ("Trip to Shanghai", "上海出差"),
    ("Taxi", "打车"),
    ("Team dinner", "团队聚餐"),
    ("Office chair", "办公椅"),
)
_DISHES = (
    ("Kung pao chicken", "宫保鸡丁", "meat", "peanuts", "花生"),
    ("Braised pork belly", "红烧肉", "pork", "soy", "大豆"),
    ("Steamed sea bass", "清蒸鲈鱼", "fish", "fish", "鱼"),
    ("Mapo tofu", "麻婆豆腐", "vegetarian", "soy", "大豆"),
    ("Stir-fried greens", "清炒时蔬", "vegan", None, None),
    ("Lamb noodles", "羊肉面", "halal", "wheat", "小麦"),
    ("Tomato and eggs", "番茄炒蛋", "vegetarian", "egg", "鸡蛋"),
    ("Beef rice bowl", "牛肉饭", "meat", "soy", "大豆"),
    ("Cold cucumber", "拍黄瓜", "vegan", None, None),
)
_BREAKFAST = (
    ("Rice porridge", "白粥", "vegan", None, None),
    ("Steamed buns", "肉包", "pork", "wheat", "小麦"),
    ("Boiled egg", "水煮蛋", "vegetarian", "egg", "鸡蛋"),
)
_ROOMS = (
    ("Lark", 2, 4, False), ("Finch", 2, 6, True), ("Heron", 3, 8, True), ("Crane", 3, 12, True),
    ("Swift", 5, 4, False), ("Egret", 5, 10, True), ("Condor", 6, 20, True),
)  # fmt: skip
_HOURS = tuple(f"{hour:02}:00" for hour in range(9, 19))


def get_leave_balance(user: str, today: date) -> dict[str, Any]:
    """The caller's days of leave of this year."""
    carried = roll(user, "carried", below=4) if today.month <= 3 else 0
    used = min(roll(user, "used", below=10), today.month)
    return {
        "user": user,
        "year": today.year,
        "annual_left": 15 - used - (0.5 if used and roll(user, "half", below=2) else 0),
        "annual_used": used + (0.5 if used and roll(user, "half", below=2) else 0),
        "carried_left": carried,
        "carried_until": iso(date(today.year, 3, 31)) if carried else None,
        "sick_used": roll(user, "sick", below=4),
        "lieu_hours": 4 * roll(user, "lieu", below=5),
    }


def get_attendance(user: str, today: date, month: str) -> dict[str, Any]:
    """The caller's working days of one month, up to yesterday."""
    year, number = _month(month, today)
    rows = []
    for day in range(1, calendar.monthrange(year, number)[1] + 1):
        on = date(year, number, day)
        if on.weekday() >= 5 or on >= today:
            continue
        mark = (
            ("late", "missing_out", "absent")[roll(user, on, below=3)]
            if not roll(user, on, 1, below=9)
            else "ok"
        )
        came = f"{9 if mark == 'late' else 8}:{roll(user, on, 'in', below=25) + 15:02}".zfill(5)
        left = f"18:{roll(user, on, 'out', below=50) + 10:02}"
        rows.append(
            {
                "date": iso(on),
                "in": None if mark == "absent" else came,
                "out": None if mark in ("absent", "missing_out") else left,
                "mark": mark,
            }
        )
    marks = [row["mark"] for row in rows]
    return {
        "user": user,
        "month": month,
        "late": marks.count("late"),
        "missing": marks.count("missing_out"),
        "hours": 9 * (marks.count("ok") + marks.count("late")),
        "days": rows,
    }


def get_payslip(user: str, today: date, month: str, employee: str = "") -> dict[str, Any]:
    """The caller's payslip of one month: paid on the 10th of the next one. Nobody else's is given."""
    if employee and employee not in (user, str(PEOPLE.index(user))):
        raise ToolError(403, "not_yours", "People see their own payslip only.")
    year, number = _month(month, today)
    paid_on = date(year + number // 12, number % 12 + 1, 10)
    if paid_on > today:
        raise ToolError(404, "not_found", f"The payslip of {month} comes on {paid_on}.")
    base = 1_200_000 + 100_000 * PEOPLE.index(user)
    overtime = 5_000 * roll(user, month, "overtime", below=20)
    bonus = base if number == 12 else 0
    gross = base + overtime + bonus
    social, tax = round(gross * 0.105), round(max(0, gross - 500_000) * 0.08)
    amounts = {
        "base": base,
        "overtime": overtime,
        "bonus": bonus,
        "gross": gross,
        "social": social,
        "tax": tax,
    }
    amounts |= {"other": 0, "net": gross - social - tax}
    told = {name: money(cents) for name, cents in amounts.items()}
    return {"user": user, "month": month, "currency": "CNY", **told, "paid_on": iso(paid_on)}


def get_expense_status(user: str, today: date, claim_no: str = "") -> dict[str, Any]:
    """One of the caller's claims, or all of the last 90 days."""
    if claim_no:
        check_owner(user, claim_no, "claim")
    own = PEOPLE.index(user)
    numbers = (claim_no,) if claim_no else tuple(str(20410 + 10 * n + own) for n in range(3))
    claims = []
    for number in numbers:
        what = pick(_WHAT, number, "what")
        filed = today - timedelta(8 + roll(number, "filed", below=60))
        claims.append(
            {
                "claim_no": number,
                "filed": iso(filed),
                "what_en": what[0],
                "what_zh": what[1],
                "amount": money(5_000 + 100 * roll(number, below=3000)),
                "state": _CLAIMS[int(number) // 10 % len(_CLAIMS)],
                "since": iso(filed + timedelta(roll(number, "since", below=8))),
            }
        )
    return {"user": user, "claims": claims}


def get_menu(today: date, day: str) -> dict[str, Any]:
    """The canteen's dishes on a day of this week; closed at weekends."""
    # A weekday is that of this week, also where it is over: people look back at what there was.
    on = today + timedelta(DAYS.index(day) - today.weekday()) if day in DAYS else day_of(day, today)
    names = ("name_en", "name_zh", "diet", "allergens_en", "allergens_zh")
    first = roll(on, below=len(_DISHES))
    turned = [dict(zip(names, dish, strict=True)) for dish in _DISHES[first:] + _DISHES[:first]]
    closed = on.weekday() >= 5
    breakfast = [dict(zip(names, dish, strict=True)) for dish in _BREAKFAST]
    return {
        "day": day,
        "date": iso(on),
        "breakfast": [] if closed else breakfast,
        "lunch": [] if closed else turned[:5],
        "dinner": [] if closed else turned[5:8],
    }


def get_free_rooms(user: str, today: date, day: str, time: str = "", people: int = 0) -> dict[str, Any]:
    """Rooms that are free on a day: from a time on, or at some time of the day."""
    on = day_of(day, today)
    rooms = []
    for name, floor, seats, screen in _ROOMS:
        begin = roll(name, on, below=6)
        end = min(begin + 2 + roll(name, on, "for", below=4), len(_HOURS) - 1)
        if seats >= people and (not time or _HOURS[begin] <= time < _HOURS[end]):
            free = {"from": time or _HOURS[begin], "until": _HOURS[end]}
            rooms.append({"name": name, "floor": floor, "seats": seats, "screen": screen, **free})
    return {"user": user, "date": iso(on), "time": time or None, "rooms": rooms}


def _month(month: str, today: date) -> tuple[int, int]:
    year, number = int(month[:4]), int(month[5:])
    if (year, number) > (today.year, today.month) or year < today.year - 3:
        raise ToolError(404, "not_found", f"There is nothing of {month}.")
    return year, number
