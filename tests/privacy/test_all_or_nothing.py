"""Whatever fails, wherever: a retry counts every round once, and no noise is used twice.

Every public object is driven by a noise source that fails at its k-th call, for every k, and by an
interrupt (Ctrl-C) between any two lines, for every line. The caller then does what a caller can do:
look whether the step counted (`rounds`, the ledger's releases, the sum), and repeat it if not.
"""

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import discreet.privacy
import discreet.state
from discreet.privacy import Budget, ContributionLimiter, Ledger, PrefixSum, SeededNoise, Tree
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.release import Release
from discreet.privacy.toeplitz import noise_matrix
from discreet.privacy.tree import TreeSum

INSIDE = (str(Path(discreet.privacy.__file__).parent), discreet.state.__file__)


class Failing(SeededNoise):
    """Powers of two for noise, each drawn once, so that a sum tells which draws are in it.

    `fail_at` counts the calls of this source and of all that it spawned.
    """

    def __init__(self, fail_at=None, *, exact=False):
        super().__init__(0)
        self.calls, self.fail_at, self.drawn = [0], fail_at, []
        if exact:
            self.exact = frozenset({"gaussian", "laplace"})

    def spawn(self, count):
        children = []
        for child in super().spawn(count):
            child.__class__ = type(self)
            child.calls, child.fail_at, child.drawn = self.calls, self.fail_at, self.drawn
            child.exact = self.exact
            children.append(child)
        return children

    def _count(self):
        self.calls[0] += 1
        if self.calls[0] == self.fail_at:
            raise OSError("no entropy")

    def normal(self, size):
        self._count()
        rows = super().normal(size)
        self.drawn.append(rows.copy())
        return rows

    def uniform(self, size):
        self._count()
        return super().uniform(size)

    def spacing(self, mechanism, scale, largest=0.0):
        return 2.0**-20 if mechanism in self.exact else 0.0

    def gaussian(self, std, size, spacing=0.0):
        drawn = std * self.normal(size)
        return np.rint(drawn / spacing) * spacing if spacing else drawn


class Interrupt(KeyboardInterrupt):
    pass


def interrupted(step, at):
    """Run `step` with an interrupt before the at-th line of our code; whether there was one."""
    seen = 0

    def trace(frame, event, argument):
        nonlocal seen
        if not frame.f_code.co_filename.startswith(INSIDE):
            return None
        if event == "line":
            seen += 1
            if seen == at:
                raise Interrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        step()
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


SUMS = [
    ("blt", Budget(1.0, 1e-6), False),
    ("blt", Budget(1.0, 1e-6), True),
    ("toeplitz", Budget(1.0, 1e-6), False),
    ("tree", Budget(1.0, 1e-6), False),
    (Tree(3, levels=2), Budget(1.0, 1e-6), True),
    (Tree(8, levels=3, padded=True), Budget(1.0, 1e-6), False),
    (Tree(3, levels=2), Budget(1.0), False),
    ("auto", Budget(float("inf")), False),
]
X = np.random.default_rng(0).uniform(-0.5, 0.5, (9, 2))
PIECES = [1, 1, 3, 1, 2, 1]  # rounds for `add` (1) and `add_many`


def running(mechanism, budget, noise):
    return PrefixSum(9, 2, budget, sensitivity=2.0, mechanism=mechanism, noise=noise)


def steps(sums, X):
    start = 0
    for size in PIECES:
        rows = X[start : start + size]
        yield (
            (lambda rows=rows: sums.add(rows[0]))
            if size == 1
            else (lambda rows=rows: sums.add_many(rows))
        )
        start += size


@pytest.mark.parametrize(("mechanism", "budget", "exact"), SUMS, ids=str)
def test_running_sum__a_failed_draw_and_a_retry_count_every_round_once(mechanism, budget, exact):
    probe = Failing(exact=exact)
    sums = running(mechanism, budget, probe)
    begun = probe.calls[0]
    for step in steps(sums, X):
        step()
    last = probe.calls[0]
    assert last > begun or budget.off
    for k in range(begun + 1, last + 1):
        outcomes = []
        for rows in (X, 0 * X):
            noise = Failing(k, exact=exact)
            sums = running(mechanism, budget, noise)
            failed = 0
            for step in steps(sums, rows):
                rounds, estimate = sums.rounds, sums.estimate
                try:
                    step()
                except OSError:
                    failed += 1
                    assert sums.rounds == rounds
                    assert np.array_equal(sums.estimate, estimate)
                    step()
            assert failed == 1
            assert sums.rounds == len(X)
            outcomes.append(sums.estimate)
        assert np.allclose(outcomes[0] - outcomes[1], X.sum(axis=0), atol=1e-5)


def interrupted_everywhere(rounds, take):
    """Repeat `take(size)`, interrupted one line later each time, until no interrupt happens.

    For one round and for three at once; a step that did not count is repeated, as callers do.
    """
    for size in (1, 3):
        at, there = 0, True
        while there:
            at += 1
            before = rounds()
            there = interrupted(lambda size=size: take(size), at)
            if rounds() == before:
                assert there
                take(size)
            assert rounds() == before + size
        assert at > 3


