import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.arrays import symmetric_to_vector, vector_to_symmetric
from discreet.privacy import BallChannel, IntervalChannel, SeededNoise
from discreet.privacy.channels import BinaryChannel

EPSILONS = [0.1, 1.0, 3.0, 8.0]


def duchi_radius(dim, epsilon):
    ratio = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    gammas = math.gamma((dim + 1) / 2) / math.gamma(dim / 2 + 1)
    return ratio * math.sqrt(math.pi) / 2 * dim * gammas


@given(st.integers(1, 12), st.sampled_from(EPSILONS), st.integers(0, 2**32))
def test_ball__no_report_tells_two_records_apart_by_more_than_epsilon(dim, epsilon, seed):
    rng = np.random.default_rng(seed)
    channel = BallChannel(dim, epsilon)
    reports = rng.standard_normal((200, dim))
    reports *= channel.radius / np.linalg.norm(reports, axis=1, keepdims=True)
    one, other = rng.standard_normal((2, dim))
    one /= np.linalg.norm(one)
    other *= rng.uniform() / np.linalg.norm(other)
    for v, w in ((one, -one), (one, other), (one, 0 * one), (other, -one)):
        loss = channel.log_density(reports, v) - channel.log_density(reports, w)
        assert np.abs(loss).max() <= epsilon + 1e-9


@pytest.mark.parametrize("dim", [1, 2, 7])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_ball__uses_all_of_epsilon(dim, epsilon):
    channel = BallChannel(dim, epsilon)
    e1 = np.eye(dim)[0]
    ends = channel.radius * np.array([e1, -e1])
    loss = channel.log_density(ends, e1) - channel.log_density(ends, -e1)
    assert loss == pytest.approx([epsilon, -epsilon])


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_ball__density_is_a_density_and_reports_follow_it(dim, epsilon):
    channel = BallChannel(dim, epsilon)
    rng = np.random.default_rng(0)
    v = 0.7 * np.eye(dim)[0]
    sphere = rng.standard_normal((400_000, dim))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    density = np.exp(channel.log_density(channel.radius * sphere, v))
    assert density.mean() == pytest.approx(1.0, abs=0.02)
    # The distribution of the first coordinate: weights of the uniform sphere against real reports.
    reports = channel.privatize(np.tile(v, (40_000, 1)), SeededNoise(1))[:, 0] / channel.radius
    edges = np.linspace(-1, 1, 12) if dim > 1 else np.array([-1.5, 0.0, 1.5])
    expected = np.histogram(sphere[:, 0], edges, weights=density)[0]
    keep = expected > 500
    counts = np.histogram(reports, edges)[0][keep]
    expected = expected[keep] * counts.sum() / expected[keep].sum()
    assert (np.abs(counts - expected) / np.sqrt(expected)).max() < 6


@pytest.mark.parametrize("dim", [1, 2, 5, 40])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("length", [0.0, 0.3, 1.0])
def test_ball__reports_are_unbiased_with_the_stated_variance(dim, epsilon, length):
    channel = BallChannel(dim, epsilon)
    direction = np.ones(dim) / math.sqrt(dim)
    n = 60_000
    reports = channel.privatize(np.tile(length * direction, (n, 1)), SeededNoise(2))
    assert np.allclose(np.linalg.norm(reports, axis=1), channel.radius)
    error = (reports.mean(axis=0) - length * direction) * math.sqrt(n) / channel.std
    assert np.abs(error).max() < 5.5
    variance = np.mean(np.sum((reports - length * direction) ** 2, axis=1))
    assert variance == pytest.approx(channel.radius**2 - length**2, rel=0.02, abs=0.005)


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 100])
def test_ball__never_worse_than_the_half_sphere_and_better_for_large_epsilon(dim):
    for epsilon in (0.2, 1.0, 2.0, 4.0, 8.0):
        assert BallChannel(dim, epsilon).radius <= duchi_radius(dim, epsilon) * (
            1 + 1e-8
        )  # CHECKED
    if dim >= 3:
        assert BallChannel(dim, 6.0).radius < 0.9 * duchi_radius(dim, 6.0)
    assert BallChannel(10, 1.0).std <= 2.75  # privacy.md, section 7


def test_ball__a_million_reports_take_seconds():
    V = np.random.default_rng(0).standard_normal((1_000_000, 10))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    start = time.process_time()
    BallChannel(10, 1.0).privatize(V, SeededNoise(0))
    assert time.process_time() - start < 10


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("size", [5e-324, 1.6e-162, 1e-160, 1e-30])
def test_ball__tiny_records_are_reported_on_the_same_sphere(dim, size):
    channel = BallChannel(dim, 1.0)
    reports = channel.privatize(np.full((50, dim), size), SeededNoise(0))
    assert channel.possible(reports).all()
    assert np.allclose(np.linalg.norm(reports, axis=1), channel.radius, rtol=3e-6)


