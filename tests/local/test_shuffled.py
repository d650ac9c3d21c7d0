"""Shuffled trust: what a device computes before it answers, and what a server takes."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest

from discreet.audit.attacks.shuffled import Counts
from discreet.bandits import Device as BanditDevice
from discreet.bandits import LinearBandit, LocalServer, People, Promise, PublicPolicy
from discreet.local import Report
from discreet.local.device import Device
from discreet.local.questions import PARTS, Question, answer
from discreet.local.report import BatchSum, report_many
from discreet.local.state import PublicState
from discreet.online import AdversarialBandit
from discreet.privacy import Budget, Ledger, SeededNoise, Shuffled
from discreet.privacy.release import Release
from discreet.privacy.shuffle import batch_local_epsilon, shuffled_delta
from discreet.regression import PrivateLinearRegression
from discreet.regression import local as regression_room
from discreet.regression.local_server import Server

QUESTION = Question("joint", "joint", clip=0.5, fraction=1.0)


def stated(size=2000, dim=2, k=1, epsilon=1.0, delta=1e-6, **more):
    """A state whose reports keep the promise exactly."""
    batch = Shuffled().batch(size, epsilon, delta)
    each = batch.report_epsilon(k)
    return PublicState.start(dim, k * each, (QUESTION,), contributions=k, batch=batch, **more)


def people(n, dim=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, dim))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.clip(X[:, 0] / 2 + 0.1 * rng.standard_normal(n), -1, 1)


# -- the joint answer ------------------------------------------------------------------------------


def test_joint__no_record_makes_an_answer_longer_than_1():
    rng = np.random.default_rng(0)
    for _ in range(300):
        d = int(rng.integers(1, 6))
        X = rng.standard_normal((20, d))
        X /= np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True) * rng.random((20, 1)))
        y = rng.choice([-1.0, 1.0, 0.0, math.nan], 20)
        question = replace(QUESTION, clip=float(10 ** rng.uniform(-6, 2)))
        whitening = 10 ** rng.uniform(-3, 3) * rng.standard_normal((d, d))
        sent = answer(X, y, question, 3 * rng.standard_normal(d), whitening)
        assert np.linalg.norm(sent, axis=1).max() <= 1 + 1e-12


def test_joint__parts_are_the_answers_to_the_three_questions():
    X, y = people(7)
    theta, whitening = np.array([0.3, -0.2]), np.diag([2.0, 0.5])
    parts = QUESTION.split(answer(X, y, QUESTION, theta, whitening), 2)
    for name, kind, _ in PARTS:
        single = replace(QUESTION, kind=kind)
        (alone,) = single.split(answer(X, y, single, theta, whitening), 2).values()
        np.testing.assert_allclose(parts[name], alone, atol=1e-12)
    assert math.fsum(part for _, _, part in PARTS) == pytest.approx(1)


# -- what a device checks --------------------------------------------------------------------------


def test_device__computes_the_bound_and_refuses_an_epsilon_0_that_is_a_percent_too_large():
    state = stated()
    assert Device(state, Promise(epsilon=1.0, delta=1e-6), noise=SeededNoise(0)).answer(
        [0.6, 0.8], 0.5
    ).values.shape == (1, 6)
    for factor, fits in ((0.99, True), (1.01, False)):
        other = replace(state, epsilon=factor * state.epsilon)
        if fits:
            Device(other, Promise(epsilon=1.0, delta=1e-6))
        else:
            with pytest.raises(ValueError, match="too small"):
                Device(other, Promise(epsilon=1.0, delta=1e-6))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"honest": 999}, "too small"),
        ({"honest": 10, "minimum": 1600}, "too small"),
        ({"epsilon": 1.1}, "not more"),
        ({"delta": 2e-6}, "not more"),
    ],
)
def test_device__keeps_to_its_own_limits_whatever_a_newer_state_says(change, words):
    state = stated()
    device = Device(state, Promise(epsilon=1.0, delta=1e-6))
    with pytest.raises(ValueError, match=words):
        device.update(replace(state, window=1, batch=replace(state.batch, **change)))
    assert device.state is state


def test_device__a_cap_on_single_reports_holds_in_any_crowd():
    device = Device(stated(), Promise(epsilon=1.0, delta=1e-6, local_epsilon=4.0))
    larger = replace(stated(10**6), window=1)
    assert larger.epsilon > 4
    with pytest.raises(ValueError, match="epsilon=4 by themselves"):
        device.update(larger)


def test_device__refuses_a_state_of_the_other_trust():
    local = PublicState.start(2, 1.0, (QUESTION,))
    with pytest.raises(ValueError, match="other trust"):
        Device(stated(), Promise(epsilon=1.0, delta=1e-6)).update(replace(local, window=1))
    with pytest.raises(ValueError, match="other trust"):
        Device(local, Promise(epsilon=1.0)).update(replace(stated(), window=1))


def test_device__answers_once_in_a_window_also_after_a_restart():
    state = stated(k=3)
    device = Device(state, Promise(epsilon=1.0, delta=1e-6), noise=SeededNoise(0))
    device.answer([1.0, 0.0], 0.5)
    for _ in range(2):
        with pytest.raises(ValueError, match="answered in this window"):
            device.answer([1.0, 0.0], 0.5)
        device = Device.restarted(state, device.memory())
    device.update(replace(state, window=1))
    device.answer([1.0, 0.0], 0.5)
    assert device.sent == 2


def test_device__a_state_for_one_report_is_refused_where_three_were_promised():
    with pytest.raises(ValueError, match="too small"):
        Device(stated(k=1), Promise(epsilon=1.0, delta=1e-6, contributions=3))


ASKED = tuple(Question(f"scale {i}", "within", 2.0**-i, 1 / 7) for i in range(7))


def questions_of(seeds, batch, seed_of_noise=None):
    """What devices with these seeds answer; each has noise of its own unless one is stated."""
    state = replace(stated(), questions=ASKED, batch=batch)
    limits = {"epsilon": 1.0, "delta": 1e-6} if batch else {"epsilon": math.inf}
    told = []
    for i, seed in enumerate(seeds):
        noise = SeededNoise(i if seed_of_noise is None else seed_of_noise)
        device = Device(state, Promise(**limits), seed=seed, noise=noise)
        told.append(device.answer([0.6, 0.8], 0.5).question)
    return told


def test_device__where_reports_are_shuffled_no_seed_says_which_question_is_answered():
    """With a public seed the crowd was a seventh: those who answer the same question."""
    batch = stated().batch
    assert len(set(questions_of([0] * 40, batch))) == 7  # one seed, and every question
    assert len(set(questions_of(range(40), batch, seed_of_noise=0))) == 1
    assert len(set(questions_of([0] * 40, None))) == 1  # not shuffled: public coins
    assert len(set(questions_of(range(40), None, seed_of_noise=0))) == 7


def test_device__where_reports_are_shuffled_every_record_draws_as_many_coins():
    state = replace(stated(), questions=ASKED)
    places = set()
    for features, outcome in (([0.6, 0.8], 1.0), ([0.0, 0.0], -1.0), ([math.nan, 1.0], math.inf)):
        noise = SeededNoise(3)
        report = Device(state, Promise(epsilon=1.0, delta=1e-6), seed=0, noise=noise).answer(
            features, outcome
        )
        places.add((report.question, noise.state()))
    assert len(places) == 1


@pytest.mark.parametrize("crowd", [Shuffled(1.0, 1.0), Shuffled(0.8, 0.55), Shuffled(0.7, 0.5)])
def test_device__a_promise_may_not_count_on_more_than_at_first_also_after_a_restart(crowd):
    """(1, 1) after (.8, .5) raised epsilon_0 from 5.47 to 6.16, and was accepted."""
    state = stated(20_000)
    device = Device(state, Promise(epsilon=1.0, delta=1e-6))
    batch = crowd.batch(20_000, 1.0, 1e-6)
    larger = replace(state, window=1, batch=batch, epsilon=batch.report_epsilon(1))
    with pytest.raises(ValueError, match="promised a crowd"):
        device.update(larger)
    assert device.state is state
    with pytest.raises(ValueError, match="promised a crowd"):
        Device.restarted(larger, device.memory())
    with pytest.raises(ValueError, match="promised a crowd"):
        Device(larger, Promise(epsilon=1.0, delta=1e-6, honest=0.5, minimum=0.8))
    careful = Shuffled(0.9, 0.4).batch(20_000, 1.0, 1e-6)
    device.update(replace(state, window=1, batch=careful, epsilon=careful.report_epsilon(1)))


@pytest.mark.parametrize(
    "crowd", [Shuffled(), Shuffled(0.9, 0.3), Shuffled(1.0, 1.0), Shuffled(0.37, 0.23)]
)
def test_device__follows_one_crowd_through_batches_of_all_sizes(crowd):
    """Fractions of a batch are rounded to reports: no honest server is refused for that."""
    for first in (1, 2, 3, 10, 97, 1000):
        for size in (1, 2, 7, 99, 100, 101, 12345):
            batches = [crowd.batch(n, 1.0, 1e-6) for n in (first, size)]
            states = [replace(stated(), window=i, epsilon=0.5, batch=b)
                      for i, b in enumerate(batches)]  # fmt: skip
            device = Device(states[0], Promise(epsilon=1.0, delta=1e-6))
            device.update(states[1])
            Device(
                states[1],
                Promise(epsilon=1.0, delta=1e-6, honest=crowd.honest, minimum=crowd.minimum),
            )


@pytest.mark.parametrize("first", [1, 2, 3, 7])
@pytest.mark.parametrize("stored", [False, True], ids=["said", "stored before it was said"])
def test_device__a_small_first_batch_allows_no_larger_crowd_later(first, stored):
    """Of a batch of 1, .5 is 1: a later batch of 20,000 that counted on all cost 1.689, not 1."""
    batch = Shuffled(0.8, 0.5).batch(first, 1.0, 1e-6)
    record = replace(stated(), epsilon=batch.report_epsilon(1), batch=batch).to_dict()
    if stored:
        del record["batch"]["honest_fraction"], record["batch"]["minimum_fraction"]
    device = Device(PublicState.from_dict(record), Promise(epsilon=1.0, delta=1e-6))
    for crowd in (Shuffled(1.0, 1.0), Shuffled(0.8, 0.51), Shuffled(0.79, 0.5)):
        batch = crowd.batch(20_000, 1.0, 1e-6)
        later = replace(stated(), window=1, epsilon=batch.report_epsilon(1), batch=batch)
        with pytest.raises(ValueError, match="promised a crowd"):
            device.update(later)
        with pytest.raises(ValueError, match="promised a crowd"):
            Device.restarted(later, device.memory())


def test_batch__numbers_that_are_not_those_of_its_fractions_are_refused():
    batch = Shuffled(0.8, 0.5).batch(20_000, 1.0, 1e-6)
    record = replace(stated(), epsilon=0.5, batch=batch).to_dict()
    for change in (
        {"honest": 10_001},
        {"minimum": 15_999},
        {"honest_fraction": 0.4},
        {"honest_fraction": 0.9},
        {"honest_fraction": 0.0},
        {"minimum_fraction": 0.9},
        {"minimum_fraction": 1.1},
        {"minimum_fraction": "most"},
    ):
        with pytest.raises(ValueError, match="fraction"):
            PublicState.from_dict({**record, "batch": {**record["batch"], **change}})


def test_server__a_state_that_was_stored_without_fractions_has_its_own():
    server = LocalServer(2, epsilon=1.0, delta=1e-6, crowd=Shuffled(0.9, 0.35), seed=0)
    state = server._stored()
    batch = state["state"]["_published"]["of"]["batch"]["of"]
    del batch["honest_fraction"], batch["minimum_fraction"]
    again = LocalServer(2, epsilon=1.0, delta=1e-6, crowd=Shuffled(0.9, 0.35), seed=0)
    again._restore(state)
    assert again.policy.batch == server.policy.batch


class Overtaken:
    """A lock whose first owner is overtaken, as soon as it is free, by another thread's work."""

    def __init__(self, work):
        self._lock = threading.Lock()
        self._work = work

    def __enter__(self):
        self._lock.acquire()

    def __exit__(self, *_):
        work, self._work = self._work, None
        self._lock.release()
        if work is not None:
            work()


