"""Which turns may use the cache at all: one question, whole in itself, whose answer is nobody's own."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from edge.bundle import Bundle, Topic
from edge.cache.settings import CacheSettings
from edge.decision import Decision, Path, Reason
from edge.query import Query

_PROMPTS = ("system", "developer")
_SHARED = ("static", "daily", "live")
# What in a question names somebody or something of theirs: an address of mail, a telephone or order number.
_PERSONAL = re.compile(r"@|[0-9](?:[ -]?[0-9]){5}")


def why_not(
    decision: Decision,
    query: Query,
    messages: Sequence[Mapping[str, Any]],
    bundle: Bundle,
    settings: CacheSettings,
) -> str | None:
    """Why a turn has nothing to do with the cache, in snake_case; None where it has. In doubt it has not.

    ``messages``: all of its body, the question last.
    """
    reading = decision.reading
    if decision.path is not Path.AGENT or reading is None or decision.lang is None:
        return "not_forwarded"
    if decision.observed is not None:
        return "withheld"
    if {hit.reason for hit in decision.guards} != {Reason.TOPIC_FORWARDS}:
        return "objection"
    if not reading.confidence >= settings.min_confidence:
        return "low_confidence"
    if decision.calls:  # what tools bring is for the caller
        return "tools"
    topic = bundle.by_id[reading.topic]
    return _why_no_topic(topic, bundle, settings) or _why_no_question(query, messages)


def _why_no_topic(topic: Topic, bundle: Bundle, settings: CacheSettings) -> str | None:
    if topic.route != "agent":
        return "route"
    if topic.id in settings.never:
        return "never"
    if topic.volatility not in _SHARED or any(bundle.tools[name].scope == "user" for name in topic.tools):
        return "personal"
    return None


def _why_no_question(query: Query, messages: Sequence[Mapping[str, Any]]) -> str | None:
    # Every message is looked at: a query remembers only the last ones.
    if any(message.get("role") not in _PROMPTS for message in messages[:-1]):
        return "history"
    try:
        query.normal.encode()
    except UnicodeEncodeError:
        return "unreadable"
    return "personal" if _PERSONAL.search(query.normal) else None
