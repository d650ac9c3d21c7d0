import json
import math
import re
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given
from hypothesis import strategies as st

from discreet.privacy import Budget, BudgetSpent, Guarantee, Ledger, Shuffled
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.guarantee import _numeric_epsilon
from discreet.privacy.release import Release
from discreet.privacy.shuffle import shuffled_epsilon

ABOUT = {"what": "sum", "sampler": "float, simulation only"}


def gaussian(mu, scope=None):
    return Release.gaussian(sensitivity=mu, scale=1.0, scope=scope, **ABOUT)


def laplace(epsilon, scope=None):
    return Release.pure(
        mechanism="laplace", norm="l1", sensitivity=epsilon, scale=1.0, scope=scope, **ABOUT
    )


def selection(epsilon, scope=None):
    return Release.selection(sensitivity=epsilon / 2, scale=1.0, scope=scope, **ABOUT)


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=6))
def test_ledger__fractions_of_mu_squared_that_add_up_are_admitted_and_no_more(fractions):
    budget = Budget(1.0, 1e-6)
    ledger, total = Ledger(budget), sum(fractions)
    for fraction in fractions:
        ledger.spend(gaussian(budget.mu * math.sqrt(fraction / total)))
    assert ledger.spent() == pytest.approx(1.0)
    with pytest.raises(BudgetSpent, match=r"would bring the total to 1.01 times the budget"):
        ledger.spend(gaussian(budget.mu * 0.1))
    assert len(ledger.releases) == len(fractions)


def test_ledger__disjoint_scopes_cost_the_dearest_and_common_rows_add_to_each():
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget)
    ledger.spend(gaussian(budget.mu * math.sqrt(0.3)))
    for window in range(50):
        ledger.spend(gaussian(budget.mu * math.sqrt(0.7), scope=f"window {window}"))
    assert ledger.spent() == pytest.approx(1.0)
    assert ledger.spent("window 3") == pytest.approx(1.0)
    with pytest.raises(BudgetSpent):
        ledger.spend(gaussian(budget.mu * 0.2, scope="window 3"))
    with pytest.raises(BudgetSpent):
        ledger.spend(gaussian(budget.mu * 0.2))
    assert ledger.spent("never seen") == pytest.approx(0.3)


def test_ledger__pure_epsilons_add_up():
    ledger = Ledger(Budget(1.0))
    ledger.spend(laplace(0.6))
    ledger.spend(selection(0.4))
    with pytest.raises(BudgetSpent):
        ledger.spend(laplace(0.01))
    with pytest.raises(BudgetSpent, match="more than any pure budget"):
        Ledger(Budget(1.0)).spend(gaussian(0.1))


def test_ledger__zcdp_admits_more_selections_than_pure_sums():
    budget = Budget(1.0, 1e-6)
    ledger = Ledger(budget, "zcdp")
    count = 0
    while True:
        try:
            ledger.spend(selection(0.05))
        except BudgetSpent:
            break
        count += 1
    assert count == int(budget.rho / (0.05**2 / 8))
    assert count > 1.0 / 0.05


def test_ledger__gaussian_accounting_takes_pure_releases_at_their_gaussian_price():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(laplace(0.1))
    assert ledger.spent() == pytest.approx((0.1 * math.sqrt(math.pi / 2)) ** 2
                                           / Budget(1.0, 1e-6).mu ** 2, rel=1e-3)  # fmt: skip


def test_ledger__no_privacy_admits_everything():
    ledger = Ledger(Budget(math.inf))
    ledger.spend(gaussian(math.inf))
    assert ledger.spent() == 0.0


def test_ledger__resumes_the_same_account_and_refuses_to_forget():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(gaussian(0.1, scope="a"))
    ledger.spend(laplace(0.01))
    state = ledger.state_dict()
    for budget in (Budget(1.0), Budget(2.0, 1e-6), Budget(1.0, 1e-6, contributions=5)):
        with pytest.raises(ValueError, match=r"saved with other arguments of Ledger: .*budget"):
            Ledger(budget).load_state_dict(state)
    other = Ledger(Budget(1.0, 1e-6))
    other.load_state_dict(json.loads(json.dumps(state)))
    assert other.releases == ledger.releases
    assert other.spent() == ledger.spent()
    other.spend(laplace(0.01))
    with pytest.raises(ValueError, match="older"):
        other.load_state_dict(state)
    # A state that overspends is refused whole.
    spender = Ledger(Budget(1.0, 1e-6))
    spender._limit = math.inf
    spender.spend(gaussian(0.2))
    spender.spend(gaussian(0.2))
    fresh = Ledger(Budget(1.0, 1e-6))
    with pytest.raises(ValueError, match="damaged"):
        fresh.load_state_dict(spender.state_dict())
    # So is one that claims to have spent less than its releases cost.
    forged = other.state_dict()
    forged["state"]["_account"]["of"]["common"] = 0.0
    with pytest.raises(ValueError, match="damaged"):
        fresh.load_state_dict(forged)
    assert fresh.releases == ()


