import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.least_squares import clipped_normal, least_error_clip
from discreet.least_squares.clipping import CLIPS, weight_and_parts

SIZES = st.floats(-1e6, 1e6)


@given(
    st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=5),
    st.floats(1e-6, 1.0),
    st.floats(1e-3, 1e3),
)
def test_weights_and_parts__no_row_is_longer_than_sqrt_2(rows, fraction, limit):
    length, residual = np.array(rows).T
    weight, f, g = weight_and_parts(length**2, residual, fraction * limit, limit)
    assert (weight > 0).all()
    assert (weight <= 1).all()
    assert (weight * length**2 <= 1 + 1e-12).all()
    assert (f**2 + g**2 <= 1 + 1e-12).all()


@given(st.floats(-1, 1), st.floats(1e-12, 1.0), st.floats(1e-3, 2.0))
def test_weights_and_parts__residuals_split_into_two_scales_without_loss(part, ratio, limit):
    clip, residual = ratio * limit, part * limit
    _, kept, rest = weight_and_parts(0.0, np.array([residual]), clip, limit)
    f, g = kept[0] * clip, rest[0] * limit
    assert f + g == pytest.approx(residual, abs=1e-12)
    if abs(residual) <= clip:
        assert g == 0
    else:  # all that is allowed is used, and f keeps the sign
        assert kept[0] ** 2 + rest[0] ** 2 == pytest.approx(1, abs=1e-6)
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