@pytest.mark.parametrize("room", ["regression", "bandits"])
def test_device__answers_the_state_that_it_has_counted_for(room):
    """A state that came between counting and sending led to two reports in its window."""
    batch = Shuffled().batch(2000, 1.0, 1e-6)
    each = batch.report_epsilon(2)
    if room == "bandits":
        state = PublicPolicy.start(2, 2 * each, contributions=2, batch=batch)
        device = BanditDevice(state, Promise(epsilon=1.0, delta=1e-6), noise=SeededNoise(0))
    else:
        state = stated(k=2)
        device = Device(state, Promise(epsilon=1.0, delta=1e-6), noise=SeededNoise(0))

    def send():
        if room == "bandits":
            return device.report(decisions.pop(), 0.5)
        return device.answer([0.6, 0.8], 0.5)

    decisions = [device.decide([[0.6, 0.8]]) for _ in range(2)] if room == "bandits" else []
    device._live = Overtaken(lambda: device.update(replace(state, window=1)))
    assert send().window == 0
    assert device.state.window == 1
    assert (send().window, device.answered) == (1, 1)


def test_state__other_channels_than_this_device_draws_by_are_refused():
    """JavaScript devices draw by the document: a cap of 0 at the same epsilon split the crowd."""
    batch = Shuffled().batch(20_000, 1.0, 1e-6)
    policy = PublicPolicy.start(2, batch.report_epsilon(1), batch=batch)
    honest = {"joint": policy.channels["joint"].thresholds}
    assert honest["joint"]["cap"] > 0
    PublicPolicy.from_dict({**policy.to_dict(), "channels": honest})
    odds = math.exp(policy.epsilon - 1e-6)
    half = {"cap": 0.0, "likely": math.floor(2**52 * odds / (1 + odds))}
    likely = honest["joint"]["likely"]
    for channel in (half, {**honest["joint"], "likely": likely - 1}, {}, None):
        with pytest.raises(ValueError, match="split the crowd"):
            PublicPolicy.from_dict({**policy.to_dict(), "channels": {"joint": channel}})
    for channels in ({}, None, {"gram": honest["joint"]}):
        with pytest.raises(ValueError, match="not a public state"):
            PublicPolicy.from_dict({**policy.to_dict(), "channels": channels})


