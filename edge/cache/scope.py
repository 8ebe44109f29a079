"""What must be equal for one answer to serve two requests, besides the question: hashed into one key."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

# How an answer is sent, who is named to the agent as the asker, and whether it is kept there: none changes
# what a topic that is not personal says.
_NO_PART = frozenset({"messages", "stream", "stream_options", "user", "store", "model"})
# What of the client's headers reaches the agent and may decide its answer.
_TELLING = frozenset({b"accept-language", b"openai-beta", b"openai-organization", b"openai-project"})


def scope_key(
    body: Mapping[str, Any],
    headers: Sequence[tuple[bytes, bytes]],
    *,
    tenant: str,
    own_credential: bool,
    facts: Mapping[str, str],
) -> str:
    """32 hexadecimal digits for the circumstances of a chat body whose last message is the question.

    Sampling options, metadata and every other field count by their values, and so do all messages before the
    question. ``own_credential``: the agent sees the client's own ``authorization``, so it counts as a tenant.
    ``facts``: what the server knows: upstream, its model, bundle, data version, language, topic.
    """
    told = sorted((n, v) for n, v in headers if n in _TELLING or (own_credential and n == b"authorization"))
    *before, question = body["messages"]
    circumstances = {
        "tenant": tenant,
        "facts": dict(facts),
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in told],
        "options": {n: v for n, v in body.items() if n not in _NO_PART and v is not None},
        "before": before,
        "said_by": {n: v for n, v in question.items() if n not in ("role", "content") and v is not None},
    }
    canonical = json.dumps(_canonical(circumstances), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _canonical(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value with 1.0 as 1: JSON does not tell them apart. True stays another value than 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _canonical(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_canonical(inner) for inner in value]
    return value
