"""AdversarialBandit: a plain learner inside the reduction (local) or on noisy batches (central)."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from discreet.online import Doubling
from discreet.online.adversarial import AdversarialBandit, Exp2, Tsallis
from discreet.online.reduction import PrivateReduction
from discreet.privacy import SecureNoise, SeededNoise

TRUSTS = ("local", "central")


def make(trust="local", epsilon=None, horizon=2000, **about):
    """Under central trust at an epsilon that needs batches."""
    epsilon = epsilon or {"local": 1.0, "central": 0.3}[trust]
    about = {"seed": 3, "noise": SeededNoise(4), **about}
    return AdversarialBandit(4, horizon, epsilon, trust=trust, **about)


def plain_of(bandit):
    """The learner inside, afresh."""
    inner = bandit.bandit
    return Tsallis(4, rate=inner.rate, explore=inner.explore, delay=inner.delay, seed=3)


def loss_of(t, action):
    return float(np.random.default_rng([t, action]).random() < (0.3 if action == 2 else 0.6))


def waiting(bandit):
    """The batches that have not been released."""
    return {batch.index for batch in bandit._feedback._open}


def run(bandit, rounds):
    actions = []
    for _ in range(rounds):
        d = bandit.decide()
        bandit.learn(d, loss_of(d.round, d.action))
        actions.append(d.action)
    return actions


# -- the plain algorithm --------------------------------------------------------------------------


def test_exp2__is_the_papers_algorithm_5():
    """q(i) <- q(i) exp(-eta l~(i)), l~ = l/p at the arm played, p = (1 - gamma) q + gamma/N."""
    plain = Exp2(3, rate=0.3, explore=0.2, seed=0)
    q = np.full(3, 1 / 3)
    for t in range(40):
        arm = plain.decide()
        p = 0.8 * q + 0.2 / 3
        np.testing.assert_allclose(arm.probabilities, p, rtol=1e-12)
        loss = (t % 7) / 7
        plain.learn(arm, loss)
        estimate = np.zeros(3)
        estimate[arm.action] = (loss - 0.5) / p[arm.action]
        q = q * np.exp(-0.3 * estimate)
        q /= q.sum()


def test_tsallis__weights_solve_their_equation_and_sum_to_1():
    """q_i = 4/(rate_t (total_i - x))^2 for one x below all totals; p = (1 - gamma) q + gamma/N."""
    plain = Tsallis(5, rate=2.0, explore=0.3, delay=10, seed=0)
    for t in range(200):
        arm = plain.decide()
        rate = 2.0 / math.sqrt(t + 1 + 10)
        gamma = min(0.5, 0.3 * rate)
        q = (arm.probabilities - gamma / 5) / (1 - gamma)
        assert q.sum() == pytest.approx(1.0, abs=1e-9)
        x = plain._total - 2 / (rate * np.sqrt(q))
        np.testing.assert_allclose(x, x[0], rtol=1e-6, atol=1e-6)
        plain.learn(arm, 0.9 if arm.action else -5.0)


@pytest.mark.parametrize("totals", [(0.0, 0.0), (0.0, 1e9), (-1e12, 1e12), (1e-300, 0.0)])
def test_tsallis__weights_are_found_wherever_totals_are(totals):
    plain = Tsallis(2, rate=1.0, explore=0.1, seed=0)
    plain._total = np.array(totals)
    p = plain.probabilities()
    assert p.sum() == pytest.approx(1.0)
    assert p.min() >= 0.1 / 2 * (1 - 1e-9)


def test_exp2__draws_from_the_probabilities_it_states():
    plain = Exp2(3, rate=1.0, explore=0.1, seed=0)
    plain.learn(plain.decide(), 0.9)
    counts = np.zeros(3)
    for _ in range(20_000):
        arm = plain.decide()
        counts[arm.action] += 1
    probabilities = arm.probabilities
    assert probabilities.sum() == pytest.approx(1.0)
    assert probabilities.max() - probabilities.min() > 0.1
    # Five standard deviations: false alarm 2e-6; 2% of the mass elsewhere would be seen.
    assert (
        np.abs(counts / 20_000 - probabilities)
        < 5 * np.sqrt(probabilities * (1 - probabilities) / 20_000)
    ).all()


def test_exp2__stays_finite_with_huge_totals():
    plain = Exp2(3, rate=1.0, explore=0.01, seed=0)
    for _ in range(2000):
        arm = plain.decide()
        plain.learn(arm, 1e6 if arm.action else -1e6)
    assert np.isfinite(plain.decide().probabilities).all()


@pytest.mark.parametrize("trust", TRUSTS)
def test_without_privacy__it_is_the_plain_learner_step_by_step(trust):
    bandit = make(trust, math.inf)
    plain = plain_of(bandit)
    for _ in range(300):
        d, arm = bandit.decide(), plain.decide()
        assert d.action == arm.action
        np.testing.assert_array_equal(d.probabilities, arm.probabilities)
        assert d.probability == arm.probabilities[arm.action]
        loss = loss_of(d.round, d.action)
        bandit.learn(d, loss)
        plain.learn(arm, loss)
    assert not bandit.guarantee.private


def test_local__it_is_the_reduction_around_the_plain_learner():
    bandit = make("local")
    inner = plain_of(bandit)
    reduction = PrivateReduction(inner, 1.0, noise=SeededNoise(4))
    for _ in range(300):
        d, other = bandit.decide(), reduction.decide()
        assert d.action == other.choice.action
        loss = loss_of(d.round, d.action)
        bandit.learn(d, loss)
        reduction.learn(other, loss)


# -- batches --------------------------------------------------------------------------------------


def test_central__an_arm_is_held_for_a_batch_and_released_as_one_noisy_mean():
    bandit = make("central", 0.4)
    size = bandit.batch_size
    assert size == math.ceil(2 * math.sqrt(8) / 0.4)
    noise = SeededNoise(4).spawn(1)[0]
    plain = plain_of(bandit)
    for _ in range(30):
        arm = plain.decide()
        total = float(noise.laplace(2.5, 1)[0])  # sensitivity 1, epsilon .4
        for _ in range(size):
            d = bandit.decide()
            assert d.action == arm.action
            loss = loss_of(d.round, d.action)
            bandit.learn(d, loss)
            total += loss - 0.5
        plain.learn(arm, 0.5 + total / size)


def test_central__a_replaced_loss_moves_the_release_by_at_most_its_sensitivity():
    for k in (1, 3):
        sums = []
        for changed in (0.0, 1.0):
            bandit = make("central", 0.4, contributions=k)
            decisions = [bandit.decide() for _ in range(bandit.batch_size)]
            for i, d in enumerate(decisions):
                bandit.learn(d, changed if i < k else 0.5)
            sums.append(bandit._feedback._batch(0).total)
        (release,) = bandit.guarantee.releases
        assert sums[1] - sums[0] == pytest.approx(release.sensitivity)
        assert release.sensitivity == pytest.approx(k)
        assert release.scale == pytest.approx(k / 0.4)


def test_central__a_late_loss_counts_until_its_batch_is_released():
    bandit = make("central", horizon=5000)
    size, patience = bandit.batch_size, bandit._feedback.patience
    assert patience > 3
    first = [bandit.decide() for _ in range(size)]
    run(bandit, 2 * size)
    assert 0 in waiting(bandit), "a batch waits for its losses while others are released"
    assert all(bandit.learn(d, 0.5) for d in first)
    run(bandit, 1)
    assert 0 not in waiting(bandit)


def test_central__a_batch_with_missing_losses_is_released_without_them():
    bandit = make("central", horizon=5000)
    size, patience = bandit.batch_size, bandit._feedback.patience
    never = [bandit.decide() for _ in range(size)]
    run(bandit, patience * size)
    assert 0 in waiting(bandit)
    run(bandit, 1)
    assert 0 not in waiting(bandit)
    before = str(bandit.bandit.state_dict()["state"])
    assert bandit.learn(never[0], 1.0) is False, "too late, and said so"
    with pytest.raises(ValueError, match="has had its loss"):
        bandit.learn(never[0], 1.0)
    assert str(bandit.bandit.state_dict()["state"]) == before


# -- what adversaries try -------------------------------------------------------------------------


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("loss", [math.nan, math.inf, -1e-6, 1 + 1e-6, "x", None, [1, 2]])
def test_a_bad_loss_is_refused_and_changes_nothing(trust, loss):
    bandit = make(trust)
    d = bandit.decide()
    before = str(bandit.state_dict())
    with pytest.raises(ValueError, match="loss must"):
        bandit.learn(d, loss)
    assert str(bandit.state_dict()) == before
    bandit.learn(d, 0.5)


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_decision_is_learned_once_and_only_by_its_learner(trust):
    bandit = make(trust)
    d = bandit.decide()
    bandit.learn(d, 0.5)
    before = str(bandit.state_dict())
    for decision, words in (
        (d, "has had its loss"),
        (make(trust).decide(), "this learner made"),
    ):
        with pytest.raises(ValueError, match=words):
            bandit.learn(decision, 0.5)
    assert str(bandit.state_dict()) == before


@pytest.mark.parametrize("trust", TRUSTS)
def test_past_the_horizon_the_policy_stays_and_losses_no_longer_count(trust):
    bandit = make(trust, horizon=20)
    decisions = [bandit.decide() for _ in range(20)]
    assert bandit.learning
    assert bandit.learn(decisions[-1], 0.5), "the last round within the horizon counts"
    probabilities = bandit.decide().probabilities
    assert not bandit.learning
    assert bandit.learn(decisions[-2], 0.5) is False
    for _ in range(50):
        late = bandit.decide()
        assert np.array_equal(late.probabilities, probabilities)
        assert bandit.learn(late, 0.0) is False
        with pytest.raises(ValueError, match="each counts once"):
            bandit.learn(late, 0.0)
    assert bandit.rounds == 71


def test_past_the_horizon_what_is_open_is_released_once():
    bandit = make("central", horizon=20)
    for _ in range(20):
        bandit.learn(bandit.decide(), 0.9)
    assert waiting(bandit)
    before = bandit.bandit._total.copy()
    bandit.decide()
    after = bandit.bandit._total.copy()
    assert not waiting(bandit)
    assert (before != after).any()
    bandit.decide()
    assert np.array_equal(bandit.bandit._total, after)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_arms": 1},
        {"horizon": 0},
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"trust": "joint"},
        {"contributions": 0},
        {"seed": -1},
        {"noise": 7},
    ],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AdversarialBandit(**{"n_arms": 3, "horizon": 10, "epsilon": 1.0, **wrong})


# -- promise and state ----------------------------------------------------------------------------


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("contributions", [1, 4])
def test_guarantee__is_computed_from_the_release(trust, contributions):
    bandit = make(trust, 0.5, contributions=contributions)
    assert bandit.guarantee.releases == ()
    run(bandit, 100)
    promise = bandit.guarantee
    assert (promise.trust, promise.epsilon, promise.delta) == (trust, 0.5, 0.0)
    assert promise.epsilon_at(0.0) == pytest.approx(0.5)
    assert promise.contributions == contributions


def test_guarantee__agrees_with_dp_accounting():
    """The privacy loss of Laplace noise, numerically: it reaches epsilon and no more."""
    bandit = make("central", 0.4)
    run(bandit, 30)
    (release,) = bandit.guarantee.releases
    loss = pld.from_laplace_mechanism(release.scale / release.sensitivity)
    assert 0.99 * 0.4 < loss.get_epsilon_for_delta(1e-9) <= 0.4 * (1 + 1e-3)


def test_doubling__gives_it_an_unknown_horizon():
    noise = SeededNoise(0)
    endless = Doubling(lambda T: AdversarialBandit(3, T, 1.0, seed=0, noise=noise), first=16)
    for _ in range(100):
        endless.learn(endless.decide(), 0.5)
    assert endless.rounds == 100
    assert endless.guarantee.epsilon_at(0.0) == pytest.approx(1.0)


@pytest.mark.parametrize("contributions", [1, 3])
def test_central__takes_single_reports_where_they_tell_more(contributions):
    """The same actions as under local trust, whose promise implies the central one."""
    local, central = (make(t, 3.0 * contributions, contributions=contributions) for t in TRUSTS)
    assert run(central, 500) == run(local, 500)
    assert central.batch_size == 1
    promise = central.guarantee
    assert promise.trust == "central"
    assert promise.epsilon_at(0.0) == pytest.approx(3.0 * contributions)
    assert promise.releases == local.guarantee.releases
    assert "local trust" in promise.reference
    assert make("central", 1.0, contributions=3).batch_size > 1  # 1/3 for each round


def test_guarantee__secure_noise_is_exact_in_the_centre():
    bandit = make("central", noise=SecureNoise())
    run(bandit, 30)
    assert bandit.guarantee.sampler == "exact lattice, OS entropy"
    assert bandit.guarantee.epsilon_at(0.0) <= 1.0
    (batch,) = bandit._feedback._open
    assert batch.total % bandit._feedback._spacing == 0


@pytest.mark.parametrize("trust", TRUSTS)
def test_state__a_saved_learner_has_the_same_future(trust, tmp_path):
    whole, stopped = make(trust), make(trust)
    for each in (whole, stopped):
        run(each, 100)
    whole.learn(whole.decide(), 0.0)
    waiting = stopped.decide()
    stopped.save(tmp_path / "bandit")
    again = AdversarialBandit.load(tmp_path / "bandit")
    again.learn(waiting, 0.0)
    assert run(again, 500) == run(whole, 500)
    assert again.guarantee == whole.guarantee
    with pytest.raises(ValueError, match="has had its loss"):
        again.learn(waiting, 0.0)


def test_state__one_that_is_older_damaged_or_of_others_changes_nothing():
    bandit = make("central")
    old = bandit.state_dict()
    run(bandit, 50)
    before = str(bandit.state_dict())
    damaged = bandit.state_dict()
    damaged["state"]["bandit"]["of"]["_total"] = np.zeros(9)
    for state in (old, damaged, make("local").state_dict(), make("central", 2.0).state_dict()):
        with pytest.raises(ValueError, match="state"):
            bandit.load_state_dict(state)
    assert str(bandit.state_dict()) == before


def test_state__secure_noise_is_never_saved():
    bandit = make("central", noise=SecureNoise())
    run(bandit, 5)
    noise = bandit.state_dict()["state"]["_feedback"]["of"]["_noise"]
    assert noise["of"] == {"kind": "SecureNoise", "position": ""}


# -- learning -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trust", "epsilon"), [("local", 2.0), ("central", 0.5), ("local", math.inf)]
)
def test_it_learns_the_best_arm(trust, epsilon):
    """Regret against the best arm below half that of random play, which is 0.225 a round."""
    regret = 0.0
    for seed in range(3):
        bandit = make(trust, epsilon, 20_000, seed=seed, noise=SeededNoise(seed))
        rng = np.random.default_rng([seed, 1])
        coins = rng.random(20_000)
        for t in range(20_000):
            d = bandit.decide()
            mean = 0.3 if d.action == 2 else 0.6
            regret += (mean - 0.3) / 3
            bandit.learn(d, float(coins[t] < mean))
    assert regret < 0.5 * 0.225 * 20_000


def played_shuffled(answered, horizon=400):
    """Arm 1 is best; `answered(t)` says whether the loss of a round comes."""
    bandit = AdversarialBandit(2, horizon, 1.0, trust="shuffled", noise=SeededNoise(3))
    for t in range(horizon):
        decision = bandit.decide()
        if answered(t):
            assert bandit.learn(decision, 0.0 if decision.action == 1 else 1.0)
    bandit.decide()
    return bandit


def test_shuffled__a_batch_below_its_minimum_teaches_nothing():
    assert played_shuffled(lambda t: True).bandit.updates == 10  # batches of 2 sqrt(400)
    none = played_shuffled(lambda t: t % 4 != 0)  # three quarters come, .8 are needed
    assert none.bandit.updates == 0
    assert none.guarantee.releases == ()


def test_shuffled__a_loss_after_its_batch_is_too_late():
    bandit = AdversarialBandit(2, 400, 1.0, trust="shuffled", noise=SeededNoise(3))
    early = bandit.decide()
    for _ in range(bandit.batch_size):
        bandit.decide()
    assert bandit.learn(early, 1.0) is False


def test_shuffled__its_promise_states_both_numbers_and_it_finds_the_best_arm():
    bandit = played_shuffled(lambda t: True, 4000)
    promise = bandit.guarantee
    assert (promise.trust, promise.epsilon, promise.delta) == ("shuffled", 1.0, 1e-6)
    assert 0.999 < promise.epsilon_at(1e-6) <= 1.0
    assert 1.0 < promise.epsilon_at(0.0) <= promise.local_epsilon
    assert bandit.decide().probabilities[1] > 0.9


def arms(noise, **options):
    """The first arms of a bandit."""
    bandit = AdversarialBandit(2, 400, 1.0, noise=noise, **options)
    return [bandit.decide().action for _ in range(40)]


def test_shuffled__no_public_seed_foretells_an_arm():
    hidden = {"trust": "shuffled"}
    assert arms(SeededNoise(1), **hidden) != arms(SeededNoise(2), **hidden)
    assert arms(None, **hidden) != arms(None, **hidden)  # equal once in 2^40
    assert arms(SeededNoise(1), **hidden) == arms(SeededNoise(1), **hidden)
    known = {"trust": "local", "seed": 0}
    assert arms(SeededNoise(1), **known) == arms(SeededNoise(2), **known)
    with pytest.raises(ValueError, match="leave seed out"):
        AdversarialBandit(2, 400, 1.0, trust="shuffled", seed=0)
    promise = AdversarialBandit(2, 400, 1.0, trust="shuffled").guarantee
    assert not any("seed" in each for each in promise.unprotected)


def test_shuffled__private_coins_draw_arms_by_the_public_probabilities():
    bandit = played_shuffled(lambda t: True, 400)
    p = bandit.bandit.probabilities()
    drawn = np.bincount([bandit.decide().action for _ in range(4000)], minlength=2) / 4000
    assert abs(drawn[1] - p[1]) < 4.5 * math.sqrt(p[1] * p[0] / 4000)  # false alarm: 7e-6


def test_shuffled__delta_and_crowd_belong_to_it():
    with pytest.raises(ValueError, match="shuffled"):
        AdversarialBandit(2, 100, 1.0, delta=1e-6)