@pytest.mark.parametrize(("mechanism", "budget", "exact"), SUMS, ids=str)
def test_running_sum__an_interrupt_between_any_two_lines_counts_every_round_once(
    mechanism, budget, exact
):
    outcomes, lines = [], []
    for x in ([0.5, -0.25], [0.0, 0.0]):
        sums = PrefixSum(
            4000, 2, budget, sensitivity=2.0, mechanism=mechanism, noise=Failing(exact=exact)
        )

        def take(size, sums=sums, x=x):
            return sums.add(x) if size == 1 else sums.add_many([x] * size)

        interrupted_everywhere(lambda sums=sums: sums.rounds, take)
        outcomes.append(sums.estimate)
        lines.append(sums.rounds)
    assert lines[0] == lines[1]  # the same lines run whatever the data
    counted = outcomes[0] - outcomes[1]
    assert np.allclose(counted, lines[0] * np.array([0.5, -0.25]), atol=1e-3)


@pytest.mark.parametrize("shape", [Tree(2, levels=3), Tree(5, levels=2)], ids=str)
def test_tree__interrupts_use_no_noise_twice(shape):
    """Every sum is made of as many different draws as it has nodes, each taken once."""
    width = 3000
    fresh = iter(range(width))

    def draw(level, count):
        rows = np.zeros((count, width))
        rows[np.arange(count), [next(fresh) for _ in range(count)]] = 1.0
        return rows

    sums = TreeSum(shape, 600, width, draw)

    def take(size):
        return sums.add(np.zeros(width)) if size == 1 else sums.add_many(np.zeros((size, width)))

    def rounds():
        nodes = np.abs(sums.estimate)
        assert set(np.unique(nodes)) <= {0.0, 1.0}
        assert nodes.sum() == shape.nodes(sums.rounds)
        return sums.rounds

    interrupted_everywhere(rounds, take)


@pytest.mark.parametrize("mechanism", ["blt", "toeplitz"])
def test_filter__interrupts_use_no_noise_twice(mechanism):
    """The noise of each round, recovered from the sums, was drawn once and used once."""
    noise, out = Failing(), []
    sums = PrefixSum(900, 1, Budget(1.0, 1e-6), sensitivity=2.0, mechanism=mechanism, noise=noise)
    at = 0
    while sums.rounds < 900:
        at += 1
        before = sums.rounds
        interrupted(lambda: sums.add(0.0), at % 50)
        if sums.rounds > before:
            out.append(sums.estimate[0])
    design, scale = sums._calibration.design, sums._calibration.release.scale
    z = np.linalg.solve(scale * noise_matrix(design, 900), np.array(out))
    drawn = np.concatenate(noise.drawn)
    assert len(drawn) > len(z)  # some were dropped
    used = np.abs(drawn - z[:, None]).argmin(axis=1)
    assert np.abs(drawn[used] - z).max() < 1e-6
    assert len(set(used)) == len(z)


def test_noisy_sum__a_failed_draw_leaves_no_sum_and_no_booking():
    ledger = Ledger(Budget(1.0, 1e-6))
    noise = Failing(1)
    with pytest.raises(OSError, match="entropy"):
        NoisySum(2, sensitivity=1.0, mu=ledger.budget.mu, noise=noise)
    total = NoisySum(2, sensitivity=1.0, mu=ledger.budget.mu, noise=noise)
    ledger.spend(total.release)
    assert len(ledger.releases) == 1


def test_noisy_sum__an_interrupt_between_any_two_lines_adds_a_term_once_or_not_at_all():
    at, there = 0, True
    while there:
        at += 1
        total = NoisySum(2, sensitivity=1.0, mu=1.0, noise=SeededNoise(0))
        noise = total._value.copy()
        there = interrupted(lambda total=total: total.add(np.ones(2)), at)
        if there and np.array_equal(total._value, noise):
            total.add(np.ones(2))
        assert np.allclose(total._value - noise, 1)
    assert at > 3