def test_state__its_batch_survives_json_and_damage_is_refused():
    record = stated().to_dict()
    assert PublicState.from_dict(record).batch == stated().batch
    for damage in ({"honest": 0}, {"minimum": 5000}, {"delta": 0.0}, {"size": "many"}, {"x": 1}):
        with pytest.raises(ValueError, match=r"honest|minimum|delta|size|not a public state"):
            PublicState.from_dict({**record, "batch": {**record["batch"], **damage}})


# -- what a server takes ---------------------------------------------------------------------------


def batch_of(server, n, seed=0):
    X, y = people(n, server.dim, seed)
    reports = report_many(X, y, server.ask(), np.zeros(n), SeededNoise(seed))
    return BatchSum.empty(server.ask()).plus_answers(reports, server.ask())


def served(**more):
    return LocalServer(2, 1.0, delta=1e-6, crowd=Shuffled(), seed=0, **more)


def test_server__drops_a_batch_below_its_minimum_and_learns_nothing_of_it():
    server = served()
    least = server.policy.batch.minimum
    before = server.state_dict()["state"]
    assert server.aggregate(batch_of(server, least - 1)) is False
    after = server.state_dict()["state"]
    changed = [k for k in before if str(before[k]) != str(after[k])]
    assert changed == ["refused"]
    assert server.refused == least - 1
    assert server.batches == ()
    assert not server.full
    assert server.aggregate(batch_of(server, least)) is True
    assert server.full
    assert [each.crowd for each in server.batches] == [server.policy.batch.honest]


