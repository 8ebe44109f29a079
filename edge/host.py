"""What a process serves: the pipeline once its bundle is loaded, or the reason why it is not."""

import logging
from dataclasses import replace
from pathlib import Path

from edge.bundle import load_bundle
from edge.config import Answering, Settings
from edge.errors import BundleError
from edge.execution import Execution
from edge.pipeline import Pipeline
from edge.prefetch import Prefetched
from edge.router import load_router
from edge.stages import Runtime
from edge.toolbox import Toolbox

logger = logging.getLogger("frontdesk")

# A few megabytes.
_READINGS = 1000


class Host:
    """Holds the pipeline, and what calls its tools. Until ``load`` has ended well, turns are forwarded.

    ``pipeline``: of a host that needs no loading; ``equip`` it before it serves.
    """

    def __init__(self, pipeline: Pipeline | None = None) -> None:
        self.pipeline = pipeline
        self.execution: Execution | None = None
        self.error: str | None = None

    @property
    def runtime(self) -> Runtime | None:
        """What the pipeline works with, None until the bundle is loaded."""
        return None if self.pipeline is None else self.pipeline.runtime

    @property
    def label(self) -> str:
        """``name@version`` of the bundle, "" without one."""
        if self.pipeline is None:
            return ""
        bundle = self.pipeline.runtime.bundle
        return f"{bundle.name}@{bundle.version}"

    def load(self, settings: Settings) -> None:
        """Load a bundle; a bad one leaves the host forwarding and says so in log and readiness."""
        try:
            self.equip(open_pipeline(settings.bundle, settings.answering), settings)
        except BundleError as exc:
            self.error = str(exc)
            logger.error("Every turn is forwarded, because the bundle cannot be used. %s", exc)

    def equip(self, pipeline: Pipeline, settings: Settings) -> None:
        """Serve a pipeline with those of its tools that the settings let this server call."""
        toolbox = Toolbox(pipeline.runtime.bundle, settings.tools)
        if settings.tools.base_url and (lacking := toolbox.lacking):
            logger.warning("Not called, because their secrets are not there: %s.", ", ".join(lacking))
        runtime = replace(pipeline.runtime, callable=toolbox.names)
        if settings.cache.mode != "off":  # then a question that is asked often need not be read each time
            runtime = replace(runtime, router=runtime.router.remembering(_READINGS))
        self.execution = Execution(runtime, toolbox, Prefetched(toolbox, settings.hints_keys))
        self.pipeline = Pipeline(runtime, pipeline.answering, pipeline.today)

    async def close(self) -> None:
        """Give back what the tools hold open."""
        if self.execution is not None:
            await self.execution.close()


def open_pipeline(folder: Path, answering: Answering = Answering()) -> Pipeline:
    """The pipeline of a bundle folder, as if every tool could be called that may be.

    Raises BundleError, whatever is wrong with the folder.
    """
    try:
        bundle = load_bundle(folder)
        return Pipeline(Runtime(bundle, load_router(bundle), bundle.called), answering)
    except BundleError:
        raise
    except OSError as exc:
        raise BundleError(
            f"{exc.filename or folder} cannot be read ({exc.strerror}); let the user that serves read it."
        ) from exc
    except Exception as exc:  # a manifest can be wrong in more ways than can be listed
        raise BundleError(
            f"{folder} cannot be used ({type(exc).__name__}: {exc}); build it again with `frontdesk train`."
        ) from exc
