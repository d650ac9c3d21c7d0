"""People(visits=): what a person's many visits can change, and what that costs."""

import math

import dp_accounting
import numpy as np
import pytest

from discreet.arrays import symmetric_to_vector
from discreet.audit.attacks import bandits as attacks
from discreet.audit.rows import Claim
from discreet.bandits import LinearBandit, People, estimators
from discreet.bandits.visitors import Visitors
from discreet.bandits.window import Transform, sensitivity, totals
from discreet.privacy import SecureNoise, SeededNoise
from discreet.privacy.gaussian import gaussian_mu

SHARED_SENSITIVITY = sensitivity(None, People(visits="all"))

DIM = 3


def make(visits="all", horizon=2000, **more):
    common = {"epsilon": 3.0, "seed": 1, "noise": SeededNoise(2)}
    return LinearBandit(DIM, horizon, **{**common, "people": People(visits=visits), **more})


def contexts(n, seed=0):
    z = np.random.default_rng(seed).standard_normal((n, 4, DIM))
    return z / np.linalg.norm(z, axis=2, keepdims=True)


def sums(bandit):
    """The open sum without its noise: needs epsilon=inf."""
    return bandit._window.total._value.copy()


def play(bandit, n, people=7, seed=0):
    rng = np.random.default_rng(seed)
    while n > 0:
        size = min(n, bandit.rounds_until_release)
        chosen = bandit.decide_many(contexts(size, bandit.rounds))
        ids = rng.integers(people, size=size)
        assert bandit.learn_many(chosen, rng.uniform(-1, 1, size), people=ids) == 0
        n -= size


# -- whose reward counts ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["greedy", "descent"])
def test_all__one_reward_of_a_person_counts_in_each_window(policy):
    bandit = make(policy=policy)
    for _ in range(3):
        first, second = bandit.decide_many(contexts(2))
        other = bandit.decide(contexts(1)[0])
        assert bandit.learn(first, 0.5, person="ada") is True
        assert bandit.learn(second, 0.5, person="ada") is False
        assert bandit.learn(other, 0.5, person="bob") is True
        with pytest.raises(ValueError, match="had its reward"):
            bandit.learn(second, 0.5, person="eve")
        bandit.decide_many(contexts(bandit.rounds_until_release))
        bandit.turn()


def test_all__a_late_reward_counts_in_the_window_in_which_it_arrives():
    bandit = make()
    early, late = bandit.decide_many(contexts(2))
    assert bandit.learn(early, 0.5, person="ada") is True
    bandit.decide_many(contexts(bandit.rounds_until_release))
    bandit.turn()
    assert bandit.learn(late, 0.5, person="ada") is True


def test_first__one_reward_of_a_person_counts_for_ever():
    bandit = make("first")
    first, second = bandit.decide_many(contexts(2))
    assert bandit.learn(first, 0.5, person="ada") is True
    bandit.decide_many(contexts(bandit.rounds_until_release))
    bandit.turn()
    assert bandit.learn(second, 0.5, person="ada") is False


@pytest.mark.parametrize("visits", ["first", "all"])
def test_uncounted__a_reward_that_does_not_count_leaves_the_sum_as_it_was(visits):
    bandit = make(visits, epsilon=math.inf)
    chosen = bandit.decide_many(contexts(6))
    bandit.learn(chosen[0], 0.5, person="ada")
    before = sums(bandit)
    assert bandit.learn(chosen[1], -0.5, person="ada") is False
    assert bandit.learn_many(list(chosen)[2:4], [0.1, 0.2], people=["ada", "ada"]) == 0
    assert np.array_equal(sums(bandit), before)
    assert bandit.learn_many(list(chosen)[4:], [0.1, 0.2], people=["ada", "bob"]) == 0
    assert not np.array_equal(sums(bandit), before)


def test_many__is_the_same_as_one_by_one():
    """Rewards in any order, some twice, some out of bounds, some of nobody."""
    rng = np.random.default_rng(0)
    one, many = make(), make()
    chosen, same = one.decide_many(contexts(40)), many.decide_many(contexts(40))
    places = rng.integers(40, size=80)
    rewards = rng.uniform(-1.05, 1.05, 80)
    people = [None if k % 9 == 0 else int(k) for k in rng.integers(12, size=80)]
    refused = 0
    for place, reward, person in zip(places, rewards, people, strict=True):
        try:
            one.learn(chosen[int(place)], reward, person)
        except ValueError:
            refused += 1
    decisions = [same[int(place)] for place in places]
    assert many.learn_many(decisions, rewards, people=people) == refused
    assert sums(many) == pytest.approx(sums(one))
    numbers = np.arange(40)
    assert np.array_equal(one._rewarded.contains(numbers), many._rewarded.contains(numbers))


