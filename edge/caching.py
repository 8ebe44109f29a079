"""The cache in the path of a chat turn: which turns may use it, and how an answer gets into it."""

import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from starlette.types import Receive

from edge.access import Access
from edge.bundle import Bundle
from edge.cache.cache import Cache, Hit, Mark, Question
from edge.cache.control import Control
from edge.cache.eligible import lasting, why_not
from edge.cache.entry import Entry, entry_id, unit_vector
from edge.cache.expiry import expires, zone_of
from edge.cache.flights import Flight, Landed
from edge.cache.judge import Judge
from edge.cache.recorder import Recorder
from edge.cache.scope import scope_key
from edge.config import Settings
from edge.decision import Answer, Decision, Path, Reason
from edge.errors import RequestError
from edge.exchange import Exchange
from edge.forward import Relayed, unless_gone
from edge.host import Host
from edge.outbound import target_of
from edge.pipeline import Pipeline, place
from edge.query import Query
from edge.stages.admit import ClientLeft
from edge.telemetry import CacheUse
from edge.wire import is_unambiguous

logger = logging.getLogger("frontdesk")

# How long a whole answer is waited for: another's client may be slow to take it, or mean to be.
_LONGEST_WAIT = 60.0
# How many of a crowd ask the agent, one after the other, before it is thought to be down.
_TRIES = 2
# What of the budget a turn may wait for what several servers share.
_SHARED_SHARE = 0.1


@dataclass(slots=True)
class Filling:
    """A turn whose answer by the agent is listened to. ``flight``: where others may wait for it."""

    question: Question
    recorder: Recorder
    mark: Mark
    flight: Flight | None


