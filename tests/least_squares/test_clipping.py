import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.least_squares import bounded_rows, clipped_normal, least_error_clip
from discreet.least_squares.clipping import CLIPS

SIZES = st.floats(-1e6, 1e6)


@given(
    st.lists(st.lists(SIZES, min_size=3, max_size=3), min_size=1, max_size=5),
    SIZES,
    st.floats(1e-6, 1.0),
    st.floats(1e-3, 1e3),
)
def test_bounded_rows__no_row_is_longer_than_sqrt_2(rows, residual, fraction, limit):
    x = np.array(rows)
    v, weight = bounded_rows(x, np.full(len(x), residual), fraction * limit, limit)
    assert np.isfinite(v).all()
    assert ((v[:, :-2] ** 2).sum(axis=1) <= 1 + 1e-12).all()
    assert ((v[:, -2:] ** 2).sum(axis=1) <= 1 + 1e-12).all()
    assert (weight > 0).all()
    assert (weight <= 1).all()
    for i, row in enumerate(x):  # one row at a time is the same
        one, its_weight = bounded_rows(row, residual, fraction * limit, limit)
        assert np.allclose(one, v[i], rtol=1e-12)
        assert its_weight == pytest.approx(weight[i])


@given(st.floats(-1, 1), st.floats(1e-12, 1.0), st.floats(1e-3, 2.0))
def test_bounded_rows__residuals_split_into_two_scales_without_loss(part, ratio, limit):
    clip, residual = ratio * limit, part * limit
    v, _ = bounded_rows(np.zeros(2), residual, clip, limit)
    f, g = v[2] * clip, v[3] * limit
    assert f + g == pytest.approx(residual, abs=1e-12)
    if abs(residual) <= clip:
        assert g == 0
    else:  # all that is allowed is used, and f keeps the sign
        assert v[2] ** 2 + v[3] ** 2 == pytest.approx(1, abs=1e-6)
        assert f * residual > 0
        assert abs(f) <= clip * (1 + 1e-12)


def test_clipped_normal__equals_its_integral():
    z = (np.arange(400_000) + 0.5) / 20_000 - 10
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    for clip in (0.1, 0.7, 1.0, 3.0):
        slope, second = clipped_normal(clip)
        step = z[1] - z[0]
        assert slope == pytest.approx((density * (np.abs(z) < clip)).sum() * step, abs=1e-4)
        assert second == pytest.approx(
            (density * np.clip(z, -clip, clip) ** 2).sum() * step, abs=1e-4
        )


@pytest.mark.parametrize(("noise_std", "rows"), [(0.0, 100.0), (1.0, 100.0), (10.0, 100.0)])
def test_least_error_clip__no_candidate_estimates_better(noise_std, rows):
    # A location from `rows` clipped normal residuals plus release noise, by simulation.
    rng = np.random.default_rng(0)
    shift = 0.01
    errors = []
    for clip in CLIPS:
        sums = rng.standard_normal((4000, int(rows))) + shift
        moment = np.clip(sums, -clip, clip).sum(axis=1)
        moment += noise_std * clip * rng.standard_normal(4000)
        slope = clipped_normal(clip)[0]
        errors.append(np.var(moment / (slope * rows)))
    chosen = list(CLIPS).index(least_error_clip(noise_std, rows))
    assert errors[chosen] <= 1.1 * min(errors)
