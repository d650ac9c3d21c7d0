"""Arithmetic that other languages repeat bit by bit, and the distributions that are made of it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from discreet.privacy import BallChannel, IntervalChannel, SeededNoise
from discreet.privacy.portable import COINS, NODES, dot, draw_coins, exp, log, normals, sphere
from discreet.privacy.sphere import CHECKED

CAPS = [(2, 0.0), (2, 0.7), (3, 0.0), (3, 0.4), (4, 0.0), (4, 0.9), (7, 0.3), (40, 0.2), (900, 0.1)]


@given(st.floats(5e-324, 1.7e308))
def test_log__is_within_one_unit_in_the_last_place(x):
    expected = math.log(x)
    assert abs(float(log(x)) - expected) <= math.ulp(expected) or x == 1


def test_log__of_one_is_zero_and_arrays_are_the_same_as_numbers():
    x = np.geomspace(1e-300, 1e300, 1001)
    assert float(log(1.0)) == 0.0
    assert log(x).tolist() == [float(log(each)) for each in x]


@given(st.floats(-700, 700))
def test_exp__is_within_one_unit_in_the_last_place(x):
    expected = math.exp(x)
    assert abs(float(exp(x)) - expected) <= math.ulp(expected)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 8, 40, 900, 20_000])
def test_sphere__tails_are_those_of_one_coordinate_of_a_uniform_direction(dim):
    """Relative, small ones too: the odds of a report are made of them."""
    table = sphere(dim)
    t = np.tanh(table.r)
    rest = 1 / np.cosh(table.r) ** 2
    # Each form of the beta function where its argument keeps its digits.
    exact = np.where(
        t < 0.5,
        special.betaincc(0.5, (dim - 1) / 2, t**2) / 2,
        special.betainc((dim - 1) / 2, 0.5, rest) / 2,
    )
    reached = exact > 1e-25
    assert np.abs(table.tail / exact - 1)[reached].max() < 1e-11
    np.testing.assert_allclose(table.at(table.tail), table.r, rtol=0, atol=1e-12 * table.r[-1])


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 8, 40, 900])
def test_sphere__between_its_nodes_the_density_is_right_to_well_below_what_is_not_spent(dim):
    """A relative error of the density is a privacy loss: it must stay below CHECKED."""
    table = sphere(dim)
    middle = slice(1, NODES // 2)
    fine = table.tail[middle][:, None] * np.exp(np.linspace(-0.04, 0.04, 41))
    fine = np.minimum(fine, 0.5)
    r = table.at(fine.ravel()).reshape(fine.shape)
    # The mass between two points, by the density at three: Simpson's rule is exact to 1e-14 here.
    halfway = (fine[:, 1:] + fine[:, :-1]) / 2
    between = table.at(halfway.ravel()).reshape(halfway.shape)
    constant = table.density[0]
    f = [constant * np.cosh(x) ** (1 - dim) for x in (r[:, 1:], between, r[:, :-1])]
    # r is no even grid: substitute, dr = dm / density, so that 1 = density dr/dm on average.
    mass = np.abs(np.diff(fine))
    width = np.abs(np.diff(r))
    mean = (1 / f[0] + 4 / f[1] + 1 / f[2]) / 6  # of dr/dm over the tail
    usable = mass > 0
    assert np.abs(width[usable] / (mass * mean)[usable] - 1).max() < 0.5 * CHECKED


def test_dot__adds_from_left_to_right():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 5, 33))
    for i in range(5):
        total = 0.0
        for x, y in zip(a[i].tolist(), b[i].tolist(), strict=True):
            total += x * y
        assert float(dot(a, b)[i]) == total


def test_normals__are_normal_and_independent(assert_distribution):
    drawn = normals(SeededNoise(0), 40_000, 3)
    for column in drawn.T:
        assert_distribution(column, stats.norm.cdf)
    assert np.abs(np.corrcoef(np.column_stack([drawn, drawn**2]).T) - np.eye(6)).max() < 0.03


@pytest.mark.parametrize(("dim", "cap"), CAPS)
@pytest.mark.parametrize("inside", [True, False])
def test_cosine__is_distributed_as_one_coordinate_on_the_cap_and_on_the_rest(
    dim, cap, inside, assert_distribution
):
    """As normal scores, so that the check has its usual power against another spread."""
    table = sphere(dim)
    node = int(np.searchsorted(np.tanh(table.r), cap))
    cap = math.tanh(table.r[node])
    along, across = table.draw(np.full(30_000, inside), node, SeededNoise(dim))
    assert ((along >= cap - 1e-15) == inside).all()
    assert np.abs(along**2 + across**2 - 1).max() < 1e-12
    whole = stats.beta((dim - 1) / 2, (dim - 1) / 2, loc=-1, scale=2).cdf
    low, high = (whole(cap), 1.0) if inside else (0.0, whole(cap))
    assert_distribution(stats.norm.ppf((whole(along) - low) / (high - low)), stats.norm.cdf)


@given(st.integers(2, 60), st.floats(0.05, 12.0), st.integers(1, 3))
def test_ball__the_integer_threshold_keeps_the_promise_with_room_for_a_devices_check(d, epsilon, k):
    """p (1 - q) / ((1 - p) q) < e^epsilon, exactly, by more than a device's series is off."""
    channel = BallChannel(d, epsilon, contributions=k)
    p, q = Fraction(channel.thresholds["likely"], COINS), Fraction(channel._inside_q)
    loss = math.log(p * (1 - q) / ((1 - p) * q))
    assert channel.report_epsilon - 1.1 * CHECKED <= loss <= epsilon / k - 0.9 * CHECKED


def test_channels__integers_on_the_wire_are_the_reports():
    rng = np.random.default_rng(0)
    for epsilon in (0.4, 3.0):
        for channel, values in (
            (BallChannel(5, epsilon), rng.uniform(-0.3, 0.3, (50, 5))),
            (IntervalChannel(epsilon, low=0.0), rng.uniform(0, 1, 50)),
        ):
            reports = channel.privatize(values, SeededNoise(1))
            codes = channel.encode(reports)
            assert codes.dtype == np.int64
            assert np.array_equal(channel.decode(codes), reports)


def test_ball__the_number_of_words_does_not_depend_on_the_record():
    """The same words for every record: nobody's later coins depend on anybody's data."""
    records = [np.eye(6)[:1], -np.eye(6)[:1], np.zeros((1, 6)), np.full((1, 6), 1e-300)]
    for seed in range(40):
        after = []
        for record in records:
            noise = SeededNoise(seed)
            BallChannel(6, 2.0).privatize(record, noise)
            after.append(int(draw_coins(noise, 1)[0]))
        assert len(set(after)) == 1
