"""What anybody may ask: weather and exchange rates."""

import math
from datetime import date, datetime, timedelta
from typing import Any

from company.people import iso, pick, roll

# English name, Chinese name, the year's mean and half its swing, in °C.
CITIES = {
    "beijing": ("Beijing", "北京", 13, 15),
    "shanghai": ("Shanghai", "上海", 17, 12),
    "guangzhou": ("Guangzhou", "广州", 22, 8),
    "shenzhen": ("Shenzhen", "深圳", 23, 7),
    "hangzhou": ("Hangzhou", "杭州", 17, 12),
    "chengdu": ("Chengdu", "成都", 17, 10),
    "chongqing": ("Chongqing", "重庆", 18, 10),
    "wuhan": ("Wuhan", "武汉", 17, 13),
    "nanjing": ("Nanjing", "南京", 16, 13),
    "xian": ("Xi'an", "西安", 15, 14),
    "tianjin": ("Tianjin", "天津", 13, 15),
    "suzhou": ("Suzhou", "苏州", 17, 12),
    "qingdao": ("Qingdao", "青岛", 13, 12),
    "xiamen": ("Xiamen", "厦门", 21, 8),
    "hong_kong": ("Hong Kong", "香港", 23, 6),
    "taipei": ("Taipei", "台北", 23, 7),
}
# Yuan for one, about; a day moves it by up to half a per cent.
RATES = {
    "usd": 7.08, "eur": 8.22, "gbp": 9.36, "jpy": 0.0457, "hkd": 0.91, "twd": 0.226, "krw": 0.00482,
    "sgd": 5.46, "aud": 4.64, "cad": 5.07, "chf": 8.80, "thb": 0.22, "myr": 1.71,
}  # fmt: skip


def get_weather(today: date, city: str, day: str) -> dict[str, Any]:
    """A day that fits city and season."""
    on = today + timedelta(day == "tomorrow")
    name_en, name_zh, mean, swing = CITIES[city]
    usual = mean - swing * math.cos(2 * math.pi * (on.timetuple().tm_yday - 20) / 365)
    low = round(usual - 4 + roll(city, on, "low", below=3))
    high = low + 5 + roll(city, on, "high", below=5)
    skies = (
        "clear",
        "cloudy",
        "overcast",
        "snow" if high < 2 else "rain",
        "storm" if high > 27 else "cloudy",
    )
    sky = pick(skies, city, on)
    return {
        "city_en": name_en,
        "city_zh": name_zh,
        "date": iso(on),
        "sky": sky,
        "low": low,
        "high": high,
        "now": (low + high) // 2 if day == "today" else None,
        "rain_chance": roll(city, on, below=20) + (70 if sky in ("rain", "storm", "snow") else 0),
        "wind": 1 + roll(city, on, "wind", below=5),
    }


def get_exchange_rate(today: date, currency: str, amount: float = 1) -> dict[str, Any]:
    """Yuan for a currency and back."""
    rate = RATES[currency] * (1 + (roll(currency, today, below=100) - 50) / 10_000)
    return {
        "currency": currency.upper(),
        "rate": f"{rate:.4g}",
        "per_cny": f"{1 / rate:.4g}",
        "amount": f"{amount:.12g}",
        "in_cny": f"{amount * rate:.2f}",
        "from_cny": f"{amount / rate:.2f}",
        "as_of": datetime.combine(today, datetime.min.time()).strftime("%Y-%m-%d 09:30"),
    }