class Caching:
    """Serves turns from a cache, and fills it. What breaks in it is logged, and the turn is forwarded."""

    def __init__(self, settings: Settings, host: Host, access: Access, cache: Cache) -> None:
        self._settings = settings
        self._host = host
        self._access = access
        self._cache = cache
        self._zone = zone_of(settings.cache.zone)

    async def open(
        self, exchange: Exchange, query: Query, body: bytes, data: Mapping[str, Any], receive: Receive
    ) -> Filling | None:
        """Answer a turn that was decided to be forwarded, or say how its answer is to be recorded.

        ``body``: as it came; ``data``: as it was parsed. An answer is put into the exchange's decision. None:
        nothing is kept. Raises ClientLeft.
        """
        pipeline, decision = self._host.pipeline, exchange.decision
        if self._settings.cache.mode == "off" or pipeline is None or decision is None:
            return None
        try:
            return await self._open(pipeline, decision, exchange, query, body, data, receive)
        except ClientLeft:
            raise
        except Exception:  # a user must not suffer for the cache
            logger.exception("The cache failed on the request %s, which is forwarded.", exchange.request_id)
            exchange.decision = decision
            return None
        finally:
            exchange.spans.mark("cache")

    @asynccontextmanager
    async def filling(
        self, filling: Filling | None, exchange: Exchange, relayed: Relayed
    ) -> AsyncIterator[None]:
        """Around the forwarding of a turn: keeps its answer where that can be kept."""
        if filling is None:
            yield
            return
        relayed.recorder = filling.recorder
        outcome: Entry | Landed = Landed.NOTHING
        start = time.perf_counter()
        try:
            yield
        except ClientLeft:
            outcome = Landed.LEFT
            raise
        except RequestError:
            outcome = Landed.FAILED
            raise
        finally:
            try:
                ms = (time.perf_counter() - start) * 1000
                outcome = self._kept(filling, exchange, ms) or outcome
            except Exception:
                logger.exception("The answer to the request %s could not be kept.", exchange.request_id)
            if outcome is Landed.NOTHING:
                outcome = _landed(relayed)
            self._land(filling.flight, outcome)
            if isinstance(outcome, Entry):
                await self._cache.share(outcome, filling.mark)

    async def _open(
        self,
        pipeline: Pipeline,
        decision: Decision,
        exchange: Exchange,
        query: Query,
        body: bytes,
        data: Mapping[str, Any],
        receive: Receive,
    ) -> Filling | None:
        why = await self._why_not(pipeline, decision, exchange, query, body, data)
        if why is not None:
            exchange.cache = CacheUse("none", why)
            return None
        bundle = pipeline.runtime.bundle
        if self._cache.pairs is None:
            self._cache.pairs = Judge(bundle.pairs, self._settings.cache.min_similarity)
        question = self._question(bundle, decision, exchange, query, data)
        control = Control.of(exchange.scope["headers"])
        flight: Flight | None = None
        if not control.fresh:
            found = await self._look(question, control, query, exchange, receive)
            if isinstance(found, Flight):
                flight, found = found, await self._look_further(found, question, control, exchange)
            elif found is None:
                exchange.cache = CacheUse("miss", "not_shared")
                return None
            if found is not None:
                self._answer(exchange, decision, found)
                return None
        self._cache.counts["misses"] += 1
        if not control.store:
            self._land(flight, Landed.LEFT)
            exchange.cache = CacheUse("miss", "no_store")
            return None
        named = exchange.caller.user if self._settings.identity_header else ""
        recorder = Recorder((named, str(data.get("user") or "")))
        return Filling(question, recorder, self._cache.mark(), flight)

    async def _why_not(
        self,
        pipeline: Pipeline,
        decision: Decision,
        exchange: Exchange,
        query: Query,
        body: bytes,
        data: Mapping[str, Any],
    ) -> str | None:
        """Why a turn has nothing to do with the cache, in snake_case; None where it has."""
        why = why_not(decision, query, data, pipeline.runtime.bundle, self._settings.cache)
        if why is not None:
            return why
        if not is_unambiguous(body):  # the agent may read another question than we do
            return "ambiguous_body"
        if place(query.identity) >= pipeline.answering.share:
            return "control_group"
        return None if await self._access.may_read(pipeline, exchange) else "unverified_caller"

    async def _look(
        self, question: Question, control: Control, query: Query, exchange: Exchange, receive: Receive
    ) -> Hit | Flight | None:
        """An answer that is here or on its way; a flight, if it is for this turn to ask; else None."""
        failures = 0
        while True:
            hit = self._cache.find(question, control.max_age)
            if hit is not None:
                return hit
            flight = self._cache.flights.get(question.id)
            if flight is None:
                return self._cache.flights.start(question.id)
            waiting = flight.wait(self._patience(flight, question, query, exchange))
            landed = await unless_gone(receive, waiting)
            if isinstance(landed, Entry):
                self._cache.counts["hits_waited"] += 1
                return Hit(landed, 1.0, "waited")
            failures += landed is Landed.FAILED
            if landed is Landed.NOTHING or failures == _TRIES:
                return None

    async def _look_further(
        self, flight: Flight, question: Question, control: Control, exchange: Exchange
    ) -> Hit | None:
        """An answer of what several servers share, which ends the flight."""
        outcome: Entry | Landed | None = Landed.NOTHING
        try:
            seconds = _SHARED_SHARE * exchange.budget.remaining_ms() / 1000
            hit = await self._cache.find_shared(question, control.max_age, seconds)
            outcome = None if hit is None else hit.entry
            return hit
        finally:
            if outcome is not None:
                self._land(flight, outcome)

    def _land(self, flight: Flight | None, outcome: Entry | Landed) -> None:
        if flight is not None:
            self._cache.flights.land(flight, outcome)

    def _question(
        self,
        bundle: Bundle,
        decision: Decision,
        exchange: Exchange,
        query: Query,
        data: Mapping[str, Any],
    ) -> Question:
        assert decision.reading is not None  # noqa: S101 - _why_not has looked
        assert decision.lang is not None  # noqa: S101
        settings, caller, topic = self._settings, exchange.caller, bundle.by_id[decision.reading.topic]
        facts = {
            "upstream": f"{settings.upstream.base_url} {target_of(exchange.scope)}",
            "model": settings.models.get(query.model, query.model),
            "bundle": f"{bundle.name}@{bundle.version}",
            "data_version": settings.cache.data_version,
            "lang": str(decision.lang),
            "topic": topic.id,
        }
        scope = scope_key(
            data,
            exchange.scope["headers"],
            tenant=caller.tenant,
            own_credential=not (settings.upstream.api_key and caller.lent_key),
            facts=facts,
        )
        return Question(
            id=entry_id(scope, query.normal),
            scope=scope,
            normal=query.normal,
            typed=bundle.normaliser.typed(query.typed),
            lang=decision.lang,
            topic=topic.id,
            tags=topic.tags,
            bundle=facts["bundle"],
            volatility=lasting(topic.volatility, query, bundle),
            vector=unit_vector(decision.reading.embedding),
        )

    def _patience(self, flight: Flight, question: Question, query: Query, exchange: Exchange) -> float:
        """For how many seconds a turn waits for another's answer.

        A whole answer comes no sooner from the agent itself, unless the other's client is slow. A stream has
        a first byte to show within its budget, and does not begin to wait for what is expected to be late.
        """
        if not query.stream:
            return _LONGEST_WAIT
        left = exchange.budget.remaining_ms()
        expected = self._cache.expected_ms(question.topic)
        late = expected is not None and expected - flight.elapsed_ms() > left
        return 0.0 if late else left / 1000

    def _answer(self, exchange: Exchange, decision: Decision, hit: Hit) -> None:
        entry = hit.entry
        answer = Answer(entry.topic, entry.lang, entry.text, entry.tokens)
        reason = Reason.MATCHED if hit.tier == "semantic" else Reason.EXACT
        exchange.decision = replace(decision, path=Path.CACHE, reason=reason, answer=answer)
        age = entry.age(self._cache.clock.wall())
        exchange.cache = CacheUse("hit", "", hit.tier, hit.shared, hit.similarity, age, entry.id)

    def _kept(self, filling: Filling, exchange: Exchange, fill_ms: float) -> Entry | None:
        """The answer of a turn, kept for others, and for those who wait; None where there is none."""
        text = filling.recorder.text()
        if text is None:
            exchange.cache = CacheUse("miss", filling.recorder.unfit)
            self._cache.counts[f"unfit_{filling.recorder.unfit}"] += 1
            return None
        runtime = self._host.runtime
        assert runtime is not None  # noqa: S101 - it has decided on this turn
        question, now = filling.question, self._cache.clock.wall()
        entry = Entry(
            id=question.id,
            scope=question.scope,
            question=question.normal,
            typed=question.typed,
            text=text,
            tokens=runtime.router.token_count(text),
            topic=question.topic,
            lang=question.lang,
            tags=question.tags,
            data_version=self._settings.cache.data_version,
            bundle=question.bundle,
            stored=now,
            expires=expires(question.volatility, now, self._zone),
            fill_ms=fill_ms,
            vector=question.vector,
        )
        if not self._cache.store(entry, filling.mark):
            exchange.cache = CacheUse("miss", "purged")
            return None
        exchange.cache = CacheUse("stored", id=entry.id)
        return entry


def _landed(relayed: Relayed) -> Landed:
    """How a forward ended that brought no answer."""
    if relayed.outcome == "client_left":
        return Landed.LEFT
    return Landed.FAILED if relayed.status == 429 or relayed.status >= 500 else Landed.NOTHING
