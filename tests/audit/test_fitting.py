"""Which attacks are attacks on a configuration, and that they run at its own promise."""

import numpy as np
import pytest

from discreet.audit import ATTACKS, audit
from discreet.audit.attacks import attacks_on
from discreet.bandits import LinearBandit, LocalServer, Model, People
from discreet.domains import Simplex
from discreet.online import FTPL, FTRL, Doubling
from discreet.privacy import Budget, PrefixSum, SeededNoise
from discreet.regression import PrivateLinearRegression


def names(learner):
    return {attack.name for attack in attacks_on(learner, learner.guarantee)}


@pytest.mark.parametrize(
    ("learner", "expected"),
    [
        (
            LinearBandit(2),
            {
                "linear bandit",
                "linear bandit, old log",
                "linear bandit, reward in another window",
                "linear bandit identity, own context",
            },
        ),
        (LinearBandit(2, people=People(rounds=7)), {"linear bandit, three rounds of one user"}),
        (
            LinearBandit(2, 100, model=Model(link="logistic")),
            {"linear bandit logistic, own context"},
        ),
        (LinearBandit(2, policy="descent"), {"linear bandit sgd"}),
        (LinearBandit(2, trust="local"), {"linear bandit local"}),
        (
            LinearBandit(2, people=People(visits="first")),
            {"linear bandit, first visit in another window"},
        ),
        (LinearBandit(2, epsilon=np.inf), set()),
        (FTPL(Simplex(2), 1000, 1.0, 1e-6), {"ftpl"}),
        (Doubling(lambda T: FTRL(Simplex(2), T, 1.0, 1e-6), first=1000), {"doubling"}),
        (
            PrefixSum(100, 4, Budget(1.0, 1e-6, 4), sensitivity=1.0, mechanism="blt"),
            {"prefix sum blt, three rounds of one user"},
        ),
    ],
    ids=lambda each: None if isinstance(each, set) else type(each).__name__,
)
def test_attacks_on__fit_what_the_learner_was_made_with(learner, expected):
    assert names(learner) == expected


def test_attacks_on__a_fitted_regression_by_its_method():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (10_000, 2)) / 2
    bounds = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": True, "random_state": 0}
    for method in ("information-weighted", "single-pass", "reweighted", "sgd"):
        model = PrivateLinearRegression(2.0, method=method, **bounds).fit(X, X[:, 0])
        (attack,) = attacks_on(model, model.guarantee_)
        assert attack.name == f"linear regression {method}"
        assert attack.claim.epsilon == 2.0


def test_attacks_on__a_server_by_what_its_devices_promise():
    server = LocalServer(2, epsilon=2.0)
    promise = server.guarantee
    found = {attack.name for attack in attacks_on(server, promise)}
    assert found == {"linear bandit local", "device, hostile policy"}


def test_at__the_number_of_contributions_reaches_the_learner_under_attack():
    # Chance of a false alarm: 1 in 10,000 each. A learner that protects one round and is attacked
    # by seven is caught (power): the claim is refuted at once.
    honest = ATTACKS["prefix sum blt, three rounds of one user"].at(1.0, contributions=7)
    assert audit(honest, 2000, confidence=0.9999).verdict != "BROKEN"
    assert audit(honest, 2000).contributions == 7

    def one_round_only(claim, runs, neighbour, noise):
        sums = PrefixSum(24, runs, Budget(claim.epsilon, claim.delta), sensitivity=1.0,
                         bound=runs, mechanism="blt", noise=noise)  # fmt: skip
        return sum(sums.add(np.full(runs, neighbour - 0.5)) for _ in range(claim.contributions))

    noise = SeededNoise(0)
    sides = [one_round_only(honest.claim, 2000, side, noise) for side in (0, 1)]
    from discreet.audit.run import audit_sides

    assert audit_sides(honest, tuple(sides), confidence=0.9999).verdict == "BROKEN"


@pytest.mark.parametrize(
    ("name", "contributions"),
    [("linear bandit", 3), ("linear bandit, three rounds of one user", 1)],
)
def test_at__one_round_and_several_are_different_attacks(name, contributions):
    with pytest.raises(ValueError, match="take another"):
        ATTACKS[name].at(1.0, contributions=contributions)


def test_linear_bandit_local__two_people_with_another_question_are_left_out():
    # At epsilon = 2 two people of one batch answered "square": numbers, not rows of two.
    assert ATTACKS["linear bandit local"].at(2.0).scores(300, 0, 0).shape == (300,)
