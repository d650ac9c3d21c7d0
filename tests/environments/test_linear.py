import numpy as np
import pytest

from discreet.environments.linear import NAMES, LinearWorld, linear_world


def made(name, seed=0, n=4000, **more):
    world = linear_world(name, dim=5, seed=seed, **more)
    return world, world.people(n, np.random.default_rng(1))


def alone(world, phi):
    """The same world with this row as its only one, for everybody."""
    return LinearWorld(
        "alone", world.theta, lambda n, rng: np.tile(phi, (n, 1, 1)), 1, world.distribution
    )


@pytest.mark.parametrize("name", NAMES)
def test_world__means_are_linear_in_the_features(name):
    world, people = made(name, n=50)
    expected = [[float(phi @ world.theta) for phi in offered] for offered in people.features]
    assert np.allclose(people.means, expected)


@pytest.mark.parametrize("name", NAMES)
def test_world__rewards_have_the_stated_mean_and_range(name):
    # Four fixed rows, 40,000 rewards each: a mean is within 6 deviations of 1/200 = .03, and where
    # Gaussian rewards are cut at 1 it may be lower by up to .04.
    world, people = made(name)
    rng = np.random.default_rng(2)
    for phi in people.features[:4, 0]:
        y = alone(world, phi).people(40_000, rng).rewards(np.zeros(40_000, dtype=int), rng)
        assert y.shape == (40_000,)
        low, high = world.reward_range
        assert low <= y.min() <= y.max() <= high
        mean = float(phi @ world.theta)
        near = 0.04 if world.distribution == "gaussian" and abs(mean) > 0.6 else 0.0
        assert y.mean() == pytest.approx(mean, abs=0.03 + near)
        if world.distribution == "sign":
            assert set(np.unique(y)) == {-1.0, 1.0}
        elif world.distribution == "zero-one":
            assert set(np.unique(y)) == {0.0, 1.0}
        elif not near:
            assert y.std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_world__theta_is_of_unit_length_unless_rewards_are_zeros_and_ones(name):
    world, people = made(name)
    if world.distribution == "zero-one":
        assert people.means.min() >= -1e-12
    else:
        assert np.linalg.norm(world.theta) == pytest.approx(1)


def test_world__each_is_what_its_line_says():
    features = {name: made(name)[1].features for name in NAMES}
    norms = {name: np.linalg.norm(X, axis=2) for name, X in features.items()}
    assert np.allclose(norms["sphere"], 1)
    assert np.allclose(norms["sign"], 1)
    assert np.allclose(norms["short"], 0.1)
    scales = features["decay"].std(axis=(0, 1))
    assert (np.diff(scales) < 0).all()
    assert scales[0] > 5 * scales[-1]
    _, fixed = made("fixed")
    assert (fixed.features == fixed.features[0]).all()
    second, first = np.sort(fixed.means[0])[-2:]
    assert first - second > 0.1
    rare = made("rare", n=40_000)[1].features
    odd = (rare[:, :, :3] == 0).all(axis=(1, 2))
    assert 0.007 < odd.mean() < 0.013  # 1%, 6 deviations
    assert (rare[~odd][:, :, 3:] == 0).all()
    basis = features["basis"]
    fraction = basis.mean(axis=(0, 1))
    assert ((basis == 0) | (basis == 1)).all()
    assert np.allclose(fraction, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16], atol=0.02)
    for name, mean in (("half", 0.5), ("tenth", 0.1)):
        assert np.allclose(features[name][:, :, 0], 1 / np.sqrt(2))
        assert made(name)[1].means.mean() == pytest.approx(mean, abs=0.01)


def test_world__noise_is_the_std_of_gaussian_rewards():
    people = linear_world("short", 3, noise=0.3, seed=0).people(20_000, np.random.default_rng(0))
    first = np.zeros(20_000, dtype=int)
    noise = people.rewards(first, np.random.default_rng(0)) - people.means[:, 0]
    assert noise.std() == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize(
    "change", [{"name": "moon"}, {"dim": 1}, {"actions": 1}, {"dim": 2.5}], ids=str
)
def test_world__bad_arguments_are_refused(change):
    with pytest.raises(ValueError, match="must"):
        linear_world(**{"name": "sphere", "seed": 0, **change})
