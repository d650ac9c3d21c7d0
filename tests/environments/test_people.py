import numpy as np
import pytest

from discreet.environments.people import People


def some(distribution="known", n=40_000, **more):
    means = np.tile([0.2, 0.7, 0.4], (n, 1))
    return People(np.zeros((n, 3, 2)), means, distribution, **more)


def test_people__regret_is_what_the_best_action_brings_beyond_the_chosen():
    rng = np.random.default_rng(0)
    means = rng.random((50, 4))
    people = People(rng.random((50, 4, 2)), means)
    chosen = rng.integers(4, size=50)
    expected = [max(row) - row[a] for row, a in zip(means, chosen, strict=True)]
    assert np.allclose(people.regret(chosen), expected)
    assert (people.regret(means.argmax(axis=1)) == 0).all()
    assert np.allclose(people.best, means.max(axis=1))


@pytest.mark.parametrize("distribution", ["gaussian", "sign", "zero-one", "known"])
def test_people__rewards_have_their_mean(distribution):
    # 40,000 rewards of std at most 1: a mean within 6 deviations is within .03.
    people = some(distribution, noise=0.1)
    for action, mean in enumerate((0.2, 0.7, 0.4)):
        y = people.rewards(np.full(40_000, action), np.random.default_rng(action))
        assert y.mean() == pytest.approx(mean, abs=0.03)
        std = {"gaussian": 0.1, "sign": (1 - mean**2) ** 0.5, "known": 0.0}.get(
            distribution, (mean * (1 - mean)) ** 0.5
        )
        assert y.std() == pytest.approx(std, abs=0.02)


def test_people__gaussian_rewards_are_cut_to_the_range():
    people = some("gaussian", noise=1.0, reward_range=(0.0, 1.0))
    y = people.rewards(np.zeros(40_000, dtype=int), np.random.default_rng(0))
    assert (y.min(), y.max()) == (0.0, 1.0)


@pytest.mark.parametrize("distribution", ["gaussian", "sign", "zero-one"])
def test_people__luck_is_the_same_whatever_the_action(distribution):
    people = some(distribution, n=1000, noise=0.1, reward_range=(-9.0, 9.0))
    low, high = (people.rewards(np.full(1000, a), np.random.default_rng(3)) for a in (0, 1))
    assert (high >= low).all()
    if distribution == "gaussian":
        assert np.allclose(high - low, 0.5)
    again = np.random.default_rng(3)
    people.rewards(np.zeros(1000, dtype=int), again)
    other = np.random.default_rng(3)
    people.rewards(np.ones(1000, dtype=int), other)
    assert again.random() == other.random()  # as many draws


def test_people__a_slice_is_some_of_them():
    rng = np.random.default_rng(0)
    people = People(rng.random((9, 2, 3)), rng.random((9, 2)), "zero-one", 0.2, (0.0, 1.0))
    part = people[3:5]
    assert len(part) == 2
    assert np.array_equal(part.features, people.features[3:5])
    assert np.array_equal(part.means, people.means[3:5])
    assert (part.distribution, part.noise, part.reward_range) == ("zero-one", 0.2, (0.0, 1.0))


@pytest.mark.parametrize("actions", [[0, 1], [0, 1, 3], [0, 1, -1], [0.0, 1.0, 1.0], 0], ids=str)
def test_people__actions_that_are_not_offered_are_refused(actions):
    people = some(n=3)
    with pytest.raises(ValueError, match="actions must"):
        people.regret(actions)
    with pytest.raises(ValueError, match="actions must"):
        people.rewards(actions, np.random.default_rng(0))


def test_people__an_unknown_distribution_is_refused_and_does_not_mean_known():
    with pytest.raises(ValueError, match="distribution must be one of"):
        some("poisson", n=2)
