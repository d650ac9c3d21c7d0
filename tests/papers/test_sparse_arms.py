import numpy as np
import pytest

from papers.sparse_arms import sparse_arms


@pytest.mark.parametrize("contexts", ["signs", "uniform", "correlated"])
def test_world__contexts_and_parameters_lie_in_the_stated_balls(contexts):
    world = sparse_arms(3, 200, nonzero=5, contexts=contexts, seed=0)
    x = world.contexts(2000, np.random.default_rng(0))
    assert np.abs(x).max() <= 1
    mood = contexts == "correlated"  # 2000 moods; else 400,000 independent entries: 6 deviations
    assert np.abs(x.mean()) < (0.07 if mood else 0.01)
    assert np.mean(x**2) == pytest.approx(1 / 3 if contexts == "uniform" else 1.0, abs=0.005)
    pairs = np.mean(x[:, :100] * x[:, 100:])
    assert pairs == pytest.approx(0.25 if mood else 0.0, abs=0.03)
    assert np.allclose(np.abs(world.thetas).sum(axis=1), 1)
    assert (np.count_nonzero(world.thetas, axis=1) == 5).all()
    assert len({tuple(np.nonzero(theta)[0]) for theta in world.thetas}) == 3


@pytest.mark.parametrize("link", ["identity", "logistic"])
def test_world__means_are_the_link_of_the_inner_product_and_rewards_have_them(link):
    world = sparse_arms(2, 30, nonzero=3, link=link, radius=0.8, seed=1)
    x = world.contexts(4, np.random.default_rng(0))
    linear = x @ world.thetas.T
    expected = linear if link == "identity" else 1 / (1 + np.exp(-linear))
    assert np.allclose(world.means(x), expected)
    assert (world.best(x) == expected.argmax(axis=1)).all()
    for mean in (0.25, 0.6):  # 40,000 rewards: within 6 deviations of 1/200
        y = world.rewards(np.full(40_000, mean), np.random.default_rng(2))
        assert y.mean() == pytest.approx(mean, abs=0.015)
        assert set(np.unique(y)) == {0.0, 1.0} if link == "logistic" else np.abs(y).max() <= 1


def test_world__the_seed_decides_the_parameters():
    first, same, other = (sparse_arms(2, 50, seed=s).thetas for s in (0, 0, 1))
    assert (first == same).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    "change",
    [{"nonzero": 51}, {"contexts": "moon"}, {"link": "probit"}, {"noise": -1.0}, {"radius": 0.0}],
    ids=str,
)
def test_world__bad_arguments_are_refused(change):
    with pytest.raises(ValueError, match="must"):
        sparse_arms(**{"n_arms": 2, "dim": 50, "seed": 0, **change})