MECHANISMS = {
    "gaussian": lambda **o: Mechanisms(**o).gaussian([1.0, 2.0], sensitivity=1.0, mu=0.2),
    "symmetric": lambda **o: Mechanisms(**o).gaussian_symmetric(np.eye(2), sensitivity=1.0, mu=0.2),
    "laplace": lambda **o: Mechanisms(**o).laplace([1.0], sensitivity=1.0, epsilon=0.1),
    "k_norm": lambda **o: Mechanisms(**o).k_norm(
        [1.0, 2.0], sensitivity=1.0, epsilon=0.1, norm="l2"
    ),
    "select": lambda **o: Mechanisms(**o).select([1.0, 2.0], sensitivity=1.0, epsilon=0.1),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism__a_failed_draw_and_a_retry_cost_once(name):
    release = MECHANISMS[name]
    probe = Failing()
    release(noise=probe)
    assert probe.calls[0] >= 1
    for k in range(1, probe.calls[0] + 1):
        ledger, noise = Ledger(Budget(1.0, 1e-6)), Failing(k)
        with pytest.raises(OSError, match="entropy"):
            release(noise=noise, ledger=ledger)
        assert ledger.releases == ()
        release(noise=noise, ledger=ledger)
        assert len(ledger.releases) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism__refuses_before_it_draws(name):
    ledger, noise = Ledger(Budget(1e-3, 1e-6)), Failing()
    with pytest.raises(discreet.privacy.BudgetSpent):
        MECHANISMS[name](noise=noise, ledger=ledger)
    assert noise.calls == [0]


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanism__an_interrupt_between_any_two_lines_is_booked_if_a_value_came_out(name):
    at, there = 0, True
    while there:
        at += 1
        ledger, seen = Ledger(Budget(1.0, 1e-6)), []
        there = interrupted(
            lambda ledger=ledger, seen=seen: seen.append(
                MECHANISMS[name](noise=SeededNoise(0), ledger=ledger)
            ),
            at,
        )
        assert len(seen) <= len(ledger.releases) <= 1


def test_ledger__an_interrupt_between_any_two_lines_books_all_or_nothing():
    about = {"what": "sum", "sampler": "test"}
    release = Release.gaussian(sensitivity=0.1, scale=1.0, scope="a", **about)
    at, there = 0, True
    while there:
        at += 1
        ledger = Ledger(Budget(1.0, 1e-6))
        there = interrupted(lambda ledger=ledger: ledger.spend(release), at)
        if not ledger.releases:
            ledger.spend(release)
        assert ledger.releases == (release,)
        assert ledger.spent("a") == pytest.approx(0.01 / ledger.budget.mu**2)


def test_limiter__an_interrupt_between_any_two_lines_never_admits_twice():
    at, there = 0, True
    while there:
        at += 1
        limiter, admitted = ContributionLimiter(1, salt=b"s"), []
        there = interrupted(lambda a=admitted, li=limiter: a.append(li.admit("ada")), at)
        admitted.append(limiter.admit("ada"))
        assert sum(admitted) <= 1
        assert not limiter.admit("ada")


LIVE = {
    "blt": lambda: PrefixSum(9, 2, Budget(1.0, 1e-6), sensitivity=2.0),
    "tree": lambda: PrefixSum(9, 2, Budget(1.0), sensitivity=2.0),
    "noisy sum": lambda: NoisySum(2, sensitivity=1.0, mu=1.0),
    "ledger": lambda: Ledger(Budget(1.0)),
    "limiter": lambda: ContributionLimiter(1),
}


@pytest.mark.parametrize("name", LIVE)
@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy, pickle.dumps])
def test_live_object__cannot_be_copied(name, copying):
    with pytest.raises(TypeError, match="cannot be copied"):
        copying(LIVE[name]())
    with pytest.raises(TypeError, match="cannot be copied"):
        copying(LIVE[name]()) if copying is copy.copy else copying([LIVE[name]()])


# -- several threads -------------------------------------------------------------------------------


@pytest.mark.parametrize(("mechanism", "budget", "exact"), SUMS, ids=str)
def test_threads__a_running_sum_counts_every_round_once(mechanism, budget, exact, in_threads):
    outcomes = []
    for size in (0.5, 0.0):
        sums = PrefixSum(
            800, 2, budget, sensitivity=2.0, mechanism=mechanism, noise=Failing(exact=exact)
        )

        def work(i, sums=sums, size=size):
            for _ in range(40):
                sums.add([size, -size])
            for _ in range(10):
                sums.add_many(np.full((6, 2), size) * [1, -1])

        in_threads(work)
        assert sums.rounds == 800
        outcomes.append(sums.estimate)
    assert np.allclose(outcomes[0] - outcomes[1], [400, -400], atol=1e-3)


def test_threads__a_noisy_sum_holds_every_term(in_threads):
    total = NoisySum(2, sensitivity=1.0, mu=1.0, noise=SeededNoise(0))
    noise = total._value.copy()
    in_threads(lambda i: [total.add(np.ones(2)) for _ in range(500)])
    assert np.allclose(total._value - noise, 4000)


def test_threads__a_ledger_never_overspends(in_threads):
    ledger = Ledger(Budget(1.0, 1e-6))
    mu = ledger.budget.mu
    release = Release.gaussian(sensitivity=mu / 10, scale=1.0, what="tenth", sampler="test")
    refused = []

    def work(i):
        for _ in range(40):
            try:
                ledger.spend(release)
            except discreet.privacy.BudgetSpent:
                refused.append(i)

    in_threads(work)
    assert len(ledger.releases) == 100
    assert len(refused) == 220


def test_threads__a_limiter_admits_nobody_twice(in_threads):
    limiter, admitted = ContributionLimiter(2), []
    in_threads(
        lambda i: admitted.extend(user for user in range(200) if limiter.admit(user)), count=6
    )
    assert sorted(admitted) == sorted([*range(200), *range(200)])
