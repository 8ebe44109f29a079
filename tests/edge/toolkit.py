"""The demo desk with tools that may be called, for tests against real servers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edge.bundle import Bundle, Threshold
from edge.decision import Level
from edge.normaliser import Lang
from edge.templates import Template

ORDER = "订单 {get_order.order_id}：{get_order.state = shipped: 已发货; paid: 备货中}。"
ORDER_EN = "Order {get_order.order_id} is {get_order.state = shipped: on its way; paid: being packed}."
PRICE = "{get_price.name} costs {get_price.price}."
OPEN = Threshold(confidence=0.3, margin=0.0, proven=True, bound=0.0, max_wrong=0.5)
ALWAYS = {(level, lang): 0.2 for level in (Level.PREFETCH, Level.INJECT) for lang in Lang}


def with_tools(
    tools: Mapping[str, Mapping[str, Any]], templates: Mapping[str, Mapping[Lang, str]] | None = None
) -> Callable[[Bundle], Bundle]:
    """Changes a bundle's tools and templates; its thresholds let nearly everything through."""

    def change(bundle: Bundle) -> Bundle:
        parsed = {
            topic: {lang: Template.parse(text) for lang, text in texts.items()}
            for topic, texts in (templates or {}).items()
        }
        topics = tuple(replace(t, template=parsed.get(t.id, t.template)) for t in bundle.topics)
        base = {"credential": "", "gates": ALWAYS, "owner": "", "scope": "public", "cache_s": 0.0}
        changed = {
            name: replace(tool, **{**base, "use": Level.SUGGEST, **tools.get(name, {})})
            for name, tool in bundle.tools.items()
        }
        return replace(
            bundle,
            tools=changed,
            topics=topics,
            by_id={topic.id: topic for topic in topics},
            thresholds=dict.fromkeys(bundle.thresholds, OPEN),
        )

    return change


def orders(**fields: Any) -> dict[str, dict[str, Any]]:
    """get_order alone, at some level."""
    return {"get_order": {"url": "/tools/orders/{order_id}", **fields}}