def test_server__takes_one_batch_for_a_window_and_no_single_report():
    server = served()
    batch = batch_of(server, server.size(0))
    assert server.aggregate(batch)
    assert not server.aggregate(batch)
    assert server.taken == server.size(0)
    for take, told in (
        (server.take, Report(0, "joint", np.zeros((1, 6)))),
        (server.take_many, []),
        (server.take_answers, []),
    ):
        with pytest.raises(ValueError, match="in batches"):
            take(told)
    policy = server.close()
    assert server.aggregate(batch) is False  # of the window before
    assert policy.window == 1


def test_server__reports_that_no_device_sends_do_not_fill_a_batch():
    server = served()
    good = batch_of(server, server.policy.batch.minimum - 1)
    bad = [Report(0, "joint", np.zeros((1, 6)))] * 50
    assert server.aggregate(good.plus(bad, server.policy)) is False


def test_server__what_is_no_report_does_not_fail_a_batch_nor_fill_it():
    """One object that was no report raised, and everybody's batch was lost."""
    server = served()
    least = server.policy.batch.minimum
    radius = server.policy.channels["joint"].radius
    fine = radius * np.eye(6)[:1]
    many = Report(0, "joint", np.repeat(fine, 1000, axis=0))
    odd = [None, fine, many, Report(0, "joint", fine + 0j), Report(0, "joint", [10**400] * 6)]
    assert server.aggregate([Report(0, "joint", fine)] * (least - 1) + odd) is False
    assert server.aggregate([Report(0, "joint", fine)] * least + odd) is True
    assert (server.taken, server.refused) == (least, least - 1 + 2 * len(odd))


