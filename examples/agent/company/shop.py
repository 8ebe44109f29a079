"""The shop: orders, refunds, points, stock, prices, stores."""

from datetime import date, timedelta
from typing import Any

from company.people import check_owner, iso, money, pick, roll
from company.town import CITIES

# English name, Chinese name, price in cents, variants.
PRODUCTS: dict[str, tuple[str, str, int, tuple[tuple[str, str], ...]]] = {
    "x1": ("Skylark X1", "云雀X1", 299900, (("8 GB + 128 GB",) * 2, ("12 GB + 256 GB",) * 2)),
    "x1_pro": ("Skylark X1 Pro", "云雀X1 Pro", 459900, (("12 GB + 256 GB",) * 2, ("16 GB + 512 GB",) * 2)),
    "s5": ("Skylark S5", "云雀S5", 179900, (("8 GB + 128 GB",) * 2,)),
    "book_14": ("Skylark Book 14", "云雀笔记本14", 549900, (("16 GB + 512 GB",) * 2, ("16 GB + 1 TB",) * 2)),
    "book_16": ("Skylark Book 16", "云雀笔记本16", 699900, (("16 GB + 512 GB",) * 2, ("32 GB + 1 TB",) * 2)),
    "tab_11": ("Skylark Tab 11", "云雀平板11", 219900, (("Wi-Fi", "无线版"), ("5G", "5G版"))),
    "buds_2": ("Skylark Buds 2", "云雀耳机2", 49900, (("standard", "标准版"),)),
    "watch_3": ("Skylark Watch 3", "云雀手表3", 129900, (("42 mm", "42毫米"), ("46 mm", "46毫米"))),
}
_COLOURS = ("black", "white", "silver", "blue", "grey", "green")
_STATES = ("delivered", "paid", "packing", "out_for_delivery", "shipped", "unpaid", "cancelled")
_AGE = {"unpaid": 0, "paid": 0, "packing": 1, "shipped": 2, "out_for_delivery": 3, "delivered": 9}
_CARRIERS = (("SF Express", "顺丰速运"), ("YTO Express", "圆通速递"), ("JD Logistics", "京东物流"))
_PLACES = (("Wuhan sorting centre", "武汉转运中心"), ("Suzhou depot", "苏州营业部"))
_REFUNDS = ("none", "waiting_parcel", "received", "checking", "approved", "paid", "refused")
_STORES = {
    "beijing": (("Skylark Sanlitun", "云雀三里屯店", "19 Sanlitun Road", "三里屯路19号", "Tuanjiehu", "团结湖站"),),  # noqa: E501
    "shanghai": (
        ("Skylark Nanjing Road", "云雀南京路店", "300 Nanjing East Road", "南京东路300号", "Nanjing East Road", "南京东路站"),  # noqa: E501
        ("Skylark Xujiahui", "云雀徐家汇店", "8 Hongqiao Road", "虹桥路8号", "Xujiahui", "徐家汇站"),
    ),
    "guangzhou": (("Skylark Tianhe", "云雀天河店", "208 Tianhe Road", "天河路208号", "Shipaiqiao", "石牌桥站"),),  # noqa: E501
    "shenzhen": (("Skylark Nanshan", "云雀南山店", "2888 Keyuan Road", "科苑南路2888号", "Houhai", "后海站"),),  # noqa: E501
    "hangzhou": (("Skylark West Lake", "云雀西湖店", "98 Pinghai Road", "平海路98号", "Longxiangqiao", "龙翔桥站"),),  # noqa: E501
    "chengdu": (("Skylark Taikoo Li", "云雀太古里店", "8 Shamao Street", "纱帽街8号", "Chunxi Road", "春熙路站"),),  # noqa: E501
}  # fmt: skip