def test_ledger__check_refuses_and_changes_nothing():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.check(gaussian(0.1))
    with pytest.raises(BudgetSpent):
        ledger.check(gaussian(0.3))
    assert ledger.releases == ()
    assert ledger.spent() == 0.0


def test_ledger__including_is_spending_into_a_new_ledger():
    ledger, other = Ledger(Budget(1.0, 1e-6)), Ledger(Budget(1.0, 1e-6))
    first, second, third = gaussian(0.1, "a"), gaussian(0.05), gaussian(0.12, "b")
    ledger.spend(first)
    after = ledger._including(second, third)
    assert ledger.releases == (first,)
    for each in (first, second, third):
        other.spend(each)
    assert after.releases == other.releases
    assert [after.spent(scope) for scope in (None, "a", "b")] == [
        other.spent(scope) for scope in (None, "a", "b")
    ]
    with pytest.raises(BudgetSpent):
        ledger._including(second, gaussian(0.3))
    assert ledger.releases == (first,)


def test_ledger__nonsense_costs_are_refused_and_do_not_disable_it():
    for sensitivity, scale in ((math.nan, 1.0), (-100.0, 1.0), (1.0, math.nan)):
        with pytest.raises(ValueError, match="must be at least 0"):
            Release.gaussian(sensitivity=sensitivity, scale=scale, **ABOUT)
    record = gaussian(0.1).to_dict() | {"mu": math.nan}
    with pytest.raises(ValueError, match="must be at least 0"):
        Release.from_dict(record)


def test_guarantee__gaussian_releases_compose_exactly():
    ledger = Ledger(Budget(1.0, 1e-6))
    mu = Budget(1.0, 1e-6).mu
    for fraction in (0.1, 0.4, 0.5):
        ledger.spend(gaussian(mu * math.sqrt(fraction)))
    guarantee = ledger.guarantee()
    assert guarantee.epsilon_at(1e-6) == pytest.approx(1.0, rel=1e-9)
    accountant = dp_accounting.pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    for release in guarantee.releases:
        accountant.compose(dp_accounting.GaussianDpEvent(release.scale / release.sensitivity))
    assert guarantee.epsilon_at(1e-8) == pytest.approx(accountant.get_epsilon(1e-8), abs=1e-4)


def test_guarantee__mixtures_go_through_numerical_composition_and_are_upper_bounds():
    guarantee = Guarantee(3.0, 1e-6, releases=(gaussian(0.3), laplace(0.2), laplace(0.1)))
    ours = guarantee.epsilon_at(1e-6)
    # The truth for scalar Laplace noise, a special case of a pure release.
    exact = pld.from_gaussian_mechanism(1 / 0.3)
    for epsilon in (0.2, 0.1):
        exact = exact.compose(pld.from_laplace_mechanism(1 / epsilon))
    truth = exact.get_epsilon_for_delta(1e-6)
    assert truth <= ours <= truth * 1.02
    assert ours <= gaussian_epsilon(0.3, 1e-6) + 0.3


def test_guarantee__a_dear_pure_release_beside_a_gaussian_one_adds_up():
    guarantee = Guarantee(2000.0, 1e-6, releases=(gaussian(0.5), laplace(1000.0)))
    assert guarantee.epsilon_at(1e-6) <= 1000 + gaussian_epsilon(0.5, 1e-6) + 1e-6


def test_guarantee__pure_releases_at_delta_zero_add_up():
    guarantee = Guarantee(1.0, 0.0, releases=(laplace(0.25), laplace(0.5)))
    assert guarantee.epsilon_at(0.0) == pytest.approx(0.75)
    assert guarantee.epsilon_at(0.3) < 0.75
    assert Guarantee(1.0, 1e-6, releases=(gaussian(0.1),)).epsilon_at(0.0) == math.inf
    assert Guarantee(1.0, 0.0).epsilon_at(0.0) == 0.0
    with pytest.raises(ValueError, match="delta"):
        guarantee.epsilon_at(1.5)


def test_guarantee__scopes_take_the_worst():
    releases = (gaussian(0.1), gaussian(0.2, "a"), gaussian(0.3, "b"))
    worst = gaussian_epsilon(math.hypot(0.1, 0.3), 1e-6)
    assert Guarantee(9.0, 1e-6, releases=releases).epsilon_at(1e-6) == pytest.approx(worst)