def test_ball__single_vectors_shapes_and_privacy_off():
    channel = BallChannel(3, 1.0)
    assert channel.privatize([0.1, 0.2, 0.3], SeededNoise(0)).shape == (3,)
    assert channel.privatize(np.zeros((2, 4, 3)), SeededNoise(0)).shape == (2, 4, 3)
    assert channel.privatize(np.empty((0, 3)), SeededNoise(0)).shape == (0, 3)
    off = BallChannel(2, math.inf)
    assert np.array_equal(off.privatize([[0.6, 0.8]]), [[0.6, 0.8]])
    assert "NO PRIVACY" in off.guarantee.statement()


def test_channels__contributions_split_epsilon_over_the_reports():
    for one, four in (
        (BallChannel(5, 0.5), BallChannel(5, 2.0, contributions=4)),
        (IntervalChannel(0.5), IntervalChannel(2.0, contributions=4)),
    ):
        assert four.std == pytest.approx(one.std)
        assert four.guarantee.epsilon_at(0.0) == pytest.approx(2.0)
        assert four.guarantee.unit == "user, at most 4 rounds"


def test_ball_channel__a_symmetric_matrix_as_its_isometric_vector_is_unbiased():
    channel = BallChannel(6, 2.0)
    matrix = np.array([[0.3, 0.2, 0.0], [0.2, -0.4, 0.1], [0.0, 0.1, 0.2]])
    vectors = np.tile(symmetric_to_vector(matrix), (100_000, 1))
    reports = vector_to_symmetric(channel.privatize(vectors, SeededNoise(6)))
    standard = reports.std(axis=0) / math.sqrt(len(reports))
    assert (np.abs(reports.mean(axis=0) - matrix) / standard).max() < 5.5


@pytest.mark.parametrize(
    "call",
    [
        lambda: BallChannel(0, 1.0),
        lambda: BallChannel(3, 0.0),
        lambda: BallChannel(3, 1.0).privatize([1.0, 1.0, 0.0]),
        lambda: BallChannel(3, 1.0).privatize([1.0, 0.0]),
        lambda: BallChannel(3, 1.0).privatize([math.nan, 0.0, 0.0]),
        lambda: IntervalChannel(1.0).privatize(1.5),
        lambda: IntervalChannel(1.0, low=1.0, high=1.0),
        lambda: IntervalChannel(1.0).privatize(math.inf),
        lambda: IntervalChannel(1e-16),
        lambda: BinaryChannel(1e-16),
        lambda: BallChannel(3, 1e-16),
        lambda: BallChannel(3, 1.0, contributions=10**11),
    ],
)
def test_channels__bad_input_is_a_clear_error(call):
    with pytest.raises(ValueError, match=r"must|expected"):
        call()


def test_channels__clip_only_when_asked():
    assert BallChannel(2, 1.0).privatize([3.0, 4.0], SeededNoise(0), clip=True).shape == (2,)
    far = IntervalChannel(math.inf).privatize([5.0, -0.5], clip=True)
    assert np.array_equal(far, [1.0, -0.5])


CHANNELS = {
    "ball": (BallChannel(4, 1.0), np.full((20, 4), 0.3)),
    "line": (BallChannel(1, 1.0), np.full((20, 1), 0.3)),
    "response": (IntervalChannel(0.5, low=-3.0, high=5.0), np.full(20, 4.0)),
    "hybrid": (IntervalChannel(4.0, low=-3.0, high=5.0), np.full(20, 4.0)),
    "binary": (BinaryChannel(4.0, low=-3.0, high=5.0), np.full(20, 4.0)),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_channels__know_which_reports_are_possible(name):
    channel, records = CHANNELS[name]
    reports = channel.privatize(records, SeededNoise(0))
    assert channel.possible(reports).all()
    wrong = np.stack([np.nan * reports[0], np.inf * reports[0], 9e9 + reports[0]])
    assert not channel.possible(wrong).any()
    assert not channel.possible(records).any()


def test_channels__reports_lie_on_a_grid_that_is_the_same_for_every_record():
    channel, records = CHANNELS["ball"]
    reports = channel.privatize(records, SeededNoise(0))
    steps = reports / channel.radius * 2.0**20
    assert np.abs(steps - np.rint(steps)).max() < 1e-6
    assert len(np.unique(np.rint(steps))) > 15
