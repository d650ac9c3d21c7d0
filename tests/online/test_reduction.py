"""The private reduction: unbiased reports of the scalar loss, and the bandit sees no more."""

import math

import numpy as np
import pytest

from discreet.online.adversarial import Exp2
from discreet.online.reduction import PrivateReduction
from discreet.privacy import SecureNoise, SeededNoise
from discreet.state import Stateful


class Recorder(Stateful):
    """A bandit that remembers what it was told; its choices are numbers."""

    _state = ("told",)

    def __init__(self):
        self.told = []

    def decide(self):
        return len(self.told)

    def learn(self, choice, loss):
        self.told.append((choice, loss))


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


def test_reduction__a_bandit_that_fails_is_told_the_same_report_again():
    """A second report of the same loss would cost a second time."""

    class Broken(Recorder):
        failures = 3

        def learn(self, choice, loss):
            told.append(loss)
            if len(told) <= self.failures:
                raise RuntimeError

    told = []
    learner = PrivateReduction(Broken(), 1.0, noise=SeededNoise(0))
    d = learner.decide()
    for _ in range(3):
        with pytest.raises(RuntimeError):
            learner.learn(d, 0.5)
    assert learner.learn(d, 0.5)
    assert len(told) == 4
    assert len(set(told)) == 1
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
    assert learner.guarantee.sampler == "52-bit coin, OS entropy"


def test_reduction__a_saved_state_has_the_same_future(tmp_path):
    def make():
        return Exp2(4, rate=0.1, explore=0.1, seed=5)

    whole, stopped = (PrivateReduction(make(), 1.0, noise=SeededNoise(7)) for _ in range(2))
    for learner in (whole, stopped):
        for _ in range(20):
            learner.learn(learner.decide(), 0.3)
    whole.learn(whole.decide(), 0.9)
    waiting = stopped.decide()
    stopped.save(tmp_path / "state")
    again = PrivateReduction.load(tmp_path / "state", bandit=make())
    again.learn(waiting, 0.9)
    for _ in range(20):
        a, b = whole.decide(), again.decide()
        assert a.choice.action == b.choice.action
        np.testing.assert_array_equal(a.choice.probabilities, b.choice.probabilities)
        whole.learn(a, 0.3)
        again.learn(b, 0.3)
    with pytest.raises(ValueError, match="has had its loss"):
        again.learn(waiting, 0.9)


def test_reduction__an_old_or_foreign_state_is_refused():
    learner = PrivateReduction(Recorder(), 1.0, noise=SeededNoise(7))
    old = learner.state_dict()
    learner.decide()
    with pytest.raises(ValueError, match="older"):
        learner.load_state_dict(old)
    other = PrivateReduction(Recorder(), 2.0, noise=SeededNoise(7))
    with pytest.raises(ValueError, match="other arguments of PrivateReduction: epsilon"):
        other.load_state_dict(old)