def test_admission__depends_on_ones_own_visits_alone():
    """Whatever ada does, bob's and eve's rewards count alike."""
    told = []
    for visits in ([], ["ada"], ["ada"] * 4):
        bandit = make()
        chosen = list(bandit.decide_many(contexts(12)))
        own = [bandit.learn(chosen.pop(), 0.5, person=name) for name in visits]
        assert own == [True, False, False, False][: len(visits)]
        told.append([bandit.learn(chosen.pop(), 0.5, person=p) for p in ("bob", "eve", "bob")])
    assert told == [[True, True, False]] * 3


@pytest.mark.parametrize("person", [None, 1.5, True, ["ada"]])
def test_person__what_is_no_id_is_refused_and_changes_nothing(person):
    bandit = make()
    decision = bandit.decide(contexts(1)[0])
    with pytest.raises(ValueError, match=r"person|user id"):
        bandit.learn(decision, 0.5, person=person)
    assert bandit.learn(decision, 0.5, person="ada") is True


def test_person__must_be_named_where_people_are_protected_and_nowhere_else():
    bandit, plain = make(), LinearBandit(DIM, noise=SeededNoise(0))
    both = bandit.decide_many(contexts(2))
    with pytest.raises(ValueError, match="name the person"):
        bandit.learn_many(both, [0.0, 0.0])
    with pytest.raises(ValueError, match="expected 2 people"):
        bandit.learn_many(both, [0.0, 0.0], people=["ada"])
    decision = plain.decide(contexts(1)[0])
    with pytest.raises(ValueError, match="protects rounds"):
        plain.learn(decision, 0.5, person="ada")
    with pytest.raises(ValueError, match="protects rounds"):
        plain.learn_many([decision], [0.5], people=["ada"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"visits": "first", "rounds": 2}, "say one of them"),
        ({}, "say one of them"),
        ({"visits": "last"}, "visits"),
        ({"rounds": 0}, "rounds"),
    ],
)
def test_arguments__that_do_not_go_together_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        People(**arguments)


def test_arguments__devices_protect_reports_not_people():
    with pytest.raises(ValueError, match=r"People\(rounds=k\)"):
        make(trust="local")


# -- what it costs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("policy", ["greedy", "descent"])
@pytest.mark.parametrize("horizon", [None, 1500])
def test_guarantee__all_windows_together_spend_the_budget(horizon, policy, secure):
    """Against dp-accounting; over the whole horizon nothing is left, without one always some."""
    noise = SecureNoise() if secure else SeededNoise(0)
    bandit = make(horizon=horizon, policy=policy, noise=noise)
    play(bandit, 1500)
    bandit.decide_many(contexts(bandit.rounds_until_release if horizon is None else 1))
    promise = bandit.guarantee
    assert len(promise.releases) >= 3
    assert {release.scope for release in promise.releases} == {None}
    accountant = dp_accounting.pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    for release in promise.releases:
        accountant.compose(dp_accounting.GaussianDpEvent(release.scale / release.sensitivity))
    spent = accountant.get_epsilon(1e-6)
    assert spent <= 3.0 + 1e-3
    assert promise.epsilon_at(1e-6) == pytest.approx(spent, abs=2e-3)
    if horizon is not None:
        assert spent == pytest.approx(3.0, abs=1e-3)
    assert (promise.unit, promise.neighbours) == ("person", "replace-one-person")
    assert "any number of visits" in promise.statement()
    assert "one reward of each person in each window counts" in promise.statement()
    text = " ".join(promise.unprotected)
    assert "keyed hashes" in text
    assert "several ids" in text


def test_guarantee__the_first_visit_has_the_whole_budget_in_each_window():
    bandit = make("first")
    play(bandit, 1500)
    promise = bandit.guarantee
    mu = gaussian_mu(3.0, 1e-6)
    assert all(release.mu == pytest.approx(mu) for release in promise.releases)
    assert promise.unit == "person"
    assert "the first reward of each person counts" in promise.statement()


