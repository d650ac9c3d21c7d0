"""Batches of losses: what one release holds, what it books, and that none holds a loss twice."""

from dataclasses import replace

import numpy as np
import pytest

from discreet.domains import Ball, Simplex
from discreet.online import FTRL, AdversarialBandit, BarrierBandit, ProjectionFreeBandit
from discreet.online.adversarial import Exp2
from discreet.privacy import SecureNoise, SeededNoise, Shuffled
from discreet.privacy.release import observed


class Failing(Simplex):
    """A set whose oracle fails while it is told to."""

    fails = False

    def leader(self, total, rate):
        if self.fails:
            raise RuntimeError("no convergence")
        return super().leader(total, rate)


def central(**more):
    return AdversarialBandit(3, 200, 0.5, trust="central", seed=1, noise=SeededNoise(2), **more)


def shuffled(k=1, **more):
    crowd = Shuffled(minimum=0.5, honest=0.25)
    return AdversarialBandit(2, 400, 4.0, trust=crowd, contributions=k,
                             noise=SeededNoise(2), **more)  # fmt: skip


def test_central__exact_noise_books_the_rounding_of_a_loss_and_rounds_it():
    pytest.importorskip("opendp")
    for k in (1, 3):
        bandit = AdversarialBandit(3, 200, 0.5, trust="central", contributions=k, seed=1,
                                   noise=SecureNoise())  # fmt: skip
        feedback = bandit._feedback
        assert feedback._spacing > 0
        assert feedback.release.sensitivity == k * (1.0 + feedback._spacing)
        report = feedback.report(1 / 3)
        assert report == round(report / feedback._spacing) * feedback._spacing


def test_central__a_full_batch_is_one_release_and_the_last_loss_may_be_late():
    bandit = central()
    size = bandit.batch_size
    made = [bandit.decide() for _ in range(size)]
    assert all(bandit.learn(each, 0.0) for each in made[:-1])
    following = bandit.decide()
    assert bandit.bandit.updates == 0, "released without a loss that may still come"
    assert bandit.learn(made[-1], 1.0)
    assert bandit.learn(following, 1.0)
    for _ in range(size):
        bandit.decide()
    assert bandit.bandit.updates == 1


def test_central__a_batch_is_learned_once_though_it_is_tried_again():
    bandit = central()
    for _ in range(bandit.batch_size):
        bandit.learn(bandit.decide(), 1.0)
    feedback = bandit._feedback
    (batch,) = feedback._open
    feedback._commit(_open=(), _due=(batch,))
    bandit.bandit.learn(batch.choice, 1.0)  # and the process is interrupted
    total = bandit.bandit._total.copy()
    feedback._release(bandit.bandit, ())
    assert np.array_equal(bandit.bandit._total, total)
    assert feedback._due == ()


