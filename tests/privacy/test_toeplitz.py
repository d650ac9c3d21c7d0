"""The filters as matrices: B C = A, columns of C, rows of B, all from the running code."""

import itertools
import math
import time

import numpy as np
import pytest

from discreet.privacy.toeplitz import Buffered, SquareRoot, noise_matrix


def strategy(design, horizon):
    """C = B^-1 A."""
    return np.linalg.solve(noise_matrix(design, horizon), np.tri(horizon))


def designs(horizon):
    return [SquareRoot(horizon), Buffered.fitted(horizon)]


def test_square_root__is_the_square_root():
    C = strategy(SquareRoot(30), 30)
    assert np.allclose(C @ C, np.tri(30))
    assert np.allclose(C, noise_matrix(SquareRoot(30), 30))


def test_buffered__coefficients_are_sums_of_five_geometric_series():
    design = Buffered.fitted(40)
    q = 1 - design.q_gap
    column = np.concatenate([[1.0], [np.sum(design.w * q ** (k - 1)) for k in range(1, 40)]])
    assert len(design.w) == 5
    assert np.allclose(strategy(design, 40)[:, 0], column)
    assert (np.diff(column) <= 0).all()
    assert (column >= 0).all()


@pytest.mark.parametrize("k", [1, 2, 3, 9, 20])
@pytest.mark.parametrize("index", [0, 1])
def test_reach__is_the_longest_sum_of_k_columns(index, k):
    horizon = 9
    design = designs(horizon)[index]
    C = strategy(design, horizon)
    longest = max(
        np.linalg.norm(C[:, list(rounds)].sum(axis=1))
        for rounds in itertools.combinations(range(horizon), min(k, horizon))
    )
    if k > horizon:  # 20 rounds of a person in three windows of 9, 9 and 2 rounds
        assert k == 20
        two = np.linalg.norm(C[:, :2].sum(axis=1))
        longest = math.sqrt(2 * longest**2 + two**2)
    assert design.sensitivity(k) == pytest.approx(longest)
    assert design.sensitivity(k) <= k * design.sensitivity(1) + 1e-12


@pytest.mark.parametrize("horizon", [1, 2, 17, 300])
@pytest.mark.parametrize("index", [0, 1])
def test_std__is_the_length_of_rows(index, horizon):
    design = designs(horizon)[index]
    rows = np.linalg.norm(noise_matrix(design, horizon), axis=1)
    assert np.allclose(design.std(np.arange(1, horizon + 1)), rows)


@pytest.mark.parametrize("index", [0, 1])
def test_filters__many_steps_equal_single_steps(index):
    horizon = 700
    Z = np.random.default_rng(0).standard_normal((horizon, 3))
    design = designs(horizon)[index]
    kernel = design.kernel(1.0)
    single, many = kernel.memory(3), kernel.memory(3)
    expected, pieces = [], []
    for t, z in enumerate(Z):
        single, out = kernel.step(single, t, z)
        expected.append(out)
    for a, b in ((0, 1), (1, 129), (129, 300), (300, 700)):
        many, out = kernel.steps(many, a, Z[a:b])
        pieces.append(out)
    assert np.allclose(np.concatenate(pieces), expected)
    assert np.allclose(many[:horizon], single[:horizon])


@pytest.mark.parametrize("exponent", range(8, 21))
def test_buffered__within_one_percent_of_the_square_root(exponent):
    horizon = 2**exponent
    variances = [
        (design.sensitivity(1) * float(design.std(np.array(horizon)))) ** 2
        for design in designs(horizon)
    ]
    assert variances[1] <= 1.01 * variances[0]


def square_root_variance(horizon):
    """S_T^2, with O(2^22) memory: beyond, c_k^2 is 1/(pi (k + 1/4)) up to 1/k^3."""
    known = min(horizon, 2**22)
    total = float(np.sum(SquareRoot(known).coefficients ** 2))
    return (total + math.log((horizon - 0.25) / (known - 0.25)) / math.pi) ** 2


@pytest.mark.parametrize(("exponent", "loss"), [(21, 0.012), (24, 0.026), (30, 0.076)])
def test_buffered__long_streams_lose_what_the_docs_say(exponent, loss):
    horizon = 2**exponent
    design = Buffered.fitted(horizon)
    variance = (design.sensitivity(1) * float(design.std(np.array(horizon)))) ** 2
    assert 1 <= variance / square_root_variance(horizon) <= 1 + loss


@pytest.mark.parametrize("horizon", [1, 2, 5, 31, 100, 1000, 12_345])
def test_buffered__any_horizon_is_close_to_the_square_root(horizon):
    variances = [
        (design.sensitivity(1) * float(design.std(np.array(horizon)))) ** 2
        for design in designs(horizon)
    ]
    assert variances[1] <= 1.01 * variances[0]


def test_buffered__parameters_take_less_than_a_millisecond():
    times = []
    for exponent in range(8, 40):
        start = time.perf_counter()
        Buffered.fitted(2**exponent).sensitivity(1)
        times.append(time.perf_counter() - start)
    assert np.median(times) < 1e-3
