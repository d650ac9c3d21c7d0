"""Last bits, executed lines, and many canaries in one run."""

import numpy as np
import pytest
from branches import executed, first_difference
from one_run import audit_one_run, coins, p_value, surest
from scipy import stats

from discreet.audit import ATTACKS, audit_scores
from discreet.audit.attacks.last_bits import CHANNELS, SAMPLERS, off_grid
from discreet.audit.rows import Claim
from discreet.bandits import LinearBandit, Model, SparseBandit
from discreet.bandits.baselines import ContinualLinUCB, LocalLinUCB
from discreet.domains import Ball, Cube, LpBall, Simplex
from discreet.online import (
    FTPL,
    FTRL,
    AdversarialBandit,
    BarrierBandit,
    ProjectionFreeBandit,
)
from discreet.optimization import StreamingFrankWolfe
from discreet.privacy import BallChannel, IntervalChannel, SecureNoise, SeededNoise, gaussian_mu
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import SystemNoise
from discreet.privacy.release import observed, values
from discreet.privacy.sphere import GRID

# -- the last bits of floats ----------------------------------------------------------------------


def float_attack(mechanism, noise, runs=4000):
    """What the last bits of draws around 1 and 0 prove, and how the library labels them."""
    drawn = [SAMPLERS[mechanism](np.full(runs, value), noise) for value in (1.0, 0.0)]
    sides = [off_grid(np.asarray(each.value)) for each in drawn]
    return audit_scores(*sides, confidence=0.9999).lower_bound, drawn[0].release.sampler


@pytest.mark.parametrize("mechanism", SAMPLERS)
@pytest.mark.parametrize("noise", [SeededNoise(0), SystemNoise()], ids=["seeded", "system"])
def test_float_noise__fails_the_floating_point_attack_and_says_float(mechanism, noise):
    bound, label = float_attack(mechanism, noise)
    assert bound > 1.0
    assert label.startswith("float")


@pytest.mark.parametrize("mechanism", SAMPLERS)
def test_secure_noise__withstands_it_or_says_float(mechanism):
    bound, label = float_attack(mechanism, SecureNoise())
    exact = mechanism in SecureNoise.exact
    assert exact == (mechanism in ("gaussian", "laplace"))
    assert (bound == 0) == exact
    assert label.startswith("exact lattice" if exact else "float")
    assert (f"{mechanism}, last bits" in ATTACKS) == exact


def test_off_grid__sees_what_a_sum_with_one_cannot_be():
    assert off_grid(np.array([2.0**-60, 2.0**-53, 0.3, 1.0 - 0.9])).tolist() == [1, 0, 0, 0]


SOURCES = {"seeded": SeededNoise, "system": SystemNoise, "secure": SecureNoise}
# An interval at a small epsilon sends two values only.
EPSILONS = {"ball": 1.0, "symmetric": 1.0, "interval": 2.0, "interval, two values": 0.5}


def channel_attack(channel, noise, runs=100_000):
    """What the last bits of reports of two records prove."""
    claim = Claim(EPSILONS[channel])
    draw = CHANNELS[channel.split(",")[0]]
    sides = [draw(claim, runs, neighbour, noise) for neighbour in (0, 1)]
    return audit_scores(*sides, confidence=0.9999).lower_bound


@pytest.mark.parametrize("channel", EPSILONS)
@pytest.mark.parametrize("source", SOURCES)
def test_channels__last_bits_of_rounded_reports_prove_no_more_than_is_claimed(channel, source):
    noise = SeededNoise(0) if source == "seeded" else SOURCES[source]()
    assert channel_attack(channel, noise) < EPSILONS[channel]


@pytest.mark.parametrize(
    ("channel", "record", "label"),
    [
        (BallChannel(3, 1.0), [1.0, 0.0, 0.0], "float"),
        (IntervalChannel(2.0), 1.0, "52-bit coin"),
        (IntervalChannel(0.5), 1.0, "52-bit coin"),
    ],
)
def test_channels__say_how_they_draw(channel, record, label):
    channel.privatize(np.array([record]), SeededNoise(0))
    assert channel.guarantee.releases[0].sampler.startswith(label)


