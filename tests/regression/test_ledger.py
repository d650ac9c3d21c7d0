"""One ledger for several fits: refused before the data are read, composed, all or nothing."""

import math
from contextlib import suppress

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from discreet.privacy import Budget, BudgetSpent, Ledger, SeededNoise
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.release import Release
from discreet.regression import AdaSSP, PrivateGLM, PrivateLinearRegression
from discreet.regression import sample as samples

UNIT = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False, "random_state": 0}


def data(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2)) / math.sqrt(2)
    return X, np.clip(X @ [0.5, -0.3] + 0.1 * rng.standard_normal(n), -1, 1)


class Unreadable:
    """Rows that fail the test if anything is asked of them."""

    def __getattr__(self, name):
        raise AssertionError(f"the data were asked for {name}")

    def __array__(self, *_, **__):
        raise AssertionError("the data were read")


def test_fits__add_up_as_an_independent_accountant_says():
    X, y = data()
    with Ledger(Budget(2.0, 1e-6)) as ledger:
        PrivateLinearRegression(1.0, **UNIT).fit(X, y, ledger=ledger)
        PrivateGLM(0.7, **UNIT).fit(X, (y > 0) * 1.0, ledger=ledger)
        AdaSSP(0.5, **UNIT).fit(X, y, ledger=ledger)
    mus = [Budget(each, 1e-6).mu for each in (1.0, 0.7, 0.5)]
    assert [release.mu for release in ledger.releases] == pytest.approx(mus)
    promise = ledger.guarantee(record="row")
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for mu in mus:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / mu))
    assert promise.epsilon_at(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)
    assert promise.epsilon_at(1e-6) == pytest.approx(gaussian_epsilon(math.hypot(*mus), 1e-6))
    assert promise.epsilon_at(1e-6) < promise.epsilon == 2.0


def test_fit__that_costs_too_much_is_refused_before_the_data_are_read():
    X, y = data()
    ledger = Ledger(Budget(1.0, 1e-6))
    PrivateLinearRegression(0.8, **UNIT).fit(X, y, ledger=ledger)
    model = PrivateLinearRegression(0.8, **UNIT)
    with pytest.raises(BudgetSpent, match=r"fit of PrivateLinearRegression.*1\.32 times"):
        model.fit(Unreadable(), Unreadable(), ledger=ledger)
    assert not hasattr(model, "coef_")
    assert len(ledger.releases) == 1
    with pytest.raises(BudgetSpent, match="more than any"):  # without noise nothing has a price
        PrivateLinearRegression(math.inf, **UNIT).fit(Unreadable(), Unreadable(), ledger=ledger)


def test_fit__is_the_same_with_a_ledger_and_says_what_it_does_not_cover():
    X, y = data()
    ledger = Ledger(Budget(1.0, 1e-6))
    one = PrivateLinearRegression(1.0, **UNIT).fit(X, y)
    other = PrivateLinearRegression(1.0, **UNIT).fit(X, y, ledger=ledger)
    assert np.array_equal(one.coef_, other.coef_)
    assert "each fit spends its own budget" in one.guarantee_.statement()
    assert "not in the ledger of this one" in other.guarantee_.statement()


def test_fit__scopes_of_two_fits_are_not_taken_for_the_same_rows(monkeypatch):
    """Early rows of one fit are not those of the next: the dearest scopes of both add up."""
    monkeypatch.setattr(samples, "MANY_ROWS", 300)
    monkeypatch.setattr("discreet.regression.central.MANY_ROWS", 300)
    monkeypatch.setattr("discreet.regression.central.EARLY_ROWS", 100)
    X, y = data()
    ledger = Ledger(Budget(2.0, 1e-6))
    for seed in (1, 2):
        model = PrivateLinearRegression(1.0, **{**UNIT, "random_state": seed})
        model.fit(X, y, ledger=ledger)
        assert {r.scope for r in model.guarantee_.releases} == {
            samples.EARLY_SCOPE,
            samples.OTHER_SCOPE,
        }
    assert {release.scope for release in ledger.releases} == {None}
    mu = Budget(1.0, 1e-6).mu
    assert [r.mu for r in ledger.releases] == pytest.approx([mu, mu])


class Failing(SeededNoise):
    """Noise that fails at its third draw."""

    def gaussian(self, *about, **more):
        self.draws = getattr(self, "draws", 0) + 1
        if self.draws == 3:
            raise MemoryError
        return super().gaussian(*about, **more)


def test_fit__that_fails_costs_what_it_had_released():
    X, y = data()
    ledger = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="norm_bound"):
        PrivateLinearRegression(1.0, **{**UNIT, "norm_bound": -1.0}).fit(X, y, ledger=ledger)
    assert ledger.spent() == 0.0
    with pytest.raises(MemoryError):
        PrivateLinearRegression(1.0, noise=Failing(0), **UNIT).fit(X, y, ledger=ledger)
    assert 0.0 < ledger.spent() < 0.5
    assert len(ledger.releases) == 1


