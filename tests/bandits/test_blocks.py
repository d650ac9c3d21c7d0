import math

import numpy as np
import pytest

from discreet.bandits import LinearBandit, Model
from discreet.bandits.release import Sums
from discreet.bandits.window import TOTALS
from discreet.features import Category, FeatureMap, Number
from discreet.least_squares.blocks import SHARED, Blocks
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


def test_blocks__cost_nothing_and_change_no_noise():
    plain, apart = (played(40, model=Model(blocks=labels))[0] for labels in (None, PHI.block_of))
    assert plain.guarantee.releases == apart.guarantee.releases
    noises = []
    for labels in (None, PHI.block_of):
        bandit = LinearBandit(PHI.dim, noise=SeededNoise(0), seed=0, model=Model(blocks=labels))
        bandit.decide(np.zeros((1, PHI.dim)))  # the window opens, full of its noise
        noises.append(bandit._window.total._value)
    assert np.array_equal(*noises)
    assert noises[0].all()


def test_blocks__without_noise_the_first_release_teaches_the_same_but_for_the_prior():
    estimates = []
    for labels in (None, PHI.block_of):
        bandit, _ = played(8, math.inf, model=Model(blocks=labels))
        bandit.turn()  # 8 decisions are the first window
        belief = bandit.belief
        estimates.append(np.linalg.pinv(belief.precision, 1e-6) @ belief.weighted)
    assert np.allclose(*estimates, atol=1e-6)
    assert estimates[0].any()


def test_blocks__weights_may_be_as_long_as_1_in_every_block():
    bandit = LinearBandit(PHI.dim, reward_range=(0, 1), model=Model(blocks=PHI.block_of))
    prior = np.diag(bandit.belief.covariance)[: PHI.dim]
    assert bandit.belief.radius == 2.0  # four blocks of length 1
    assert np.allclose(prior, 4 / (PHI.dim + 1))
    alone = LinearBandit(PHI.dim, reward_range=(0, 1), model=Model(blocks=[0] * PHI.dim))
    assert alone.belief.radius == 1.0


def test_blocks__products_across_them_are_0_in_what_is_read():
    bandit, _ = played(3000, model=Model(blocks=PHI.block_of))
    label = np.array(PHI.block_of)
    across = label[:, None] != label
    M = bandit._window.transform.whitening[: PHI.dim, : PHI.dim]
    assert (M[across] == 0).all()
    view = bandit._window.transform
    d = len(view.mean)
    noise = np.random.default_rng(0).standard_normal((d + 2) * (d + 3) // 2 + TOTALS)
    sums = Sums.read(noise, view, 1.0, 100, bandit.belief, Blocks((*PHI.block_of, SHARED)))
    assert (sums.gram[: PHI.dim, : PHI.dim][across] == 0).all()
    assert sums.gram[-1].all()  # the constant is beside all of them


@pytest.mark.parametrize("labels", [[-1] * 12, [3] * 12, [0] * 6 + [-1] * 6])
def test_blocks__change_nothing_where_any_feature_may_stand_beside_any(labels):
    plain, same = (played(300, model=Model(blocks=each))[0] for each in (None, labels))
    assert np.array_equal(plain.theta, same.theta)


def test_blocks__a_row_across_blocks_is_as_private_as_any():
    # Blocks are public: they choose the transform, which bounds any row, and read the release.
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20, PHI.dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    bandit, _ = played(300, model=Model(blocks=PHI.block_of))
    for rewards in (np.zeros(20), np.ones(20)):
        v, weights = bandit._window.transform.rows(rows, rewards)
        assert ((v**2).sum(axis=1) <= 2 + 1e-12).all()
        assert (weights <= 1).all()


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
