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
from dataclasses import dataclass
from datetime import UTC, date, datetime
from ipaddress import ip_address

import httpx2
from starlette.types import Scope

from edge.config import Key, Settings
from edge.errors import Unauthorized

logger = logging.getLogger("frontdesk")

KEY_PREFIX = "fd_"
# How long a checked credential is remembered where the check itself failed, in seconds.
_RETRY_SECONDS = 5.0
_CHECK_TIMEOUT = 2.0
_REMEMBERED = 10_000


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

        It lacks a key of ours, and what names a user but did not come from a trusted proxy. Raises
        Unauthorized where the settings demand a name and there is none.
        """
        hidden: set[bytes] = set()
        if self._names and not self._from_trusted_proxy(scope):
            hidden.update(self._names)
        seen = _without(scope, hidden)
        caller = self._caller(seen)
        return caller, _without(seen, {b"authorization"}) if self._settings.auth == "keys" else seen

    def _caller(self, scope: Scope) -> Caller:
        settings = self._settings
        headers = dict(reversed(scope["headers"]))
        authorization = headers.get(b"authorization", b"")
        named = {name: headers[name] for name in self._names if headers.get(name)}
        user = named.get(settings.identity_header.encode(), b"").decode("latin-1")
        tenant = named.get(settings.tenant_header.encode(), b"").decode("latin-1")
        told = tuple(named.items())
        if settings.auth == "keys":
            key = self._key(authorization)
            return Caller(key.tenant, user or key.id, vouched=True, lent_key=True, headers=told)
        if settings.auth == "proxy":
            if not user:
                raise Unauthorized(
                    f"The proxy in front did not say who asks: the header {settings.identity_header} is "
                    "missing, or came from an address that is not among trusted_proxies."
                )
            return Caller(tenant, user, vouched=True, lent_key=True, headers=told)
        lent = bool(user) or _is_local(scope)
        return Caller(tenant, user, vouched=bool(user), lent_key=lent, headers=told)

    async def accepts(self, caller: Caller, authorization: str) -> bool:
        """Whether somebody vouches for the caller, be it that the check URL has to be asked."""
        if caller.vouched:
            return True
        return self._check is not None and await self._check.accepts(authorization)

    async def close(self) -> None:
        """Close the connections to the check URL."""
        if self._check is not None:
            await self._check.close()

    def _key(self, authorization: bytes) -> Key:
        scheme, _, presented = authorization.partition(b" ")
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
        client = scope.get("client")
        if client is None:  # a Unix socket: whoever may open it is trusted
            return True
        try:
            address = ip_address(client[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address
        return any(mapped in network for network in self._settings.trusted_proxies)


class CredentialCheck:
    """Asks a URL about a credential: 2xx accepts it. Answers are remembered for ``seconds``.

    Requests with one credential at the same time ask once.
    """

    def __init__(self, url: str, seconds: float, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._url, self._seconds = url, seconds
        self._client = httpx2.AsyncClient(transport=transport, timeout=_CHECK_TIMEOUT, trust_env=False)
        self._asked: OrderedDict[bytes, tuple[float, asyncio.Task[bool | None]]] = OrderedDict()

    async def accepts(self, authorization: str) -> bool:
        """Whether the URL accepts the credential; False too where it cannot be asked."""
        if not authorization:
            return False
        credential = hashlib.sha256(authorization.encode("latin-1")).digest()  # no secret is kept
        until, task = self._asked.get(credential, (0.0, None))
        if task is None or time.monotonic() > until:
            task = asyncio.create_task(self._ask(authorization))
            self._remember(credential, self._seconds, task)
        # A client that leaves must not take the answer from the others who wait for it.
        accepted = await asyncio.shield(task)
        if accepted is None:
            self._remember(credential, min(self._seconds, _RETRY_SECONDS), task, renew=False)
        return accepted is True

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _remember(
        self, credential: bytes, seconds: float, task: asyncio.Task[bool | None], *, renew: bool = True
    ) -> None:
        until = time.monotonic() + seconds
        if not renew:
            until = min(until, self._asked.get(credential, (until, task))[0])
        self._asked[credential] = (until, task)
        self._asked.move_to_end(credential)
        while len(self._asked) > _REMEMBERED:
            self._asked.popitem(last=False)

    async def _ask(self, authorization: str) -> bool | None:
        """True or False as the URL says; None where it says neither."""
        try:
            response = await self._client.get(self._url, headers={"authorization": authorization})
        except httpx2.HTTPError as exc:
            logger.warning(
                "The auth check URL cannot be asked (%s); turns are forwarded.", type(exc).__name__
            )
            return None
        if response.is_success:
            return True
        if response.status_code in (401, 403):
            return False
        logger.warning("The auth check URL answered %s: forwarding.", response.status_code)
        return None


def new_key() -> tuple[str, str]:
    """A new API key with 256 random bits, and the SHA-256 under which it is stored.

    A fast hash is enough: nobody guesses 256 random bits.
    """
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


def _without(scope: Scope, names: set[bytes]) -> Scope:
    return {**scope, "headers": [h for h in scope["headers"] if h[0] not in names]} if names else scope


def _today() -> date:
    return datetime.now(UTC).date()


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    if client is None:
        return True
    try:
        address = ip_address(client[0])
    except ValueError:
        return False
    return bool((getattr(address, "ipv4_mapped", None) or address).is_loopback)