def test_server__order_within_a_batch_changes_nothing():
    pair = []
    for turned in (False, True):
        server = served()
        X, y = people(server.size(0))
        (some,) = report_many(X, y, server.ask(), np.zeros(len(X)), SeededNoise(0))
        values = some.values[::-1] if turned else some.values
        server.aggregate(Report(0, "joint", each[None]) for each in values)
        pair.append(server.close().theta)
    np.testing.assert_allclose(*pair, rtol=1e-9)


def test_server__every_window_keeps_the_promise_and_epsilon_0_grows():
    server, seen = served(), []
    for _ in range(12):
        policy = server.policy
        size = policy.batch.size
        assert size == server.size(policy.window)
        honest = math.floor(0.5 * size)
        assert shuffled_delta(1.0, policy.report_epsilon, honest) <= 1e-6
        assert shuffled_delta(1.0, policy.report_epsilon + 0.01, honest) > 1e-6
        BanditDevice(PublicPolicy.from_dict(policy.to_dict()), Promise(epsilon=1.0, delta=1e-6))
        seen.append(policy.report_epsilon)
        server.close()
    assert seen == sorted(seen)
    assert seen[-1] > 2 * seen[0]


def test_server__a_saved_state_with_another_epsilon_0_is_refused():
    server = served()
    state = server.state_dict()
    state["state"]["_published"]["of"]["epsilon"] *= 1.5
    with pytest.raises(ValueError, match="damaged"):
        served().load_state_dict(state)


# -- learners --------------------------------------------------------------------------------------


