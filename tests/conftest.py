"""Shared by the tests: tests of a distribution, with stated false alarm rate and power."""

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