def test_central__noise_is_drawn_once_for_each_batch_and_is_in_its_release():
    """Losses of the middle add nothing: what is released is the noise, of which each is new."""
    bandit = BarrierBandit(Ball(2), 400, 2.0, trust="central", seed=1, noise=SeededNoise(2))
    with observed("release") as seen:
        for _ in range(400):
            bandit.learn(bandit.decide(), 0.0)
        bandit.decide()
    values = [float(each.value) for each in seen]
    assert len(values) == -(-400 // bandit.batch_size) == len(set(values))
    scale = bandit._feedback.release.scale
    # The mean of |Laplace| is its scale: 25 of them, false alarm 1e-6.
    assert 0.25 * scale < np.mean(np.abs(values)) < 2.3 * scale


def test_shuffled__a_batch_holds_its_own_losses_and_no_earlier_ones():
    bandit = shuffled()
    size = bandit.batch_size
    with observed("release") as seen:
        for t in range(3 * size + 1):
            made = bandit.decide()
            if t < 2 * size:  # of the third batch no loss comes
                bandit.learn(made, 1.0)
    assert len(seen) == 2
    reports = bandit._feedback.channel.report_bound - 0.5
    for each in seen:  # of reports - 1/2, one of each round
        assert np.abs(each.value).sum() <= size * (reports + 0.5) * (1 + 1e-9)
    assert not np.any(bandit._feedback._sums)
    assert seen[1].value.tolist() != seen[0].value.tolist()


def test_shuffled__a_batch_is_learned_once_though_it_is_tried_again():
    bandit = shuffled()
    for _ in range(bandit.batch_size):
        bandit.learn(bandit.decide(), 1.0)
    feedback, sums = bandit._feedback, bandit._feedback._sums.copy()
    bandit.bandit.learn_sums(sums)  # and the process is interrupted before the batch is closed
    total = bandit.bandit._total.copy()
    feedback._release(bandit.bandit, 1)
    assert np.array_equal(bandit.bandit._total, total)


def test_shuffled__several_reports_of_a_person_cost_less_each():
    one, three = shuffled()._feedback, shuffled(3)._feedback
    assert three.channel.report_epsilon < one.channel.report_epsilon
    each = three.batch.report_epsilon(3)
    assert three.channel.report_epsilon == pytest.approx(each, rel=1e-9)


def test_record__of_a_learner_of_another_name_does_not_count():
    """The same key, as of a state that somebody else went on with: another history."""
    one, other = central(), central()
    other._key = one._key
    record = one.decide().to_dict()
    other.decide()
    with pytest.raises(ValueError, match="expected a decision"):
        other.learn(other.decision(record), 0.5)


def test_choice__of_an_arm_that_could_not_be_drawn_is_refused():
    plain = Exp2(2, rate=0.1, explore=0.1, seed=0)
    with pytest.raises(ValueError, match="could not be drawn"):
        plain.choice({"action": 0, "probabilities": [0.0, 1.0]})


@pytest.mark.parametrize("baseline", [-1e9, 1e9])
def test_projection_free__a_term_is_bounded_whatever_baseline_a_decision_states(baseline):
    bandit = ProjectionFreeBandit(Ball(2), 400, 1.0, 1e-6, seed=0, noise=SeededNoise(0))
    made = bandit.decide()
    feedback = bandit._feedback
    forged = replace(made, choice=replace(made.choice, baseline=baseline))
    assert feedback.accept(bandit.bandit, forged, 1.0)
    assert np.linalg.norm(feedback._terms.gradient) <= 1 + 1e-9  # the range of losses


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_projection_free__several_rounds_in_one_batch_are_booked_once(delta):
    """A row of the running sum moves by k terms, and no more is paid for."""
    one, three = (
        ProjectionFreeBandit(Ball(2), 400, 1.0, delta, contributions=k, noise=SeededNoise(0))
        for k in (1, 3)
    )
    (a,), (b,) = (each._feedback.sums.guarantee.releases for each in (one, three))
    assert b.sensitivity == pytest.approx(3 * a.sensitivity)


def test_run__other_losses_after_a_failure_are_a_run_of_their_own():
    """What was released for the losses that failed says nothing of these."""
    domain = Failing(2)
    learner = FTRL(domain, 60, 1.0, 1e-6, noise=SeededNoise(0))
    losses = np.random.default_rng(0).random((20, 2))
    domain.fails = True
    with pytest.raises(RuntimeError):
        learner.run(losses)
    assert learner.rounds == 20
    domain.fails = False
    learner.run(1 - losses)
    assert learner.rounds == 40, "these losses had not come before"
    learner.run(1 - losses)
    assert learner.rounds == 60, "a run that has ended may be made again"


def test_run__a_round_after_a_failure_ends_the_run_that_failed():
    domain = Failing(2)
    learner = FTRL(domain, 60, 1.0, 1e-6, noise=SeededNoise(0))
    losses = np.random.default_rng(0).random((20, 2))
    domain.fails = True
    with pytest.raises(RuntimeError):
        learner.run(losses)
    learner.learn(losses[0])
    domain.fails = False
    learner.run(losses)
    assert learner.rounds == 41