def played(rounds=700, every=1, trust="shuffled"):
    bandit = LinearBandit(2, 1000, 1.0, trust=trust, seed=0, noise=SeededNoise(0))
    rng = np.random.default_rng(0)
    for t in range(rounds):
        features = rng.standard_normal((3, 2))
        decision = bandit.decide(features / np.linalg.norm(features, axis=1, keepdims=True))
        if t % every == 0:
            bandit.learn(decision, float(np.clip(decision.row[0], -1, 1)))
    return bandit


def test_bandit__its_guarantee_states_both_numbers_and_what_it_counts_on():
    promise = played().guarantee
    assert (promise.trust, promise.epsilon, promise.delta) == ("shuffled", 1.0, 1e-6)
    assert promise.local_epsilon == 8.0
    assert promise.to_dict()["honest"] == 0.5
    text = promise.statement()
    for words in ("anybody but the relay", "relay and the server together", "epsilon = 8", "50%"):
        assert words in text
    assert 0.99 < promise.epsilon_at(1e-6) <= 1.0
    assert promise.epsilon_at(0.0) == max(each.epsilon for each in promise.releases)


def test_bandit__windows_that_miss_too_many_rewards_teach_nothing():
    half = played(every=2)
    assert half.rounds > 500
    assert half.guarantee.releases == ()
    np.testing.assert_array_equal(half.theta, 0)
    planned = played(every=2, trust=Shuffled(minimum=0.4, honest=0.3))
    assert planned.guarantee.releases
    assert np.any(planned.theta != 0)


def test_bandit__the_last_window_is_planned_for_the_rounds_that_are_left():
    bandit = played(1000)
    bandit.turn()
    sizes = [int(each.what.split()[3]) for each in bandit.guarantee.releases]
    assert sum(sizes) == 1000
    ledger = Ledger(Budget(1.0, 1e-6), "shuffled")
    for each in bandit.guarantee.releases:
        assert each.crowd == max(1, math.floor(0.5 * int(each.what.split()[3])))
        ledger.spend(each)  # or BudgetSpent


def test_bandit__without_privacy_it_learns_what_it_would_learn_from_bare_records():
    bandit = LinearBandit(2, 400, math.inf, trust="shuffled", policy="greedy", seed=0)
    rng, theta = np.random.default_rng(0), np.array([0.4, -0.3])
    while bandit.rounds < 400:
        X = rng.standard_normal((bandit.rounds_until_release, 3, 2))
        X /= np.linalg.norm(X, axis=2, keepdims=True)
        chosen = bandit.decide_many(X)
        bandit.learn_many(chosen, chosen.rows @ theta)
    bandit.turn()
    np.testing.assert_allclose(bandit.theta, theta, atol=0.02)


def test_bandit__shuffled_trust_protects_reports():
    assert LinearBandit(2, trust=Shuffled()).shuffled == Shuffled()
    with pytest.raises(ValueError, match="rounds=k"):
        LinearBandit(2, trust="shuffled", people=People(visits="first"))


def test_regression__books_a_batch_for_every_window_and_says_both_numbers():
    X, y = people(3000)
    model = PrivateLinearRegression(
        1.0, norm_bound=1.0, label_bound=1.0, fit_intercept=False, trust="shuffled", random_state=0
    ).fit(X, y)
    promise = model.guarantee_
    assert promise.trust == "shuffled"
    assert promise.local_epsilon == 8.0
    assert [each.scope for each in promise.releases] == [f"batch {i}" for i in range(1, 6)]
    assert promise.epsilon_at(1e-6) <= 1.0
    assert np.abs(model.coef_ - [0.5, 0.0]).max() < 0.1


CAREFUL = Shuffled(minimum=0.9, honest=0.4)


