"""What the tests of training share: a tiny base student, and one thread for its tiny matrices."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from tiny_base import write_base


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like ``models/base`` in which everything is small."""
    return write_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> Iterator[None]:
    """Threads that wait for each other make a fit of tiny heads ten times as slow on a busy machine."""
    with threadpool_limits(1):
        yield