@pytest.mark.parametrize("channel", ["ball", "symmetric"])
def test_channels__last_bits_of_reports_that_are_not_rounded_give_the_record_away(
    channel, monkeypatch
):
    monkeypatch.setattr("discreet.privacy.sphere._on_grid", lambda units: units / GRID)
    assert channel_attack(channel, SeededNoise(0)) > EPSILONS[channel]


# -- executed lines -------------------------------------------------------------------------------

ROW = np.array([[1.0, 0.0], [0.0, 1.0]])


def bandit(make):
    """Decisions after another reward, before any release."""

    def way(neighbour):
        learner = make()
        learner.learn(learner.decide(ROW), (-1.0, 0.8)[neighbour])
        learner.learn(learner.decide(ROW), (1.0, 0.0)[neighbour])
        return executed(lambda: (learner.decide(ROW), learner.decide_many(np.tile(ROW, (3, 1, 1)))))

    return way


def leader(kind, domain, canary, **options):
    def way(neighbour):
        coins = {"seed": 0} if kind is FTPL else {}
        learner = kind(domain, 50, 1.0, 1e-6, noise=SeededNoise(0), **coins, **options)
        learner.learn(canary[neighbour])
        return executed(learner.decide)

    return way


def central(make, losses):
    """A batch that is not yet full; its losses differ."""

    def way(neighbour):
        learner = make()
        for loss in losses[neighbour]:
            learner.learn(learner.decide(), loss)
        return executed(learner.decide)

    return way


def sparse(neighbour):
    learner = SparseBandit(2, 3, 200, 1.0, 1e-6, forced=8, seed=0, noise=SeededNoise(0))
    for t in range(4):
        x = np.array([(1.0, -0.3)[neighbour], 0.0, float(t == 2) * neighbour])
        learner.learn(learner.decide(x), (1.0, -0.2)[neighbour])
    return executed(lambda: learner.decide(np.ones(3)))