@pytest.mark.parametrize(
    "made",
    [
        lambda trust: LinearBandit(2, trust=trust).guarantee,
        lambda trust: AdversarialBandit(2, 1000, 1.0, trust=trust).guarantee,
        lambda trust: PrivateLinearRegression(trust=trust).fit(*people(3000)).guarantee_,
    ],
    ids=["LinearBandit", "AdversarialBandit", "PrivateLinearRegression"],
)
def test_trust__the_promise_counts_on_what_shuffled_says(made):
    promise = made(CAREFUL)
    assert (promise.trust, promise.crowd) == ("shuffled", CAREFUL)
    assert made("shuffled").crowd == Shuffled()
    with pytest.raises(ValueError, match="trust"):
        made("mixed")


def test_regression__random_state_does_not_say_who_answers_which_question(monkeypatch):
    """The crowd of a known question is a seventh: delta(1) of 1.3e-2 where 1e-6 was claimed."""
    X, y = people(3000)
    told = []
    spied = regression_room.report_many

    def spy(rows, outcomes, state, coins, noise):
        told[-1].append(np.asarray(state.asked(coins)))
        return spied(rows, outcomes, state, coins, noise)

    monkeypatch.setattr(regression_room, "report_many", spy)
    for noise in (SeededNoise(0), SeededNoise(1), SeededNoise(0)):
        told.append([])
        PrivateLinearRegression(
            1.0, norm_bound=1.0, label_bound=1.0, fit_intercept=False, trust="shuffled",
            random_state=7, noise=noise,
        ).fit(X, y if len(told) < 3 else -y)  # fmt: skip
    one, other, same = ([each for each in run if each.max() > 0] for run in told)
    assert len(one) == len(other) == 2  # the windows that measure residuals
    for mine, theirs in zip(one, other, strict=True):
        assert np.mean(mine == theirs) < 0.5  # 1/7 by chance, of 90 people and more
    # From the noise, and never from the labels: the first such coins are those of other labels.
    np.testing.assert_array_equal(one[0], same[0])


def test_regression__several_rows_of_a_person_could_meet_in_one_batch_and_are_refused():
    X, y = people(100)
    model = PrivateLinearRegression(
        1.0, norm_bound=1.0, label_bound=1.0, fit_intercept=False, trust="shuffled", contributions=2
    )
    with pytest.raises(ValueError, match="contributions must be 1"):
        model.fit(X, y)


def test_regression__server_asks_everything_of_everybody_and_measures_residuals_apart():
    server = Server(2, 1000, 1.0, delta=1e-6, crowd=Shuffled())
    kinds = []
    while not server.done:
        kinds.append({question.kind for question in server.ask().questions})
        server.close()
    assert kinds == [{"joint"}, {"within"}, {"joint"}, {"within"}, {"joint"}]


# -- the ledger ------------------------------------------------------------------------------------


def test_ledger__a_batch_costs_all_or_has_no_price():
    enough = batch_local_epsilon(1.0, 1e-6, 1000)
    about = {"what": "a batch", "mechanism": "m", "sampler": "s"}
    ledger = Ledger(Budget(1.0, 1e-6), "shuffled")
    ledger.spend(Release.channel(enough, crowd=1000, scope="1", **about))
    for release in (
        Release.channel(enough, crowd=1000, scope="1", **about),  # the same people
        Release.channel(enough, crowd=999, scope="2", **about),
        Release.channel(enough, crowd=1000, **about),  # everybody, again
        Release.pure(sensitivity=0.1, scale=1.0, norm="any", scope="3", **about),
    ):
        with pytest.raises(ValueError, match=r"would bring the total|would cost more"):
            ledger.spend(release)


@pytest.mark.parametrize(("n", "attainable"), [(10, 0.999), (20, 0.95), (50, 0.85), (200, 0.84)])
def test_counts__the_best_event_of_a_batch_of_bits_is_below_the_promise_and_near_it(n, attainable):
    proved = Counts(batch_local_epsilon(1.0, 5e-3, n), n).epsilon(5e-3)
    assert attainable < proved < 1.0 + 1e-9
