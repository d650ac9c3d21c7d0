import numpy as np
import pytest

from discreet.environments import linear_world
from discreet.environments.linear import NAMES


def made(name, seed=0, n=4000, **more):
    world = linear_world(name, dim=5, seed=seed, **more)
    return world, world.contexts(n, np.random.default_rng(1))


@pytest.mark.parametrize("name", NAMES)
def test_world__features_lie_in_the_unit_ball_and_means_in_the_reward_range(name):
    world, X = made(name, actions=7)
    assert X.shape == (4000, 7, 5)
    assert X.dtype == np.float64
    assert np.linalg.norm(X, axis=2).max() <= 1 + 1e-12
    assert world.dim == 5
    means = world.means(X)
    assert means.shape == (4000, 7)
    assert np.abs(means).max() <= 1 + 1e-12
    if world.law == "zero-one":
        assert means.min() >= -1e-12, "a mean of zeros and ones"
    else:
        assert np.linalg.norm(world.theta) == pytest.approx(1)


@pytest.mark.parametrize("name", NAMES)
def test_world__rewards_have_the_stated_mean_and_range(name):
    # Four fixed rows, 40,000 rewards each: a mean is within 6 deviations of 1/200 = .03, and where
    # Gaussian rewards are cut at 1 it may be lower by up to .04.
    world, X = made(name)
    rng = np.random.default_rng(2)
    for phi in X[:4, 0]:
        y = world.rewards(np.tile(phi, (40_000, 1)), rng)
        assert y.shape == (40_000,)
        assert np.abs(y).max() <= 1
        mean = float(phi @ world.theta)
        near = 0.04 if world.law == "gaussian" and abs(mean) > 0.6 else 0.0
        assert y.mean() == pytest.approx(mean, abs=0.03 + near)
        if world.law == "sign":
            assert set(np.unique(y)) == {-1.0, 1.0}
        elif world.law == "zero-one":
            assert set(np.unique(y)) == {0.0, 1.0}
        elif not near:
            assert y.std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_world__best_is_the_largest_mean(name):
    world, X = made(name, n=50)
    expected = [max(float(phi @ world.theta) for phi in offered) for offered in X]
    assert np.allclose(world.best(X), expected)


@pytest.mark.parametrize("name", NAMES)
def test_world__the_seed_decides_it_and_the_generator_its_rounds(name):
    one, X = made(name, seed=3, n=20)
    same, Y = made(name, seed=3, n=20)
    other, _ = made(name, seed=4, n=20)
    assert np.array_equal(one.theta, same.theta)
    assert np.array_equal(X, Y)
    assert not np.array_equal(one.theta, other.theta)
    rows = X[:, 0]
    for world in (one, same):
        again = world.rewards(rows, np.random.default_rng(5))
        assert np.array_equal(again, one.rewards(rows, np.random.default_rng(5)))


def test_world__each_is_what_its_line_says():
    norms = {name: np.linalg.norm(made(name)[1], axis=2) for name in NAMES}
    assert np.allclose(norms["sphere"], 1)
    assert np.allclose(norms["sign"], 1)
    assert np.allclose(norms["short"], 0.1)
    _, decay = made("decay")
    scales = decay.std(axis=(0, 1))
    assert (np.diff(scales) < 0).all()
    assert scales[0] > 5 * scales[-1]
    world, fixed = made("fixed")
    assert (fixed == fixed[0]).all()
    second, first = np.sort(fixed[0] @ world.theta)[-2:]
    assert first - second > 0.1
    _, rare = made("rare", n=40_000)
    odd = (rare[:, :, :3] == 0).all(axis=(1, 2))
    assert 0.007 < odd.mean() < 0.013  # 1%, 6 deviations
    assert (rare[~odd][:, :, 3:] == 0).all()
    _, basis = made("basis")
    share = basis.mean(axis=(0, 1))
    assert ((basis == 0) | (basis == 1)).all()
    assert np.allclose(share, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16], atol=0.02)
    for name, mean in (("half", 0.5), ("tenth", 0.1)):
        world, X = made(name)
        assert np.allclose(X[:, :, 0], 1 / np.sqrt(2))
        assert world.means(X).mean() == pytest.approx(mean, abs=0.01)


def test_world__noise_is_the_deviation_of_gaussian_rewards():
    world = linear_world("sphere", 3, noise=0.3, seed=0)
    y = world.rewards(np.zeros((20_000, 3)), np.random.default_rng(0))
    assert y.std() == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize(
    "change", [{"name": "moon"}, {"dim": 1}, {"actions": 1}, {"dim": 2.5}], ids=str
)
def test_world__bad_arguments_are_refused(change):
    with pytest.raises(ValueError, match="must"):
        linear_world(**{"name": "sphere", "seed": 0, **change})
