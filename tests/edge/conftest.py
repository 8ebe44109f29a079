"""What the property tests share: how they are run."""

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.strategies import SearchStrategy
from spelled import Hold

_SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.fixture(params=[1, pytest.param(10, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def hold(request: pytest.FixtureRequest) -> Hold:
    """Runs a property: the same examples every time, and in ``make test-all`` ten times as many others."""
    times: int = request.param

    def run(rule: Callable[[Any], None], strategy: SearchStrategy[Any], examples: int = 200) -> None:
        chosen = settings(
            max_examples=examples * times,
            derandomize=times == 1,
            deadline=None,
            suppress_health_check=_SLOW_TO_DRAW,
        )
        test = chosen(given(strategy)(rule))
        if times > 1:
            asked = request.config.getoption("--hypothesis-seed", default=None)
            number = int(asked) if str(asked or "").isdigit() else secrets.randbits(32)
            print(f"{rule.__qualname__}: run again with --hypothesis-seed={number}")
            test = seed(number)(test)
        test()

    return run