def test_part__two_that_are_open_at_once_do_not_fit_where_one_does():
    ledger = Ledger(Budget(1.0, 1e-6))
    with (
        ledger.part(Budget(0.8, 1e-6), what="one"),
        pytest.raises(BudgetSpent, match="'two'"),
        ledger.part(Budget(0.8, 1e-6), what="two"),
    ):
        pass
    with ledger.part(Budget(0.8, 1e-6), what="two"):
        pass
    assert ledger.releases == ()


def test_part__protects_people_of_as_many_rows():
    ledger = Ledger(Budget(1.0, 1e-6, contributions=3))
    X, y = data()
    with pytest.raises(ValueError, match="state the same contributions"):
        PrivateLinearRegression(0.5, **UNIT).fit(X, y, ledger=ledger)
    PrivateLinearRegression(0.5, contributions=3, **UNIT).fit(X, y, ledger=ledger)
    assert "up to 3 rows" in ledger.guarantee(record="row").statement()


def test_part__local_reports_are_counted_as_what_they_cost():
    X, y = data(3000)
    pure = Ledger(Budget(1.0))
    local = PrivateLinearRegression(0.6, trust="local", **UNIT).fit(X, y, ledger=pure)
    assert pure.spent() == pytest.approx(0.6)
    assert local.guarantee_.epsilon_at(0.0) == pytest.approx(0.6)
    with pytest.raises(BudgetSpent):
        PrivateLinearRegression(0.6, trust="local", **UNIT).fit(X, y, ledger=pure)
    with pytest.raises(BudgetSpent, match="more than any pure budget"):
        PrivateLinearRegression(0.1, **UNIT).fit(X, y, ledger=pure)
    mixed = Ledger(Budget(1.0, 1e-6))
    PrivateLinearRegression(0.1, trust="local", **UNIT).fit(X, y, ledger=mixed)
    assert 0 < mixed.spent() < 1
    rho = Ledger(Budget(1.0, 1e-6), "zcdp")
    with rho.part(Budget(0.5, 1e-6), "zcdp", what="anything"):
        assert rho.spent() == pytest.approx(Budget(0.5, 1e-6).rho / Budget(1.0, 1e-6).rho)


@pytest.mark.parametrize("accounting", [None, "pure", "zcdp", "shuffled"])
def test_part__shuffled_fits_have_no_price_and_are_refused_before_the_data_are_read(accounting):
    """A ledger in rho set their budget aside as rho, and booked 154 times its own."""
    ledger = Ledger(Budget(1.0, 1e-6), accounting)
    model = PrivateLinearRegression(0.5, 1e-6, trust="shuffled", **UNIT)
    with pytest.raises(ValueError, match="fit it without `ledger`"):
        model.fit(Unreadable(), Unreadable(), ledger=ledger)
    assert ledger.releases == ()


@pytest.mark.parametrize("fails", [False, True])
def test_part__is_closed_after_its_block(fails):
    """What it released later was booked nowhere: the whole said 0."""
    ledger = Ledger(Budget(1.0, 1e-6))
    mu = Budget(0.5, 1e-6).mu
    release = Release.gaussian(sensitivity=mu, scale=1.0, what="sum", sampler="float")
    with suppress(RuntimeError), ledger.part(Budget(0.9, 1e-6), what="fit") as part:
        part.spend(release)
        if fails:
            raise RuntimeError
    before = ledger.spent()
    assert before == pytest.approx(mu**2 / ledger.budget.mu**2)
    for late in (part.spend, part.check, part._including):
        with pytest.raises(BudgetSpent, match="closed"):
            late(release)
    assert part.releases == (release,)
    assert ledger.spent() == before


def test_part__is_closed_before_its_costs_are_exchanged(monkeypatch):
    """A thread that releases meanwhile is refused."""
    ledger = Ledger(Budget(1.0, 1e-6))
    release = Release.gaussian(sensitivity=0.01, scale=1.0, what="sum", sampler="float")
    composed = Release.composed

    def meanwhile(releases, **about):
        with pytest.raises(BudgetSpent, match="closed"):
            part.spend(release)
        return composed(releases, **about)

    monkeypatch.setattr(Release, "composed", meanwhile)
    with ledger.part(Budget(0.9, 1e-6), what="fit") as part:
        part.spend(release)
    assert len(ledger.releases) == 1


def test_with_block__closes_the_ledger_and_keeps_the_promise():
    X, y = data()
    with Ledger(Budget(1.0, 1e-6)) as ledger:
        PrivateLinearRegression(0.5, **UNIT).fit(X, y, ledger=ledger)
    with pytest.raises(BudgetSpent, match="closed"):
        PrivateLinearRegression(0.1, **UNIT).fit(Unreadable(), Unreadable(), ledger=ledger)
    assert ledger.guarantee().epsilon_at(1e-6) == pytest.approx(0.5)
    other = Ledger(Budget(1.0, 1e-6))
    other.load_state_dict(ledger.state_dict())  # what was spent is kept in a state
    assert other.spent() == ledger.spent()
