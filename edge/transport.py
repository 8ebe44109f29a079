"""The way to the upstream: httpx2's transport, called directly, because a relay needs its raw bytes."""

import httpx2

from edge.config import Upstream

# Under the 5 s after which uvicorn, and many others, close an idle connection: a request that meets the
# closing cannot be told from one that the agent broke off.
KEEPALIVE_SECONDS = 4.0


def upstream_transport(upstream: Upstream) -> httpx2.AsyncBaseTransport:
    """A pooled HTTP/1.1 transport. Retries are ours to decide, so it makes none."""
    limits = httpx2.Limits(
        max_connections=upstream.max_connections,
        max_keepalive_connections=upstream.max_connections,
        keepalive_expiry=KEEPALIVE_SECONDS,
    )
    return httpx2.AsyncHTTPTransport(limits=limits, retries=0)