def get_order(user: str, today: date, order_id: str) -> dict[str, Any]:
    """One of the caller's orders; its state follows from its number, its days from today."""
    check_owner(user, order_id, "order")
    state = _state(order_id)
    age = _AGE.get(state, 5)
    sent = state in ("shipped", "out_for_delivery", "delivered")
    carrier = pick(_CARRIERS, order_id) if sent else (None, None)
    place = pick(_PLACES, order_id, "at") if sent else (None, None)
    product = PRODUCTS[pick(tuple(PRODUCTS), order_id, "product")]
    arrives = today + timedelta({"out_for_delivery": 0, "shipped": 2}.get(state, 4))
    seen = today - timedelta(6) if state == "delivered" else today
    return {
        "user": user,
        "order_id": order_id,
        "placed": iso(today - timedelta(age)),
        "items_en": f"{product[0]}, 1 case",
        "items_zh": f"{product[1]}、保护壳1个",
        "state": state,
        "carrier_en": carrier[0],
        "carrier_zh": carrier[1],
        "tracking_no": f"SL{roll(order_id, below=10**9):09}" if sent else None,
        "last_en": place[0],
        "last_zh": place[1],
        "last_at": f"{seen} {roll(order_id, 'hour', below=9):02}:{roll(order_id, below=60):02}"
        if sent
        else None,
        "eta": None if state in ("delivered", "cancelled", "unpaid") else iso(arrives),
        "delivered_on": iso(today - timedelta(6)) if state == "delivered" else None,
    }


def _state(order_id: str) -> str:
    return _STATES[int(order_id) // 10 % len(_STATES)]  # 1024 is on its way


def get_refund(user: str, today: date, order_id: str) -> dict[str, Any]:
    """The return of one of the caller's orders."""
    check_owner(user, order_id, "order")
    order = _state(order_id)
    # What was not delivered cannot be sent back; what was cancelled is refunded.
    choices = {"delivered": _REFUNDS, "cancelled": ("approved", "paid")}.get(order, ("none",))
    state = pick(choices, order_id, "refund")
    since = today - timedelta(2 + roll(order_id, "since", below=4))
    open_ = state in ("waiting_parcel", "received", "checking", "approved")
    return {
        "user": user,
        "order_id": order_id,
        "state": state,
        "amount": None if state == "none" else money(49900 + 10000 * roll(order_id, below=30)),
        "to": "none" if state == "none" else pick(("card", "alipay", "wechat"), order_id),
        "since": iso(today if state == "none" else since),
        "expected_by": iso(today + timedelta(5)) if open_ else None,
        "paid_on": iso(since) if state == "paid" else None,
    }


def get_points(user: str, today: date) -> dict[str, Any]:
    """The caller's points; a point is worth a cent."""
    points, expiring = 200 + roll(user, "points", below=4000), 100 * roll(user, "expiring", below=4)
    return {
        "user": user,
        "points": points,
        "worth": money(points),
        "pending": 10 * roll(user, "pending", below=30),
        "expiring": min(points, expiring),
        "expires_on": iso(date(today.year, 12, 31)) if expiring else None,
    }


def get_stock(today: date, product: str) -> dict[str, Any]:
    """Units by colour; one product in eight is sold out on a day."""
    name = PRODUCTS[product][0]
    gone = roll(product, today, below=8) == 0
    made = [colour for colour in _COLOURS if roll(product, colour, below=2)] or ["black"]
    by_colour = {colour: 0 if gone else roll(product, colour, today, below=40) for colour in made}
    units = sum(by_colour.values())
    state = "sold_out" if not units else "low" if units < 15 else "in_stock"
    restock = None if units else iso(today + timedelta(3 + roll(product, below=10)))
    return {
        "product": product,
        "name": name,
        "state": state,
        "units": units,
        "restock_on": restock,
        "colours": [{"colour": colour, "units": count} for colour, count in by_colour.items()],
    }


def get_price(today: date, product: str) -> dict[str, Any]:
    """Prices by variant; every third product is reduced in a month."""
    name, _, cents, variants = PRODUCTS[product]
    reduced = roll(product, today.year, today.month, below=3) == 0
    rows = []
    for index, (name_en, name_zh) in enumerate(variants):
        full = cents + 60000 * index
        price = round(full * 0.9, -4) - 100 if reduced else full
        before = money(full) if reduced else None
        rows.append({"name_en": name_en, "name_zh": name_zh, "price": money(price), "before": before})
    last = date(today.year + today.month // 12, today.month % 12 + 1, 1) - timedelta(1)
    return {
        "product": product,
        "name": name,
        "currency": "CNY",
        "variants": rows,
        "offer_until": iso(last) if reduced else None,
    }


def find_store(today: date, city: str) -> dict[str, Any]:
    """The shops of a city: none in some."""
    names = ("name_en", "name_zh", "address_en", "address_zh", "metro_en", "metro_zh")
    stores = [
        dict(zip(names, store, strict=True)) | {"hours": "10:00–22:00"} for store in _STORES.get(city, ())
    ]
    return {"city_en": CITIES[city][0], "city_zh": CITIES[city][1], "stores": stores}