def test_budget__no_number_of_windows_overspends_it():
    bandit = make(horizon=None, epsilon=1.0)
    for _ in range(60):
        bandit.turn()
        bandit.advance(bandit.rounds_until_release)
    spent = math.fsum(release.mu**2 for release in bandit.guarantee.releases)
    assert spent < gaussian_mu(1.0, 1e-6) ** 2
    assert bandit.learning


def test_discard__a_dropped_window_stays_booked_where_windows_share_the_budget():
    """It may have been shown since the state was saved, with the same people in it."""
    bandit = make()
    play(bandit, 100)
    before = bandit.guarantee.releases
    bandit.discard()
    assert bandit.guarantee.releases[: len(before)] == before
    assert len(bandit.guarantee.releases) == len(before) + 1
    play(bandit, 1900)
    bandit.turn()
    assert bandit.guarantee.epsilon_at(1e-6) <= 3.0 + 1e-9


@pytest.mark.parametrize(("start", "rate"), [(0, 0.05), (1500, 1.0)])
def test_budget__lasts_to_the_horizon_when_rewards_come_late_or_seldom(start, rate):
    """Windows that are shorter than was planned must find something left: else no turn succeeds."""
    bandit = LinearBandit(4, 20_000, 2.0, seed=1, noise=SeededNoise(1), people=People(visits="all"))
    rng = np.random.default_rng(1)
    while bandit.rounds < 20_000:
        size = min(bandit.rounds_until_release, 2000, 20_000 - bandit.rounds)
        X = rng.normal(size=(size, 3, 4))
        chosen = bandit.decide_many(X / np.linalg.norm(X, axis=2, keepdims=True))
        comes = (rng.random(size) < rate) & (chosen.round >= start)
        rewards = np.where(comes, np.clip(chosen.rows[:, 0], -1, 1), np.nan)
        bandit.learn_many(chosen, rewards, people=range(size))
    bandit.turn()


def test_discard__works_in_the_last_window_too():
    """`discreet restore` discards every open window, the last one before a horizon too."""
    bandit = make()
    while bandit.rounds < 1990:
        bandit.decide_many(contexts(min(bandit.rounds_until_release, 1990 - bandit.rounds)))
    bandit.discard()


# -- sensitivity -----------------------------------------------------------------------------------


def term(view, row, reward):
    v, weight = view.rows(row[None], np.array([reward]))
    return np.append(
        symmetric_to_vector(np.outer(v[0], v[0])), totals(weight, np.array([reward]))[0]
    )


