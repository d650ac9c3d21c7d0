"""Shared by the tests: distributions with stated false alarm rate and power, threads that race."""

import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from scipy import stats

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

ALARM = 1e-6  # false alarm rate of each test of a distribution


@pytest.fixture
def assert_distribution() -> Callable[..., None]:
    """Accepts samples of a distribution, and refuses 1.25 and 1/1.25 times them."""

    def check(samples: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> None:
        flat = np.ravel(samples)
        assert stats.kstest(flat, cdf).pvalue > ALARM
        assert stats.kstest(flat * 1.25, cdf).pvalue < ALARM, "no power against 1.25 times"
        assert stats.kstest(flat / 1.25, cdf).pvalue < ALARM, "no power against 1/1.25 times"

    return check


@pytest.fixture
def in_threads() -> Callable[..., None]:
    """`in_threads(work, count)` runs work(0), work(1), ... at once, switching all the time."""

    def race(work: Callable[[int], object], count: int = 8) -> None:
        failures = []

        def guarded(i: int) -> None:
            try:
                work(i)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        assert not failures

    return race