def test_guarantee__to_dict_is_stable_and_valid_json():
    guarantee = Guarantee(1.0, 1e-6, releases=(gaussian(0.1),), unprotected=("the horizon",),
                          reference="Nobody (2000)", contributions=4)  # fmt: skip
    record = json.loads(json.dumps(guarantee.to_dict(), allow_nan=False))
    assert list(record) == [
        "format", "epsilon", "delta", "trust", "neighbours", "unit", "contributions", "sampler",
        "releases", "unprotected", "reference", "audits",
    ]  # fmt: skip
    assert record["format"] == 2
    assert record["audits"] == []  # a field of the API
    assert record["unit"] == "user, at most 4 rounds"
    assert record["releases"][0]["mu"] == 0.1
    assert "epsilon" not in record["releases"][0]  # a Gaussian release has no pure price
    bare = Release.gaussian(sensitivity=1.0, scale=0.0, what="bare", sampler="none").to_dict()
    assert [bare[name] for name in ("epsilon", "mu", "rho")] == ["inf"] * 3
    assert Release.from_dict(bare).mu == math.inf
    assert Release.from_dict(record["releases"][0]) == guarantee.releases[0]


def test_guarantee__without_privacy_nothing_is_protected_in_words_either():
    text = Guarantee(math.inf, 0.0, unprotected=("one's own action",), contributions=3).statement()
    assert "NO PRIVACY" in text
    assert "Protected: nothing and nobody." in text
    assert "one round" not in text
    assert "up to 3" not in text
    assert "one's own action" not in text  # as if the rest were protected


@pytest.mark.parametrize("epsilon", [1e-6, 0.001, 0.03, 0.1, 0.2, 0.5, 1.0, 3.0, 13.0])
def test_guarantee__says_how_much_likelier_and_never_rounds_it_down(epsilon):
    (said,) = re.findall(r"more than ([\d.]+) times as likely", Guarantee(epsilon, 0.0).statement())
    assert math.exp(epsilon) <= float(said)
    assert float(said) - 1 <= math.expm1(epsilon) * 1.11


def test_guarantee__of_a_table_speaks_of_rows_and_labels():
    text = Guarantee(1.0, 1e-6, record="row").statement()
    assert "one row: its features and its label" in text
    assert "round" not in text + Guarantee(1.0, 1e-6, record="row", contributions=2).statement()
    with pytest.raises(ValueError, match="record"):
        Guarantee(1.0, 0.0, record="visit")


def test_guarantee__is_shown_in_a_line_and_printed_in_words():
    release = Release.gaussian(sensitivity=1.0, scale=5.0, **ABOUT)
    promise = Guarantee(1.0, 1e-6, releases=(release,) * 40)
    assert repr(promise) == (
        "<Guarantee: epsilon=1, delta=1e-06, trust='central', round; 40 releases>"
    )
    assert str(promise) == promise.statement()


def test_guarantee__statement_says_what_matters():
    guarantee = Guarantee(
        1.0, 1e-6, trust="joint", releases=(gaussian(0.1),), unprotected=("one's own action",)
    )
    text = guarantee.statement()
    for phrase in ("epsilon = 1, delta = 1e-06", "2.72 times", "except the person concerned",
                   "Not protected: one's own action", "SIMULATION ONLY",
                   "replace-one"):  # fmt: skip
        assert phrase in text
    with pytest.raises(ValueError, match="trust"):
        Guarantee(1.0, 0.0, trust="blind")


def test_guarantee__names_the_sampler_of_each_mechanism_where_they_differ():
    exact = Release.gaussian(
        sensitivity=1.0, scale=9.0, what="s", sampler="exact lattice, OS entropy"
    )
    floats = Release.pure(mechanism="k-norm", norm="linf", sensitivity=1.0, scale=9.0, what="s",
                          sampler="float, OS entropy")  # fmt: skip
    guarantee = Guarantee(1.0, 1e-6, releases=(exact, floats))
    assert guarantee.sampler == "gaussian: exact lattice, OS entropy; k-norm: float, OS entropy"
    assert "round what you publish" in guarantee.statement()
    seeded = Release.gaussian(
        sensitivity=1.0, scale=9.0, what="s", sampler="float, simulation only"
    )
    mixed = Guarantee(1.0, 1e-6, releases=(seeded, exact))
    assert "simulation only" in mixed.sampler
    assert "exact lattice" in mixed.sampler
    assert Guarantee(1.0, 1e-6, releases=(exact,)).sampler == "exact lattice, OS entropy"


