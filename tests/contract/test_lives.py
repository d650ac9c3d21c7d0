"""The lives of a private learner: any order of decisions, rewards, files, crashes and copies.

A hypothesis machine holds every copy that it can get of one learner and goes on with any of them.
Whatever the order,

    no noise is published with two different sums
    a row is in at most one published sum
    no ledger says less than what was released

Rows and noise are followed by the value of the running sum, which a file keeps bit by bit. The
service has a machine of its own (tests/service/test_crashes.py).
"""

import contextlib
import copy
import pickle
import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from discreet.bandits import LinearBandit, People
from discreet.domains import Simplex
from discreet.online import FTRL
from discreet.privacy import PrefixSum, SeededNoise
from discreet.privacy.accumulator import NoisySum
from discreet.state import SecondCopy, claims

REFUSED = (SecondCopy, ValueError)


class Followed:
    """Which noise and which rows are in a sum, by its value; and what was published."""

    def __init__(self):
        self.inside = {}  # value of a sum -> (its first value: the noise, rows in order)
        self.published = {}  # noise -> value
        self.shown = {}  # row -> noise of the sum that showed it
        self.releases = []
        self.row = None  # that is being added

    def made(self, total):
        self.inside[total._value.tobytes()] = (total._value.tobytes(), ())

    def added(self, before, after):
        noise, rows = self.inside[before]
        self.inside[after] = (noise, (*rows, self.row))

    def out(self, value, release):
        noise, rows = self.inside[value.tobytes()]
        assert self.published.setdefault(noise, value.tobytes()) == value.tobytes()
        for row in rows:
            assert self.shown.setdefault(row, noise) == noise
        if release not in self.releases:
            self.releases.append(release)


class Lives(RuleBasedStateMachine):
    """Every copy of one learner that could be had."""

    def __init__(self):
        super().__init__()
        self.followed = Followed()
        self.folder = Path(tempfile.mkdtemp())
        self.stack = contextlib.ExitStack()
        self._patch()
        self.copies = [self.made()]
        self.decisions = []
        self.paths = []

    def made(self):
        return LinearBandit(2, 40, 4.0, noise=SeededNoise(3), seed=1, people=People(rounds=2))

    def _patch(self):
        followed, init, add, publish = (
            self.followed, NoisySum.__init__, NoisySum._add, NoisySum.publish,
        )  # fmt: skip

        def made(total, *args, **more):
            init(total, *args, **more)
            followed.made(total)

        def added(total, term):
            before = total._value.tobytes()
            add(total, term)
            followed.added(before, total._value.tobytes())

        def out(total, last=None):
            value = publish(total, last)
            followed.out(value, total.release)
            return value

        for name, method in (("__init__", made), ("_add", added), ("publish", out)):
            self.stack.enter_context(patch.object(NoisySum, name, method))

    def teardown(self):
        self.stack.close()
        shutil.rmtree(self.folder)

    def one(self, which):
        return self.copies[which % len(self.copies)]

    def acted(self, learner):
        """Whoever may go on has booked all that was ever published."""
        assert set(self.followed.releases) <= set(learner.guarantee.releases)

    @rule(which=st.integers(0, 9), many=st.sampled_from([1, 1, 30]))
    def decide(self, which, many):
        self.decides(self.one(which), many)

    def decides(self, learner, many):
        with contextlib.suppress(*REFUSED):
            made = learner.decide_many(np.tile(np.eye(2), (many, 1, 1)))
            self.decisions += made
            self.acted(learner)

    @precondition(lambda self: self.decisions)
    @rule(which=st.integers(0, 9), ago=st.integers(0, 5), reward=st.sampled_from([-1.0, 0.5]))
    def learn(self, which, ago, reward):
        self.learns(self.one(which), self.decisions[-1 - ago % len(self.decisions)], reward)

    def learns(self, learner, decision, reward):
        self.followed.row = decision.round, decision.row.tobytes()
        with contextlib.suppress(*REFUSED):
            learner.learn(decision, reward)

    @rule(which=st.integers(0, 9))
    def save(self, which):
        path = self.folder / f"{len(self.paths)}.state"
        with contextlib.suppress(*REFUSED):
            self.one(which).save(path)
            self.paths.append(path)

    @precondition(lambda self: self.paths)
    @rule(which=st.integers(0, 9))
    def load(self, which):
        with contextlib.suppress(*REFUSED):
            self.copies.append(type(self.copies[0]).load(self.paths[which % len(self.paths)]))

    @rule(which=st.integers(0, 9))
    def state(self, which):
        """A state of one, given to another."""
        with contextlib.suppress(*REFUSED):
            state = self.one(which).state_dict()
            other = self.made()
            other.load_state_dict(state)
            self.copies.append(other)

    @rule(which=st.integers(0, 9), how=st.sampled_from([copy.copy, copy.deepcopy, pickle.dumps]))
    def copied(self, which, how):
        with pytest.raises((SecondCopy, TypeError)):
            how(self.one(which))

    @rule(which=st.integers(0, 9))
    def discard(self, which):
        with contextlib.suppress(*REFUSED):
            getattr(self.one(which), "discard", lambda: None)()

    @precondition(lambda self: len(self.copies) > 1)
    @rule(which=st.integers(0, 9))
    def crash(self, which):
        """Gone, as it is."""
        del self.copies[which % len(self.copies)]


class Leaders(Lives):
    """The same with a running sum: each round of it is published once, with one value."""

    def made(self):
        return FTRL(Simplex(2), 40, 4.0, 1e-6, noise=SeededNoise(3))

    def _patch(self):
        published, add = self.followed.published, PrefixSum.add

        def added(sums, x):
            value = add(sums, x)
            key = sums.rounds, sums.horizon
            assert published.setdefault(key, value.tobytes()) == value.tobytes()
            return value

        self.stack.enter_context(patch.object(PrefixSum, "add", added))

    def decides(self, learner, many):
        with contextlib.suppress(*REFUSED):
            self.decisions.append(learner.decide())

    def learns(self, learner, decision, reward):
        with contextlib.suppress(*REFUSED):
            learner.learn([0.5, (1 + reward) / 2])


@pytest.mark.parametrize("lives", [Lives, Leaders])
@pytest.mark.parametrize("many", [8, pytest.param(300, marks=pytest.mark.thorough)])
def test_lives__keep_their_promise_in_any_order(lives, many):
    run_state_machine_as_test(
        lives,
        settings=settings(
            max_examples=many,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.thorough
@pytest.mark.parametrize("lives", [Lives, Leaders])
def test_lives__a_second_live_copy_is_noticed(lives):
    # Power: a machine whose copies nobody refuses must find two sums with one noise.
    with (
        patch.object(claims.Live, "_assert_may_act", lambda _: None),
        pytest.raises(AssertionError),
    ):
        test_lives__keep_their_promise_in_any_order(lives, 100)
