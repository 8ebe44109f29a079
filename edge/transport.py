"""The way to the upstream: httpx2's transport, called directly, because a relay needs its raw bytes."""

import httpx2

from edge.config import Upstream


def upstream_transport(upstream: Upstream) -> httpx2.AsyncBaseTransport:
    """A pooled HTTP/1.1 transport. Retries are ours to decide, so it makes none."""
    limits = httpx2.Limits(
        max_connections=upstream.max_connections, max_keepalive_connections=upstream.max_connections
    )
    return httpx2.AsyncHTTPTransport(limits=limits, retries=0)