def test_ledger__of_two_equal_parts_that_are_open_the_one_that_ends_frees_its_own_alone():
    whole, each = Ledger(Budget(1.0, 1e-6)), Budget(0.4, 1e-6)
    with whole.part(each, what="a fit"):
        one = whole.spent()
        with whole.part(each, what="a fit"):
            assert whole.spent() == pytest.approx(2 * one)
        assert whole.spent() == pytest.approx(one)
    assert whole.spent() == 0


@pytest.mark.parametrize("accounting", ["pure", "gaussian", "zcdp"])
def test_guarantee__of_a_ledger_is_its_budget(accounting):
    guarantee = Ledger(Budget(0.7, 1e-6, contributions=3), accounting).guarantee()
    assert (guarantee.epsilon, guarantee.contributions) == (0.7, 3)
    assert guarantee.delta == (0.0 if accounting == "pure" else 1e-6)


def test_part__of_people_of_other_contributions_is_refused():
    whole = Ledger(Budget(1.0, 1e-6, contributions=2))
    with (
        pytest.raises(ValueError, match="people of 2 rows"),
        whole.part(Budget(0.5, 1e-6), what="a fit"),
    ):
        pass


def test_batch__without_scope_crowd_or_price_is_never_free():
    fine = {"scope": "batch 1", "crowd": 10_000}
    for lost in fine:
        ledger = Ledger(Budget(1.0, 1e-6), "shuffled")
        with pytest.raises(BudgetSpent, match="more than any shuffled budget"):
            ledger.spend(replace(laplace(0.5), **{**fine, lost: None}))
    ledger.spend(replace(laplace(0.5), **fine))


def test_guarantee__of_shuffled_reports_at_delta_zero_is_what_they_cost_without_the_crowd():
    reports = Release.channel(3.0, mechanism="sphere", crowd=10_000, scope="batch 1", **ABOUT)
    about = {"trust": "shuffled", "contributions": 2, "crowd": Shuffled()}
    guarantee = Guarantee(1.0, 1e-6, releases=(reports,), **about)
    assert guarantee.epsilon_at(0.0) == 6.0
    assert 0 < guarantee.epsilon_at(1e-6) <= 1.0
    assert Guarantee(1.0, 1e-6, **about).epsilon_at(1e-6) == 0.0
    below = 2 * shuffled_epsilon(0.5e-7, 3.0, 10_000)  # of what is promised nothing is said there
    assert guarantee.epsilon_at(1e-7) == pytest.approx(below)
    assert Guarantee(0.01, 1e-6, releases=(reports,), **about).epsilon_at(1e-6) == 0.01


def test_guarantee__what_no_grid_can_hold_is_not_composed_numerically():
    assert _numeric_epsilon([gaussian(0.5), laplace(0.1), laplace(60.0)], 1e-6) == math.inf


def test_spent__is_of_the_dearest_scope_whichever_came_last():
    ledger = Ledger(Budget(1.0, 1e-6))
    mu = ledger.budget.mu
    for fraction, scope in ((0.7, "dear"), (0.2, "cheap")):
        ledger.spend(gaussian(mu * math.sqrt(fraction), scope))
    assert ledger.spent() == pytest.approx(0.7)
    with pytest.raises(BudgetSpent):
        ledger.spend(gaussian(mu * math.sqrt(0.4)))


def test_including__nothing_under_a_closed_ledger():
    with Ledger(Budget(1.0, 1e-6)) as ledger:
        pass
    with pytest.raises(BudgetSpent, match="closed"):
        ledger._including(gaussian(0.01))


def test_shuffled__several_reports_of_a_person_need_more_of_each_batch():
    crowd = Shuffled()
    one, three = (crowd.batch(20_000, 1.0, 1e-6).report_epsilon(k) for k in (1, 3))
    about = {"mechanism": "ball", "crowd": 10_000, "scope": "batch 1", **ABOUT}
    ledger = Ledger(Budget(1.0, 1e-6, 3), "shuffled")
    assert ledger.share(Release.channel(three, **about)) == 1.0
    assert ledger.share(Release.channel(one, **about)) == math.inf


def test_local_epsilon__of_all_reports_of_a_person():
    promise = Ledger(Budget(1.0, 1e-6, 3), "shuffled").guarantee(
        trust="shuffled", crowd=Shuffled(local_epsilon=2.0)
    )
    assert promise.local_epsilon == 6.0


def test_from_dict__a_promise_that_its_releases_break_is_refused():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.spend(gaussian(ledger.budget.mu))
    record = ledger.guarantee().to_dict()
    assert Guarantee.from_dict(record).releases == ledger.releases
    with pytest.raises(ValueError, match="cost more"):
        Guarantee.from_dict({**record, "releases": 2 * record["releases"]})
