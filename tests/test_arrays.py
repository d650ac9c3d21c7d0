"""Bounds and clipping at the edge: total for every finite row, at every bound that is allowed."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from discreet.arrays import in_unit_ball, public_bound, within
from discreet.bandits import LinearBandit
from discreet.domains import Ball, Simplex
from discreet.online import FTRL
from discreet.optimization import StreamingFrankWolfe
from discreet.privacy import Budget, PrefixSum

BOUNDS = st.sampled_from([1e-100, 1e-60, 1.0, 3.7, 1e60, 1e100])
ANY_ROWS = arrays(np.float64, (3, 4), elements=st.floats(allow_nan=False, allow_infinity=False))


def length(row, norm):
    return math.fsum(map(abs, row)) if norm == "l1" else math.hypot(*row)


@given(ANY_ROWS, BOUNDS, st.sampled_from(["l1", "l2"]))
def test_clipping__no_finite_row_is_longer_than_the_bound_afterwards(rows, bound, norm):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning that depends on data is an output
        clipped = within("rows", rows, bound, norm=norm, clip=True)
        alone = [within("rows", row, bound, norm=norm, clip=True) for row in rows]
        units = in_unit_ball(rows, bound, norm=norm)
    for one, row, unit in zip(clipped, alone, units, strict=True):
        assert length(one, norm) <= bound * (1 + 1e-13)
        assert length(row, norm) <= bound * (1 + 1e-13)
        assert length(unit, norm) <= 1 + 1e-13


@given(ANY_ROWS, BOUNDS)
def test_clipping__rows_inside_the_bound_stay_as_they_are(rows, bound):
    inside = rows / 1e308 * bound / 10
    np.testing.assert_array_equal(within("rows", inside, bound, norm="l2", clip=True), inside)
    np.testing.assert_allclose(
        in_unit_ball(inside, bound) * bound, inside, rtol=1e-14, atol=1e-300 * (1 + bound)
    )


def test_clipping__a_huge_row_keeps_its_direction():
    np.testing.assert_allclose(in_unit_ball(np.array([3e300, 4e300]) / 1e260, 1.0), [0.6, 0.8])


@pytest.mark.parametrize("bound", [1e-200, 1e-161, 1e101, 5e-324])
def test_public_bound__where_squares_underflow_or_overflow_it_is_refused(bound):
    with pytest.raises(ValueError, match=r"must lie in 1e-100 \.\. 1e100"):
        public_bound("norm_bound", bound)
    with pytest.raises(ValueError, match=r"bound on x must lie in 1e-100 \.\. 1e100"):
        within("x", np.ones((2, 2)), bound, norm="l2", clip=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda bound: PrefixSum(4, 2, Budget(1.0, 1e-6), sensitivity=2 * bound),
        lambda bound: LinearBandit(2, 100, norm_bound=bound),
        lambda bound: FTRL(Simplex(3), 10, 1.0, loss_bound=bound),
        lambda bound: StreamingFrankWolfe(Ball(2), 10, 1.0, 1e-6, label_bound=bound),
        lambda bound: StreamingFrankWolfe(Ball(2), 10, 1.0, 1e-6, gradient_bound=bound),
    ],
)
def test_public_bound__is_checked_by_every_constructor_that_clips(make):
    make(1e-3)
    with pytest.raises(ValueError, match=r"bound must lie in|clip must lie in"):
        make(1e-165)
