"""What a process serves: the pipeline once its bundle is loaded, or the reason why it is not."""

import logging
from pathlib import Path

from edge.bundle import load_bundle
from edge.config import Answering
from edge.errors import BundleError
from edge.pipeline import Pipeline
from edge.router import load_router
from edge.stages import Runtime

logger = logging.getLogger("frontdesk")


class Host:
    """Holds the pipeline. Until ``load`` has ended well, turns are forwarded as ``not_ready``."""

    def __init__(self, pipeline: Pipeline | None = None) -> None:
        self.pipeline = pipeline
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

    def load(self, folder: Path, answering: Answering) -> None:
        """Load a bundle; a bad one leaves the host forwarding and says so in log and readiness."""
        try:
            self.pipeline = open_pipeline(folder, answering)
        except BundleError as exc:
            self.error = str(exc)
            logger.error("Every turn is forwarded, because the bundle cannot be used. %s", exc)


def open_pipeline(folder: Path, answering: Answering = Answering()) -> Pipeline:
    """The pipeline of a bundle folder. Raises BundleError, whatever is wrong with the folder."""
    try:
        bundle = load_bundle(folder)
        return Pipeline(Runtime(bundle, load_router(bundle)), answering)
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