def test_sensitivity__one_row_replaced_gone_or_new_in_a_window():
    """For any transform; opposite rewards on the boundary come close."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for k in range(300):
        scale = 10.0 ** rng.uniform(-3, 3)
        view = Transform(
            mean=rng.standard_normal(2),
            spread=scale * rng.standard_normal((2, 2)) * (k % 3 > 0),
            whitening=np.eye(2) if k % 3 == 0 else scale * rng.standard_normal((2, 2)),
            clip=1.0 if k % 2 else 4.0,
            residual_bound=4.0,
            link=None,
        )
        rows = rng.standard_normal((2, 2))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        one, other = (term(view, row, y) for row, y in zip(rows, (1.0, -1.0), strict=True))
        moved = max(np.linalg.norm(one - other), np.linalg.norm(one), np.linalg.norm(other))
        largest = max(largest, moved)
        assert moved <= SHARED_SENSITIVITY * (1 + 1e-12)
    worst = Transform(np.zeros(2), np.zeros((2, 2)), np.eye(2), 1.0, 1.0, None)
    one, other = (term(worst, np.eye(2)[0], y) for y in (1.0, -1.0))
    assert np.linalg.norm(one - other) == pytest.approx(math.sqrt(8.25))


# -- attacks ---------------------------------------------------------------------------------------


def separation(story, epsilon=4.0):
    """mu at which the best attack tells two neighbours apart, of the mu that was promised.

    Computed from what the sums are given. Seed 2: the noise of the first windows looks like no
    rewards, so that later transforms are those for which the canary counts most.
    """
    claim = Claim(epsilon, 1e-6, "gaussian")
    learner = attacks.joint_bandit(
        claim, SeededNoise(2), horizon=attacks.HORIZON, people=People(visits="all")
    )
    square, window = 0.0, 0
    while learner.learning:
        decisions = [learner.decide(attacks.E1) for _ in range(2)]
        view, _, scale = attacks.lived(learner, decisions, story(0, window), person="canary")
        rewards = [story(which, window) for which in (0, 1)]
        terms = [0.0 if r is None else attacks.canary_term(view, r) for r in rewards]
        square += float(np.sum((terms[0] - terms[1]) ** 2)) / scale**2
        window += 1
    assert window >= 3
    return math.sqrt(square) / claim.mu


@pytest.mark.parametrize(
    ("story", "near"), [(attacks.opposite, 0.985), (attacks.every_second_window, 0.717)]
)
def test_audit__a_person_in_many_windows_spends_what_was_booked(story, near, monkeypatch):
    assert separation(story) == pytest.approx(near, abs=0.005)
    monkeypatch.setattr(estimators, "sensitivity", lambda *of: sensitivity(*of) / 2)
    assert separation(story) > 1.4, "half the noise is noticed"


def test_audit__a_share_that_is_not_divided_is_noticed(monkeypatch):
    monkeypatch.setattr(estimators.Estimator, "mu", lambda self, share: self.budget.mu)
    with pytest.raises(ValueError, match="times the budget"):
        separation(attacks.opposite)


# -- hashes ----------------------------------------------------------------------------------------


def test_visitors__no_id_is_in_a_state_and_hashes_go_with_the_window():
    bandit = make()
    bandit.learn(bandit.decide(contexts(1)[0]), 0.5, person="mary@example.org")
    state = bandit.state_dict()["state"]["visitors"]["of"]
    assert "mary" not in str(state)
    assert len(state["_seen"]["of"]) == 16
    bandit.decide_many(contexts(bandit.rounds_until_release))
    bandit.turn()
    later = bandit.state_dict()["state"]["visitors"]["of"]
    assert len(later["_seen"]["of"]) == 0
    assert later["_key"] != state["_key"], "two windows cannot be linked"


def test_visitors__keys_are_fresh_and_order_is_not_kept():
    one, other = Visitors(), Visitors()
    assert one.pseudonym("ada") != other.pseudonym("ada")
    for person in range(50):
        one.admit(person)
    packed = one.state_dict()["state"]["_seen"]["of"].reshape(-1, 16)
    assert packed.tolist() == sorted(packed.tolist())


@pytest.mark.parametrize("visits", ["first", "all"])
def test_visitors__are_resumed(tmp_path, visits):
    bandit = make(visits)
    first, second = bandit.decide_many(contexts(2))
    bandit.learn(first, 0.5, person="ada")
    bandit.save(tmp_path / "state")
    state = bandit.state_dict()
    state["state"]["visitors"] = None
    with pytest.raises(ValueError, match="damaged"):
        make(visits).load_state_dict(state)
    resumed = LinearBandit.load(tmp_path / "state")
    assert resumed.learn(second, 0.5, person="ada") is False
    assert resumed.people.visits == visits


def test_steps__a_service_admits_folds_and_turns():
    """policy, visitors, window.fold and turn, apart, are decide and learn."""
    whole, apart = make(), make()
    X = contexts(60)
    people = np.random.default_rng(0).integers(5, size=60)
    apart.turn()
    done = 0
    while done < 60:
        end = min(60, done + apart.rounds_until_release)
        if apart.rounds_until_release == apart._next() and done:
            apart.turn()
        chosen = whole.decide_many(X[done:end])
        whole.learn_many(chosen, np.full(end - done, 0.5), people=people[done:end])
        actions = apart.policy.choose(X[done:end], apart._rng.random(end - done))
        apart.advance(end - done)
        rows = X[np.arange(done, end), actions]
        fits = [apart.visitors.admit(int(person)) for person in people[done:end]]
        apart.window.fold(rows[fits], np.full(sum(fits), 0.5))
        done = end
    assert np.array_equal(sums(whole), sums(apart))


def test_discard__readmits_nobody_whose_first_visit_has_counted():
    bandit = make("first", None)
    for again in (True, False):
        assert bandit.learn(bandit.decide(contexts(1)[0]), 0.5, person="a") == again
        bandit.discard()


@pytest.mark.parametrize(("name", "wrong"), [("_key", b""), ("_key", "text"), ("_seen", [])])
def test_visitors__a_damaged_state_is_refused(name, wrong):
    visitors = Visitors()
    setattr(visitors, name, wrong)
    with pytest.raises(ValueError, match=name[1:]):
        visitors._validate()
