"""The private reduction: unbiased reports of the scalar loss, and the bandit sees no more."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.online.adversarial import Exp2
from discreet.online.feedback import LAPLACE, RESPONSE, ScalarChannel
from discreet.online.reduction import PrivateReduction
from discreet.privacy import SecureNoise, SeededNoise


class Recorder:
    """A bandit that remembers what it was told; its choices are numbers."""

    def __init__(self):
        self.told = []

    def decide(self):
        return len(self.told)

    def learn(self, choice, loss):
        self.told.append((choice, loss))

    def state_dict(self):
        return {"told": np.array(self.told)}

    def load_state_dict(self, state):
        self.told = [(int(choice), loss) for choice, loss in state["told"]]


def reports(epsilon, value, count=20_000, mechanism="auto", seed=0, **about):
    channel = ScalarChannel(epsilon, low=-1.0, high=3.0, mechanism=mechanism, **about)
    noise = SeededNoise(seed)
    return channel, np.array([channel.report(value, noise) for _ in range(count)])


@pytest.mark.parametrize("mechanism", [RESPONSE, LAPLACE])
@pytest.mark.parametrize("value", [-1.0, 0.4, 3.0])
def test_channel__a_report_is_unbiased_and_within_its_second_moment(mechanism, value):
    channel, sent = reports(1.5, value, mechanism=mechanism)
    error = 5 * sent.std() / math.sqrt(len(sent))  # false alarm 6e-7
    assert abs(sent.mean() - value) < error
    assert error < 0.2, "no power against a bias of a tenth of half the range"
    moments = (sent - 1.0) ** 2
    limit = channel.second_moment
    assert moments.mean() < limit * (1 + 1e-9) + 5 * moments.std() / math.sqrt(len(sent))
    if abs(value - 1.0) == 2.0:  # the worst number reaches it
        assert moments.mean() > 0.9 * limit


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.9])
def test_channel__response_keeps_exactly_the_ratio_e_to_the_epsilon(epsilon):
    """P(up | high)/P(up | low) = e^epsilon, from the threshold the coin is compared with."""

    class Coin(SeededNoise):
        def uniform(self, size):
            return np.full(size, self.coin)

    channel, noise = ScalarChannel(epsilon, low=0.0, high=1.0), Coin(0)
    assert channel.mechanism == RESPONSE

    def up(value):
        low, high = 0.0, 1.0
        for _ in range(60):
            noise.coin = (low + high) / 2
            low, high = (
                (noise.coin, high) if channel.report(value, noise) > 0.5 else (low, noise.coin)
            )
        return low

    ratio = math.log(up(1.0) / up(0.0))
    assert ratio == pytest.approx(epsilon, rel=1e-9)
    assert ratio <= epsilon * (1 + 1e-12)


def test_channel__laplace_has_scale_width_over_epsilon(assert_law):
    _, sent = reports(2.0, 0.5, mechanism=LAPLACE, count=4000)
    assert_law(sent - 0.5, stats.laplace(scale=4.0 / 2.0).cdf)


def test_channel__auto_takes_the_smaller_second_moment_of_a_uniform_number():
    for epsilon in (0.1, 1.0, 2.0, 2.9, 3.1, 5.0, 10.0):
        c, spread = 1 / math.tanh(epsilon / 2), 2 / epsilon
        best = RESPONSE if c**2 <= 1 / 3 + 2 * spread**2 else LAPLACE
        assert ScalarChannel(epsilon, low=0.0, high=1.0).mechanism == best
    assert ScalarChannel(2.9, low=0.0, high=1.0).mechanism == RESPONSE
    assert ScalarChannel(3.1, low=0.0, high=1.0).mechanism == LAPLACE


def test_channel__k_reports_run_at_epsilon_over_k():
    one = ScalarChannel(0.5, low=0.0, high=1.0)
    three = ScalarChannel(1.5, low=0.0, high=1.0, contributions=3)
    assert three.report_epsilon == pytest.approx(one.report_epsilon)
    assert three.second_moment == pytest.approx(one.second_moment)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, math.inf), (math.nan, 1)])
def test_channel__an_empty_or_endless_range_is_refused(low, high):
    with pytest.raises(ValueError, match="low < high"):
        ScalarChannel(1.0, low=low, high=high)


def test_reduction__the_bandit_sees_reports_only():
    bandit = Recorder()
    learner = PrivateReduction(bandit, 1.0, loss_range=(-1.0, 1.0), noise=SeededNoise(0))
    c = 1 / math.tanh(0.5)
    for t in range(50):
        d = learner.decide()
        assert d.choice == t
        assert learner.learn(d, 0.123)
    assert [choice for choice, _ in bandit.told] == list(range(50))
    np.testing.assert_allclose([abs(loss) for _, loss in bandit.told], c)


def test_reduction__without_privacy_the_bandit_sees_the_losses():
    bandit = Recorder()
    learner = PrivateReduction(bandit, math.inf, loss_range=(-1.0, 1.0))
    for loss in (0.1, -0.7, 1.0):
        learner.learn(learner.decide(), loss)
    assert [loss for _, loss in bandit.told] == [0.1, -0.7, 1.0]
    assert not learner.guarantee.private


def test_reduction__losses_come_late_in_any_order_or_never():
    bandit = Recorder()
    learner = PrivateReduction(bandit, math.inf)
    decisions = [learner.decide() for _ in range(3)]
    learner.learn(decisions[2], 0.2)
    learner.learn(decisions[0], 0.0)
    assert [loss for _, loss in bandit.told] == [0.2, 0.0]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -0.01, 1.01, "much", None])
def test_reduction__a_bad_loss_is_refused_and_nothing_is_drawn(loss):
    bandit, noise = Recorder(), SeededNoise(3)
    learner = PrivateReduction(bandit, 1.0, noise=noise)
    d, before = learner.decide(), noise.state()
    with pytest.raises(ValueError, match="loss must"):
        learner.learn(d, loss)
    assert bandit.told == []
    assert noise.state() == before
    assert learner.learn(d, 0.5), "the decision still waits for its loss"


def test_reduction__a_loss_is_reported_once():
    bandit = Recorder()
    learner = PrivateReduction(bandit, 1.0, noise=SeededNoise(0))
    d = learner.decide()
    learner.learn(d, 0.5)
    with pytest.raises(ValueError, match="has had its loss"):
        learner.learn(d, 0.5)
    assert len(bandit.told) == 1


def test_reduction__a_loss_is_spent_even_if_the_bandit_fails():
    """Trying again would send a second report of the same loss."""

    class Broken(Recorder):
        def learn(self, choice, loss):
            raise RuntimeError

    learner = PrivateReduction(Broken(), 1.0, noise=SeededNoise(0))
    d = learner.decide()
    with pytest.raises(RuntimeError):
        learner.learn(d, 0.5)
    with pytest.raises(ValueError, match="has had its loss"):
        learner.learn(d, 0.5)


def test_reduction__decisions_of_others_are_refused():
    learner, other = PrivateReduction(Recorder(), 1.0), PrivateReduction(Recorder(), 1.0)
    with pytest.raises(ValueError, match="this learner made"):
        learner.learn(other.decide(), 0.5)
    with pytest.raises(ValueError, match="this learner made"):
        learner.learn(3, 0.5)


def test_reduction__the_guarantee_is_local_and_pure():
    learner = PrivateReduction(Recorder(), 1.0, contributions=2, noise=SeededNoise(0))
    assert learner.guarantee.releases == ()
    learner.learn(learner.decide(), 0.5)
    promise = learner.guarantee
    assert (promise.trust, promise.epsilon, promise.delta) == ("local", 1.0, 0.0)
    assert promise.epsilon_at(0.0) == pytest.approx(1.0)
    assert any("more than 2 rounds" in words for words in promise.unprotected)
    assert "simulation only" in promise.sampler


def test_reduction__secure_noise_reports_through_a_coin():
    learner = PrivateReduction(Recorder(), 1.0, noise=SecureNoise())
    learner.learn(learner.decide(), 0.5)
    assert learner.guarantee.sampler == "53-bit coin, OS entropy"


def test_reduction__a_saved_state_has_the_same_future(tmp_path):
    def make():
        return Exp2(4, rate=0.1, explore=0.1, seed=5)

    first = PrivateReduction(make(), 1.0, noise=SeededNoise(7))
    for _ in range(20):
        first.learn(first.decide(), 0.3)
    waiting = first.decide()
    first.save(tmp_path / "state")
    second = PrivateReduction.load(tmp_path / "state", make())
    for learner in (first, second):
        learner.learn(waiting, 0.9)
    for _ in range(20):
        a, b = first.decide(), second.decide()
        assert a.choice.action == b.choice.action
        np.testing.assert_array_equal(a.choice.probabilities, b.choice.probabilities)
        first.learn(a, 0.3)
        second.learn(b, 0.3)
    with pytest.raises(ValueError, match="has had its loss"):
        second.learn(waiting, 0.9)


def test_reduction__an_old_or_foreign_state_is_refused():
    learner = PrivateReduction(Recorder(), 1.0, noise=SeededNoise(7))
    old = learner.state_dict()
    learner.decide()
    with pytest.raises(ValueError, match="at round 0"):
        learner.load_state_dict(old)
    other = PrivateReduction(Recorder(), 2.0, noise=SeededNoise(7))
    with pytest.raises(ValueError, match="config"):
        other.load_state_dict(old)
