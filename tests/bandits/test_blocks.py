import math

import numpy as np
import pytest

from discreet.bandits import LinearBandit, Model
from discreet.features import Category, FeatureMap, Number
from discreet.privacy import SeededNoise

PHI = FeatureMap({"x": Number(-1, 1), "y": Number(-1, 1)}, ["a", "b", "c", "d"])
SLOPES = np.array([[0.5, 0.4, 0.0], [0.5, 0.0, 0.4], [0.4, 0.1, 0.1], [0.5, -0.4, 0.0]])


def people(rng, n):
    """Rows (n, actions, dim), and the mean rewards of every action."""
    X = rng.uniform(-1, 1, (n, 2))
    return PHI.many({"x": X[:, 0], "y": X[:, 1]}), np.column_stack([np.ones(n), X]) @ SLOPES.T


def played(rounds, epsilon=1.0, seed=0, **arguments):
    """A learner after so many rounds of yes and no, and its regret."""
    bandit = LinearBandit(
        PHI.dim,
        epsilon=epsilon,
        reward_range=(0, 1),
        seed=seed,
        noise=SeededNoise(seed),
        **arguments,
    )
    rng = np.random.default_rng(seed)
    lost = 0.0
    while bandit.rounds < rounds:
        n = min(bandit.rounds_until_release, rounds - bandit.rounds)
        features, means = people(rng, n)
        chosen = bandit.decide_many(features)
        mean = means[np.arange(n), chosen.action]
        lost += float((means.max(axis=1) - mean).sum())
        bandit.learn_many(chosen, (rng.random(n) < mean) * 1.0)
    return bandit, lost


def test_feature_map__block_of_names_the_action_of_each_weight():
    assert PHI.block_of == tuple(np.repeat(range(4), 3))
    shared = FeatureMap(
        {"x": Number(-1, 1)},
        {"a": {"size": "s"}, "b": {"size": "l"}},
        action_features={"size": Category("s", "l")},
        blocks="both",
    )
    owners = [
        -1 if "action=" not in name else ["a", "b"].index(name.split("action=")[1])
        for name in shared.names
    ]
    assert list(shared.block_of) == owners
    rows = shared({"x": 0.5})
    for action, row in enumerate(rows):  # other actions' weights are not touched
        assert set(np.array(shared.block_of)[row != 0]) <= {-1, action}


def test_blocks__cost_nothing_and_change_nothing_of_what_is_released():
    plain, apart = (played(40, model=Model(blocks=labels))[0] for labels in (None, PHI.block_of))
    assert plain.guarantee.releases == apart.guarantee.releases
    assert np.array_equal(plain._window.total._value, apart._window.total._value)


def test_blocks__without_noise_the_first_release_teaches_the_same():
    thetas = []
    for labels in (None, PHI.block_of):
        bandit, _ = played(8, math.inf, model=Model(blocks=labels))
        bandit.turn()  # 8 decisions are the first window
        thetas.append(bandit.theta)
    assert np.allclose(*thetas, atol=1e-12)
    assert thetas[0].any()


def test_blocks__products_across_them_are_0_in_the_belief():
    bandit, _ = played(3000, model=Model(blocks=PHI.block_of))
    label = np.array(PHI.block_of)
    across = label[:, None] != label
    M = bandit._window.transform.whitening[: PHI.dim, : PHI.dim]
    assert (M[across] == 0).all()
    assert (bandit.belief.proof[: PHI.dim, : PHI.dim][across] == 0).all()


@pytest.mark.parametrize("labels", [[-1] * 12, [3] * 12, [0] * 6 + [-1] * 6])
def test_blocks__change_nothing_where_any_feature_may_stand_beside_any(labels):
    plain, same = (played(300, model=Model(blocks=each))[0] for each in (None, labels))
    assert np.array_equal(plain.theta, same.theta)


def test_blocks__a_row_across_blocks_is_as_private_as_any():
    # Blocks are used after the release: the sum, its noise and its price do not know of them.
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20, 1, PHI.dim))
    values = []
    for labels in (None, PHI.block_of):
        bandit = LinearBandit(PHI.dim, seed=0, noise=SeededNoise(0), model=Model(blocks=labels))
        bandit.learn_many(bandit.decide_many(rows), np.linspace(-1, 1, 20))
        values.append(bandit._window.total._value)
    assert np.array_equal(*values)


def test_blocks__are_resumed(tmp_path):
    bandit, _ = played(300, model=Model(blocks=PHI.block_of))
    stopped, _ = played(300, model=Model(blocks=PHI.block_of))
    stopped.save(tmp_path / "state.npz")
    resumed = LinearBandit.load(tmp_path / "state.npz")
    assert resumed.model.blocks == PHI.block_of
    for each in (bandit, resumed):
        while each.rounds < 400:
            each.decide(PHI({"x": 0.1, "y": 0.2}))
    assert np.array_equal(bandit.theta, resumed.theta)


@pytest.mark.parametrize(
    ("arguments", "blocks", "words"),
    [
        ({}, [0, 1], "a label for each of the 12 features"),
        ({}, [-2] * 12, "blocks"),
        ({}, [0.5] * 12, "blocks"),
        ({"policy": "descent"}, PHI.block_of, "descent.*blocks"),
        ({"trust": "local"}, PHI.block_of, "local.*blocks"),
    ],
)
def test_blocks__refuses_what_it_cannot_use(arguments, blocks, words):
    with pytest.raises(ValueError, match=words):
        LinearBandit(PHI.dim, model=Model(blocks=blocks), **arguments)
