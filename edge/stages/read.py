"""Read: one tokenizer call, one router run. Nothing later runs a model."""

from dataclasses import replace

from edge.decision import Reason
from edge.router import RouterError
from edge.stages import Case, Runtime


def read(case: Case, runtime: Runtime) -> Case:
    """Add the reading; object where the text is too long or the router fails."""
    try:
        reading = None if case.query.clipped else runtime.router.read(case.query.normal)
    except RouterError as exc:
        return case.because(Reason.NOT_READY, str(exc))
    if reading is None:
        return case.because(Reason.TOO_LONG, f"more than {runtime.bundle.max_tokens} tokens")
    return replace(case, reading=reading)
