"""Early rows and the others: two scopes, one last release, and all of mu^2 for everybody."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st

from discreet.audit import audit_scores
from discreet.audit.transcript import compare
from discreet.privacy import Budget, Ledger, SecureNoise, SeededNoise
from discreet.privacy.ledger import BudgetSpent
from discreet.privacy.release import Release
from discreet.regression import PrivateLinearRegression, Problem, central
from discreet.regression.sample import EARLY_SCOPE, OTHER_SCOPE, Sample
from discreet.regression.steps import number_of_steps

N, EARLY = 1500, 400
SCOPES = (EARLY_SCOPE, OTHER_SCOPE)


@pytest.fixture
def few_are_many(monkeypatch):
    """The plan of more than 2^19 rows, for 1500."""
    monkeypatch.setattr(central, "MANY_ROWS", 1000)
    monkeypatch.setattr(central, "EARLY_ROWS", EARLY)


ORDER = np.random.default_rng(0).permutation(N)  # what random_state=0 makes of the rows


def line(seed=0):
    """Rows that teach the learner a line: against what it knows a canary is an outlier."""
    rng = np.random.default_rng(seed)
    X = np.sign(rng.standard_normal((N, 1)))
    return X, np.clip(0.3 * X[:, 0] + 0.05 * rng.standard_normal(N), -1, 1)


def problem(ledger=None, noise=None, contributions=1):
    X, y = line()
    budget = Budget(1.0, 1e-6, contributions)
    ledger = ledger or Ledger(budget)
    return Problem(X, y, ledger, noise or SeededNoise(0), np.random.default_rng(0))


def spend(task, fraction):
    """A release on early rows that costs this fraction of mu^2."""
    scale = 1 / (task.budget.mu * math.sqrt(fraction))
    about = {"what": "early", "sampler": "none", "scope": EARLY_SCOPE}
    task.ledger.spend(Release.gaussian(sensitivity=1.0, scale=scale, **about))


def by_scope(releases, scope):
    return [each for each in releases if each.scope == scope]


def assert_accounted(releases, epsilon=1.0):
    """Each scope costs epsilon by an accountant that is not ours."""
    assert {each.scope for each in releases} == set(SCOPES)
    for scope in SCOPES:
        accountant = PLDAccountant()
        for each in by_scope(releases, scope):
            accountant.compose(GaussianDpEvent(each.scale / each.sensitivity))
        assert accountant.get_epsilon(1e-6) == pytest.approx(epsilon, abs=2e-3)


def test_many_rows__each_scope_costs_epsilon_by_an_independent_accountant(monkeypatch):
    monkeypatch.setattr(central, "MANY_ROWS", 2**18)
    monkeypatch.setattr(central, "EARLY_ROWS", 2**16)
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (270_000, 3))
    y = np.clip(X @ [0.5, 0.2, -0.4] + 0.1 * rng.standard_normal(270_000), -1, 1)
    model = PrivateLinearRegression(random_state=0).fit(X, y)
    releases = model.guarantee_.releases
    # Three Gram matrices, the sketch, and all steps, of which the last is also the others'.
    steps = number_of_steps(270_000 * Budget(1.0, 1e-6).mu / 3)
    assert len(by_scope(releases, EARLY_SCOPE)) == 4 + steps
    assert len(by_scope(releases, OTHER_SCOPE)) == 1
    assert_accounted(releases)
    assert model.guarantee_.epsilon_at(1e-6) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(model.coef_, [0.5, 0.2, -0.4], atol=0.01)


def test_many_rows__the_last_release_has_the_noise_of_the_whole_budget(few_are_many):
    model = PrivateLinearRegression(random_state=0).fit(*line())
    early, last = (by_scope(model.guarantee_.releases, scope)[-1] for scope in SCOPES)
    assert last.mu == pytest.approx(Budget(1.0, 1e-6).mu)
    assert early.scale == last.scale
    # What is left to early rows is the square root of what they have not spent.
    spent = sum(each.mu**2 for each in by_scope(model.guarantee_.releases, EARLY_SCOPE)[:-1])
    left = 1 - spent / last.mu**2
    assert 1 - central.EARLY_FRACTION <= left < 1 - 0.8 * central.EARLY_FRACTION
    assert early.sensitivity == pytest.approx(last.sensitivity * math.sqrt(left))


@pytest.mark.parametrize("mu", [1.0, 1e-3])
def test_many_rows__exact_noise_keeps_both_scopes_within_the_budget(mu):
    """Rounding to the lattice moves an early row's sums as far as anybody's."""
    pytest.importorskip("opendp")
    task = problem(Ledger(Budget(mu, 1e-6)), SecureNoise())
    spend(task, 0.5)
    Sample.last(task, ORDER[:EARLY]).release(
        lambda X, y: (X.T @ y,), lambda parts: parts[0], sensitivity=2.0, what="moment"
    )
    assert task.ledger.spent(EARLY_SCOPE) == pytest.approx(1.0, abs=1e-12)
    assert task.ledger.spent(OTHER_SCOPE) == pytest.approx(1.0, abs=1e-12)
    early, last = (by_scope(task.ledger.releases, scope)[-1] for scope in SCOPES)
    assert early.sensitivity > last.sensitivity * math.sqrt(0.5) * (1 - 1e-9)


@given(st.floats(0.0, 1.0), st.sampled_from([1, 2, 3, 10]), st.floats(0.01, 0.99))
def test_mixture__a_person_of_early_and_other_rows_costs_no_more_than_one_of_either(p, k, spent):
    """The proof of sample.py at every fraction p of early rows among k."""
    early = round(p * k)
    a = math.sqrt(1 - spent)
    cost = (early / k) ** 2 * spent + ((early * a + k - early) / k) ** 2
    assert cost <= 1 + 1e-12


@pytest.mark.parametrize("spent", [0.1, 0.5, 0.9])
def test_release__an_early_row_moves_the_sums_by_what_it_has_left(spent):
    """Without noise: the sums with one row replaced, early or not."""

    class Silent(SeededNoise):
        def gaussian(self, std, size, spacing=0.0):
            return np.zeros(size)

    def total(place, label):
        task = problem(noise=Silent(0))
        spend(task, spent)
        task.y[place] = label
        sample = Sample.last(task, np.sort(ORDER[:EARLY]))
        return sample.release(
            lambda X, y: (X.T @ y,), lambda parts: parts[0], sensitivity=2.0, what="moment"
        ).value

    for place, weight in ((ORDER[0], math.sqrt(1 - spent)), (ORDER[EARLY], 1.0)):
        moved = np.abs(total(place, 1.0) - total(place, -1.0))
        np.testing.assert_allclose(moved, 2 * weight, rtol=1e-9)


def test_release__early_rows_that_have_spent_all_are_left_out():
    task = problem()
    spend(task, 1.0)
    sample = Sample.last(task, ORDER[:EARLY])
    assert sample.weight_of_rows == pytest.approx(N - EARLY)
    with pytest.raises(BudgetSpent):
        spend(task, 0.01)


# -- attacks: everything is known but one row (or the k rows of one person) ------------------------


def comparing(places, contributions=1, epsilon=1.0):
    """Runs one fit in a neighbour; all releases, as both neighbours explain them."""
    X, y = line()
    neighbours = []
    for label in (-1.0, 1.0):
        labels = y.copy()
        labels[list(places)] = label
        rows = X.copy()
        rows[list(places)] = 1.0
        neighbours.append((rows, labels))

    def run(which, noise):
        model = PrivateLinearRegression(
            epsilon, 1e-6, contributions=contributions, noise=noise, random_state=0
        )
        return model.fit(*neighbours[which]).coef_

    return lambda which, noise: compare(run, which, noise)


PEOPLE = {
    "an early row": (ORDER[:1], 1),
    "another row": (ORDER[-1:], 1),
    "three early rows": (ORDER[:3], 3),
    "three other rows": (ORDER[-3:], 3),
    "one early row and two others": ([ORDER[0], ORDER[-1], ORDER[-2]], 3),
}


@pytest.mark.parametrize("who", PEOPLE)
def test_attack__no_row_moves_all_releases_further_than_mu(few_are_many, who):
    """How far the releases of a fit really move, without statistics of attacks."""
    places, contributions = PEOPLE[who]
    claim = Budget(1.0, 1e-6).mu
    noise = SeededNoise(1)
    moved = [comparing(places, contributions)(i % 2, noise).mu for i in range(10)]
    assert max(moved) <= claim * (1 + 1e-9)
    if "one early" not in who:  # a mixture costs less
        assert np.mean(moved) > 0.6 * claim  # the rest of the move is for the Gram matrix


@pytest.mark.parametrize("who", ["an early row", "another row"])
def test_attack__an_audit_of_whole_fits_stays_below_the_claim(few_are_many, who):
    claim = 30.0  # where few runs show much
    attack = comparing(*PEOPLE[who], epsilon=claim)
    noise = SeededNoise(2)
    scores = [[attack(which, noise).log_ratio for _ in range(120)] for which in (0, 1)]
    report = audit_scores(*scores, delta=1e-6, confidence=0.9999, method="gdp")
    # At such an epsilon rows are short, and a label moves a step by less than it may. False alarm
    # rate: 1e-4.
    assert 0.15 * claim < report.lower_bound <= claim


def test_attack__early_rows_with_full_weight_would_be_caught(few_are_many, monkeypatch):
    """The bug that two scopes invite: booked as if early rows weighed less, summed as if not."""
    release = Sample.release

    def careless(self, query, pack, **about):
        if self.early is None:
            return release(self, query, pack, **about)
        everyone = Sample(self.problem, self.X, self.y, self.mu, self.scope)
        return release(everyone, query, pack, **about)

    monkeypatch.setattr(Sample, "release", careless)
    moved = comparing(*PEOPLE["an early row"], epsilon=1.0)(0, SeededNoise(0)).mu
    assert moved > 1.1 * Budget(1.0, 1e-6).mu
