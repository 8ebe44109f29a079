"""Which turns may use the cache at all: one question, whole in itself, whose answer is nobody's own."""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any
from unicodedata import category, normalize

from edge.bundle import Bundle, Topic
from edge.cache.settings import CacheSettings
from edge.decision import Decision, Path, Reason
from edge.normaliser import Lang
from edge.query import Query

_PROMPTS = ("system", "developer")
_SHARED = ("static", "daily", "live")
_ANY_DAY = date(2024, 1, 3)  # whichever: only whether there is a day is asked
_SEEN = ("Nd", "Sm", "Sc", "Zs")
# A user's name in the body is no part of the key, and must not carry words to the agent.
_NAME = re.compile(r"[A-Za-z0-9_.:@|+=/-]{0,128}")
# What in a question names somebody or something of theirs: an address of mail, a telephone or order number.
_PERSONAL = re.compile(r"@|[0-9](?:[ -]?[0-9]){5}")
# What is told from the moment of asking, besides days and times, which the bundle's calendar finds.
_NOW = re.compile(
    r"\b(?:now|nowadays|currently|at the moment|so far|latest|newest|recent|recently|soon|still|yet"
    r"|this (?:week|month|quarter|season|year))\b"
    r"|现在|目前|当前|眼下|此刻|最近|近期|近来|最新|刚才|刚刚|马上|今年|本周|本月|本季|这周|这个月|还没|如今"
)


def why_not(
    decision: Decision, query: Query, body: Mapping[str, Any], bundle: Bundle, settings: CacheSettings
) -> str | None:
    """Why a turn has nothing to do with the cache, in snake_case; None where it has. In doubt it has not.

    ``body``: as it was parsed, the question being its last message.
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
    return _why_no_topic(topic, bundle, settings) or _why_no_question(query, body)


def lasting(volatility: str, query: Query, bundle: Bundle) -> str:
    """The volatility of an answer on a topic of ``volatility``: what is told from today ends with it."""
    if volatility != "static":
        return volatility
    moments, _ = bundle.slots.calendar.read(query.normal, _ANY_DAY, query.lang is Lang.ZH)
    return "daily" if moments or _NOW.search(query.normal) else volatility


def _why_no_topic(topic: Topic, bundle: Bundle, settings: CacheSettings) -> str | None:
    if topic.route != "agent":
        return "route"
    if topic.id in settings.never:
        return "never"
    if topic.volatility not in _SHARED or any(bundle.tools[name].scope == "user" for name in topic.tools):
        return "personal"
    return None


def _why_no_question(query: Query, body: Mapping[str, Any]) -> str | None:
    # Every message is looked at: a query remembers only the last ones.
    if any(message.get("role") not in _PROMPTS for message in body["messages"][:-1]):
        return "history"
    user = body.get("user")
    if not _is_plain(query.typed) or not (user is None or _NAME.fullmatch(user)):
        return "hidden_text"
    return "personal" if _PERSONAL.search(query.normal) else None


def _is_plain(text: str) -> bool:
    """Whether everything in a text is seen: letters, digits, punctuation, spaces.

    What the agent reads, and neither a person nor the normaliser sees (zero-width and variation characters,
    tags, marks without end), could put one user's words into the answer that all others get.
    """
    return all(
        char in "\t\n\r"
        or (char.isprintable() if char.isascii() else category(char)[0] in "LP" or category(char) in _SEEN)
        for char in normalize("NFC", text)
    )
