"""Whose turn it is, and whether this desk's answers may be given to them."""

from edge.config import Settings
from edge.exchange import Exchange
from edge.identity import Identity
from edge.pipeline import Pipeline


class Access:
    """Judges callers by the settings and, where these name one, by a URL that checks credentials."""

    def __init__(self, settings: Settings, identity: Identity) -> None:
        self._settings = settings
        self._identity = identity

    def user(self, exchange: Exchange) -> str:
        """Who asks, for a sticky share: the named user, else the credential, else the address."""
        caller = exchange.caller
        if caller.user or self._settings.identity_header:
            return f"{caller.tenant}/{caller.user}" if caller.tenant else caller.user
        client = exchange.scope.get("client") or ("",)
        return exchange.header(b"authorization") or str(client[0])

    def is_stranger(self, pipeline: Pipeline, exchange: Exchange) -> bool:
        """Whether nobody could vouch for the caller, also if the check URL were asked."""
        bundle, caller = pipeline.runtime.bundle, exchange.caller
        return not (bundle.public or caller.vouched or self._settings.auth_check_url)

    async def may_read(self, pipeline: Pipeline, exchange: Exchange) -> bool:
        """Whether the caller may get this desk's answers."""
        if pipeline.runtime.bundle.public or exchange.caller.vouched:
            return True
        accepted = await self._identity.accepts(exchange.caller, exchange.scope)
        exchange.spans.mark("auth")
        return accepted
