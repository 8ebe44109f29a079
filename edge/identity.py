"""Who asks: named by one of our keys, by a trusted proxy, or vouched for by whoever checks credentials.

Never by the body. A caller for whom nobody vouches is still forwarded where the agent judges the
credential itself (``passthrough``), but gets local answers only from a public desk.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

import httpx2
from starlette.types import Scope

from edge.config import NAME, Key, Settings
from edge.errors import Unauthorized

logger = logging.getLogger("frontdesk")

KEY_PREFIX = "fd_"
# How long a checked credential is remembered where the check itself failed, in seconds.
_RETRY_SECONDS = 5.0
_CHECK_TIMEOUT = 2.0
_REMEMBERED = 10_000
_WARN_SECONDS = 60.0
# What proxies say of whom they ask for.
_PASSED_ON = frozenset((b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"))


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``tenant`` and ``user`` are "" where nobody named them.

    ``vouched``: a key of ours or a trusted proxy names the caller. ``lent_key``: the upstream gets the
    server's own key for this caller. ``headers``: what a trusted proxy said, for the agent.
    """

    tenant: str = ""
    user: str = ""
    vouched: bool = False
    lent_key: bool = False
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Identity:
    """Tells callers apart, as the settings say."""

    def __init__(self, settings: Settings, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._settings = settings
        self._keys = {key.sha256: key for key in settings.keys}
        self._names = [n.encode() for n in (settings.identity_header, settings.tenant_header) if n]
        self._check = None
        if settings.auth_check_url:
            self._check = CredentialCheck(settings.auth_check_url, settings.auth_check_s, transport)

    def admit(self, scope: Scope) -> tuple[Caller, Scope]:
        """Who asks, and the scope as the upstream may see it.

        It lacks a key of ours, and what names a user but did not come, once, from a trusted proxy. Raises
        Unauthorized where the settings demand a name and there is none.
        """
        named = self._named(scope)
        seen = scope
        if self._names and not named:
            # Some servers behind us read an underscore as a hyphen.
            headers = [h for h in scope["headers"] if h[0].replace(b"_", b"-") not in self._names]
            seen = {**scope, "headers": headers}
        caller = self._caller(seen, named, came=scope)
        if self._settings.auth == "keys":
            seen = {**seen, "headers": [h for h in seen["headers"] if h[0] != b"authorization"]}
        return caller, seen

    def _named(self, scope: Scope) -> dict[bytes, bytes]:
        """What a trusted proxy says of the user, each header once: one that only adds proves little."""
        if not self._names or not self._from_trusted_proxy(scope):
            return {}
        found = [(n, v) for n, v in scope["headers"] if n.replace(b"_", b"-") in self._names]
        named = dict(found)
        tenant = named.get(self._settings.tenant_header.encode(), b"none")
        once = len(named) == len(found) and named.keys() <= set(self._names)
        good = once and NAME.fullmatch(tenant.decode("latin-1"))
        return {name: value for name, value in named.items() if value} if good else {}

    def _caller(self, scope: Scope, named: dict[bytes, bytes], came: Scope) -> Caller:
        settings = self._settings
        user = named.get(settings.identity_header.encode(), b"").decode("latin-1")
        tenant = named.get(settings.tenant_header.encode(), b"").decode("latin-1")
        told = tuple(named.items())
        if settings.auth == "keys":
            key = self._key([value for name, value in scope["headers"] if name == b"authorization"])
            # Of a name that came in vain, twice or from anybody, nobody can tell whose it is.
            in_vain = not user and any(n.replace(b"_", b"-") in self._names for n, _ in came["headers"])
            name = user or ("" if in_vain else key.id)
            return Caller(key.tenant, name, vouched=True, lent_key=True, headers=told)
        if settings.auth == "proxy" and not user:
            raise Unauthorized(
                f"The proxy in front did not say who asks: the header {settings.identity_header} must come "
                "once, from an address among trusted_proxies."
            )
        # Behind a proxy every caller has its address; only those that it names are known.
        lent = bool(user) or (not settings.identity_header and _is_local(scope))
        return Caller(tenant, user, vouched=bool(user), lent_key=lent, headers=told)

    async def accepts(self, caller: Caller, scope: Scope) -> bool:
        """Whether somebody vouches for the caller, be it that the check URL has to be asked."""
        if caller.vouched:
            return True
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        # Of two credentials the agent might judge the other one.
        return self._check is not None and len(given) == 1 and await self._check.accepts(given[0])

    async def close(self) -> None:
        """Close the connections to the check URL."""
        if self._check is not None:
            await self._check.close()

    def _key(self, given: Sequence[bytes]) -> Key:
        scheme, _, presented = (given[0] if len(given) == 1 else b"").partition(b" ")
        key = None
        if scheme.lower() == b"bearer":
            key = self._keys.get(hashlib.sha256(presented.strip()).hexdigest())
        if key is None:
            raise Unauthorized(
                "The API key is missing or wrong: send 'authorization: Bearer …' with a key of this server."
            )
        if key.valid_until is not None and _today() > key.valid_until:
            raise Unauthorized(
                f"The API key {key.id!r} was valid until {key.valid_until}; ask for a new one."
            )
        return key

    def _from_trusted_proxy(self, scope: Scope) -> bool:
        peer = _peer(scope)
        if isinstance(peer, str):  # whoever may open our Unix socket is trusted
            return True
        return peer is not None and any(peer in network for network in self._settings.trusted_proxies)


class CredentialCheck:
    """Asks a URL about a credential: 2xx accepts it. Answers are remembered for ``seconds``.

    Requests with one credential at the same time ask once. The transport is called directly: no cookie of
    one caller's answer, and no redirect, may speak for another.
    """

    def __init__(self, url: str, seconds: float, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._url, self._seconds = httpx2.URL(url), seconds
        self._transport = transport or httpx2.AsyncHTTPTransport(retries=0)
        self._asked: OrderedDict[bytes, tuple[float, asyncio.Task[bool | None]]] = OrderedDict()
        self._warned = -_WARN_SECONDS

    async def accepts(self, authorization: bytes) -> bool:
        """Whether the URL accepts the credential; False too where it cannot be asked."""
        if not authorization:
            return False
        credential = hashlib.sha256(authorization).digest()  # no secret is kept
        until, task = self._asked.get(credential, (0.0, None))
        if task is None or time.monotonic() > until:
            task = asyncio.create_task(self._ask(authorization))
            self._asked[credential] = (time.monotonic() + self._seconds, task)
            self._asked.move_to_end(credential)
            while len(self._asked) > _REMEMBERED:
                self._asked.popitem(last=False)
        # A client that leaves must not take the answer from the others who wait for it.
        accepted = await asyncio.shield(task)
        if accepted is None and self._asked.get(credential, (0.0, None))[1] is task:
            until = min(self._asked[credential][0], time.monotonic() + _RETRY_SECONDS)
            self._asked[credential] = (until, task)
        return accepted is True

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _ask(self, authorization: bytes) -> bool | None:
        """True or False as the URL says; None where it says neither. Only the status is read."""
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), _CHECK_TIMEOUT)
        headers = [(b"authorization", authorization), (b"accept", b"*/*")]
        try:
            request = httpx2.Request("GET", self._url, headers=headers, extensions={"timeout": timeout})
            async with asyncio.timeout(_CHECK_TIMEOUT):
                response = await self._transport.handle_async_request(request)
                status = response.status_code
                await response.aclose()
        except Exception as exc:  # whatever it is, the turn goes to the agent
            self._warn(f"cannot be asked ({type(exc).__name__})")
            return None
        if 200 <= status < 300:
            return True
        if status not in (401, 403):
            self._warn(f"answered {status}")
            return None
        return False

    def _warn(self, what: str) -> None:
        """Says it once a minute, however many credentials there are."""
        if time.monotonic() - self._warned >= _WARN_SECONDS:
            self._warned = time.monotonic()
            logger.warning("The auth check URL %s; turns are forwarded.", what)


def new_key() -> tuple[str, str]:
    """A new API key with 256 random bits, and the SHA-256 under which it is stored.

    A fast hash is enough: nobody guesses 256 random bits.
    """
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


def _today() -> date:
    return datetime.now(UTC).date()


def _peer(scope: Scope) -> IPv4Address | IPv6Address | Literal["unix"] | None:
    """Where the connection comes from; None where that cannot be told.

    A Unix socket has no port. A TCP connection that was reset has lost its peer, and must not pass for one.
    """
    client = scope.get("client")
    if client is None:
        server = scope.get("server")
        return "unix" if server and server[1] is None else None
    try:
        address = ip_address(client[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_local(scope: Scope) -> bool:
    """Whether the caller is on this machine, and not a proxy here that asks for somebody else."""
    if any(name in _PASSED_ON for name, _ in scope["headers"]):
        return False
    peer = _peer(scope)
    return peer is not None and (isinstance(peer, str) or peer.is_loopback)