WAYS = {
    "linear bandit": bandit(
        lambda: LinearBandit(2, 1000, seed=0, noise=SeededNoise(0))
    ),
    "linear bandit, thompson": bandit(
        lambda: LinearBandit(2, 1000, policy="thompson", seed=0, noise=SeededNoise(0))
    ),
    "linear bandit, local": bandit(
        lambda: LinearBandit(2, 10**4, trust="local", seed=0, noise=SeededNoise(0))
    ),
    "local linucb": bandit(lambda: LocalLinUCB(2, 10**4, 1.0, seed=0, noise=SeededNoise(0))),
    "ftrl": leader(FTRL, Simplex(2), ([0.0, 1.0], [1.0, 0.2])),
    "ftrl on a ball": leader(FTRL, Ball(2), ([0.0, 1.0], [-0.5, 0.2])),
    "ftpl": leader(FTPL, Simplex(2), ([0.0, 1.0], [1.0, 0.2])),
    "adversarial bandit": central(
        lambda: AdversarialBandit(2, 60, 0.5, trust="central", seed=0, noise=SeededNoise(0)),
        ([0.0, 0.5], [1.0, 0.1]),
    ),
    "barrier bandit": central(
        lambda: BarrierBandit(Ball(2), 60, 1.0, trust="central", seed=0, noise=SeededNoise(0)),
        ([0.0, -0.5], [1.0, 0.1]),
    ),
    "projection-free bandit": central(
        lambda: ProjectionFreeBandit(Cube(2), 1000, 1.0, seed=0, noise=SeededNoise(0)),
        ([0.0, 0.5], [1.0, 0.1]),
    ),
    "sparse bandit": sparse,
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_decide__takes_the_same_way_whatever_is_in_the_private_buffer(name):
    first, second = WAYS[name](0), WAYS[name](1)
    assert len(first) > 5
    assert first_difference(first, second) is None


def rewarded(make):
    """The lines that one reward runs, and many at once, in a window with a tight clip."""

    def way(neighbour):
        learner = make()
        for _ in range(30):
            learner.learn(learner.decide([[0.6, 0.8]]), 0.5)
        row = ([[1.0, 0.0]], [[-0.1, 0.3]], [[0.0, 0.0]])[neighbour]
        one, many = learner.decide(row), learner.decide_many(np.tile(row, (3, 1, 1)))
        reward = (-1.0, 0.02, 0.0)[neighbour]
        return executed(
            lambda: (learner.learn(one, reward), learner.learn_many(many, [reward, 0.5, -reward]))
        )

    return way


def loss_learned(kind, domain, losses):
    def way(neighbour):
        coins = {"seed": 0} if kind is FTPL else {}
        learner = kind(domain, 50, 1.0, 1e-6, noise=SeededNoise(0), **coins)
        learner.learn(losses[0])
        return executed(lambda: learner.learn(losses[neighbour]))

    return way


def arm_learned(neighbour):
    learner = SparseBandit(2, 3, 200, 1.0, 1e-6, forced=8, seed=0, noise=SeededNoise(0))
    for _ in range(3):
        learner.learn(learner.decide(np.array([0.2, 0.1, 0.0])), 0.3)
    x = ([1.0, 0.0, 0.0], [-0.3, 0.1, 1.0], [0.0, 0.0, 0.0])[neighbour]
    decision = learner.decide(np.array(x))
    return executed(lambda: learner.learn(decision, (1.0, -0.2, 0.0)[neighbour]))


def row_learned(p):
    def way(neighbour):
        learner = StreamingFrankWolfe(LpBall(p, 2), 50, 1.0, 1e-6, noise=SeededNoise(0))
        learner.learn([0.3, 0.1], 0.4)
        x, y = (([0.6, 0.8], 1.0), ([0.1, 0.0], -0.2), ([0.0, 0.0], 0.0))[neighbour]
        return executed(lambda: learner.learn(x, y))

    return way


LEARNED = {
    "linear bandit": rewarded(lambda: LinearBandit(2, 60, 30.0, seed=0, noise=SeededNoise(0))),
    "linear bandit, logistic": rewarded(
        lambda: LinearBandit(
            2, 60, 30.0, seed=0, noise=SeededNoise(0), model=Model(link="logistic")
        )
    ),
    "linear bandit, local": rewarded(
        lambda: LinearBandit(2, 200, 8.0, trust="local", seed=0, noise=SeededNoise(0))
    ),
    "local linucb": rewarded(lambda: LocalLinUCB(2, 200, 8.0, seed=0, noise=SeededNoise(0))),
    "continual linucb": rewarded(
        lambda: ContinualLinUCB(2, 200, 8.0, seed=0, noise=SeededNoise(0))
    ),
    "ftrl": loss_learned(FTRL, Simplex(2), ([0.0, 1.0], [1.0, 0.2], [0.0, 0.0])),
    "ftrl on a ball": loss_learned(FTRL, Ball(2), ([0.0, 1.0], [-0.5, 0.2], [0.0, 0.0])),
    "ftpl": loss_learned(FTPL, Simplex(2), ([0.0, 1.0], [1.0, 0.2], [0.0, 0.0])),
    "sparse bandit": arm_learned,
    "streaming frank-wolfe p=2": row_learned(2.0),
    "streaming frank-wolfe p=1.5": row_learned(1.5),
}


@pytest.mark.parametrize("name", LEARNED)
def test_learn__takes_the_same_way_whatever_the_features_and_the_feedback(name):
    first, *others = (LEARNED[name](neighbour) for neighbour in (0, 1, 2))
    assert len(first) > 10
    for other in others:
        assert first_difference(first, other) is None


def test_learn__the_window_of_the_bandit_does_clip():
    learner = LinearBandit(2, 60, 30.0, seed=0, noise=SeededNoise(0))
    for _ in range(30):
        learner.learn(learner.decide([[0.6, 0.8]]), 0.5)
    view = learner._window.transform
    assert view.clip < 0.5 * view.residual_bound  # else no residual would be beyond it


def test_executed__notices_another_way():
    def noisy(scale):
        return executed(lambda: BallChannel(2, scale))

    assert first_difference(noisy(1.0), noisy(float("inf"))) is not None
    assert first_difference([("a", 1)], [("a", 1), ("a", 2)]) == (("end", 0), ("a", 2))


def test_continual_linucb__policy_between_releases_takes_the_same_way():
    ways = []
    for neighbour in (0, 1):
        learner = ContinualLinUCB(2, 4000, 1.0, seed=0, noise=SeededNoise(0))
        while learner.rounds_until_release < 3:
            learner.learn(learner.decide(np.zeros((2, 2))), 0.0)
        learner.learn(learner.decide(ROW), (1.0, -0.5)[neighbour])
        ways.append(executed(lambda one=learner: one.decide(ROW)))
    assert first_difference(*ways) is None


# -- one run --------------------------------------------------------------------------------------


def test_one_run__p_value_is_the_binomial_tail_and_delta_only_adds_to_it():
    plain = p_value(1.0, 800, 1000, 1000, 0.0)
    assert plain == pytest.approx(stats.binom.sf(799, 1000, np.e / (1 + np.e)))
    assert plain < p_value(1.0, 800, 1000, 1000, 1e-5) < 1


def test_one_run__covers_as_often_as_it_says():
    rng, truth = np.random.default_rng(0), 1.0
    right = rng.binomial(500, np.e / (1 + np.e), 2000)
    over = np.mean([audit_one_run(int(k), 500, 500).lower_bound > truth for k in right])
    assert over <= 0.05 + 4 * np.sqrt(0.05 / 2000)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_one_run__of_a_local_bandit_comes_close_and_twice_epsilon_is_caught(epsilon):
    people = 2500
    learner = LocalLinUCB(2, 10**5, epsilon, noise=SeededNoise(4))
    truth = np.array(coins(people, 1))
    with observed("report") as heard:
        for neighbour in truth:
            d = learner.decide(ROW[:1])
            learner.learn(d, 2.0 * neighbour - 1.0)
    # Every other report is a moment, and those tell the reward.
    told = [
        (k, float(sent.ravel()[0])) for k, sent in enumerate(values(heard)) if sent.shape[-1] == 2
    ]
    guesses = surest([score for _, score in told])
    right = sum(truth[told[place][0]] == guess for place, guess in guesses)
    report = audit_one_run(int(right), len(guesses), people, confidence=0.9999)
    assert 0.5 * epsilon < report.lower_bound <= epsilon
    assert (report.lower_bound > 1.0) == (epsilon > 1.0)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_one_run__of_reports_on_the_sphere_comes_close(epsilon):
    people, truth = 4000, np.array(coins(4000, 2))
    rows = np.zeros((people, 3))
    rows[:, 0] = 2.0 * truth - 1.0
    sent = BallChannel(3, epsilon).privatize(rows, SeededNoise(5))
    guesses = surest(sent[:, 0].tolist(), fraction=0.7)  # those between the two caps tell nothing
    right = sum(int(truth[k] == guess) for k, guess in guesses)
    report = audit_one_run(right, len(guesses), people, confidence=0.9999)
    assert 0.75 * epsilon < report.lower_bound <= epsilon


def test_one_run__of_a_gaussian_release_stays_below_the_claim_and_is_weak():
    # Each person has a coordinate of its own; a tail of the noise is what the others' guesses lose.
    people, delta, epsilon = 4000, 1e-6, 4.0
    truth = np.array(coins(people, 3))
    release = Mechanisms(SeededNoise(6))
    mu = gaussian_mu(epsilon, delta)
    out = release.gaussian(2.0 * truth - 1.0, sensitivity=2.0, mu=mu).value
    guesses = surest(out.tolist(), fraction=0.1)
    right = sum(int(truth[k] == guess) for k, guess in guesses)
    report = audit_one_run(right, len(guesses), people, delta=delta, confidence=0.95)
    assert 0.2 * epsilon < report.lower_bound < 0.75 * epsilon


def test_one_run__bad_counts_are_clear_errors():
    for wrong in ((5, 4, 10), (1, 11, 10)):
        with pytest.raises(ValueError, match="right <= guesses <= canaries"):
            audit_one_run(*wrong)
    with pytest.raises(ValueError, match="confidence"):
        audit_one_run(1, 2, 3, confidence=1.0)


def test_streaming__rows_take_the_same_way_into_the_sum():
    ways = []
    for label in (1.0, -1.0):
        learner = StreamingFrankWolfe(LpBall(2, 2), 50, 1.0, 1e-6, noise=SeededNoise(0))
        ways.append(executed(lambda one=learner, y=label: one.learn([0.6, 0.8], y)))
    assert first_difference(*ways) is None
