"""ProjectionFreeBandit: Algorithm 1 step by step, its release, its promise, its state."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.decisions import PointDecision
from discreet.domains import (
    Ball,
    BasePolytope,
    BirkhoffPolytope,
    Cube,
    FlowPolytope,
    MatroidPolytope,
    Polytope,
    Simplex,
    TraceNormBall,
)
from discreet.domains.conditional_gradient import nearest_point
from discreet.online.projection_free import LEVEL, ProjectionFreeBandit
from discreet.online.smoothed_descent import SmoothedDescent, Steps
from discreet.privacy import SecureNoise, SeededNoise
from papers.convex_losses import convex_losses

TREES = MatroidPolytope.graphic([(i, j) for i in range(4) for j in range(i)], bases=True)
PATHS = FlowPolytope([("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("a", "b")], "s", "t")
DOMAINS = {
    "simplex": Simplex(4),
    "cube": Cube(3),
    "ball": Ball(3),
    "triangle": Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1]),
    "interval": Cube(1),
    "trees": TREES,
    "paths": PATHS,
    "base": BasePolytope(4, lambda S: math.sqrt(len(S))),
    "matchings": BirkhoffPolytope(3),
    "low rank": TraceNormBall(2, 3),
}
every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
SMOOTH = 0.4  # how far the smoothed sum goes towards the newest one
BUDGETS = {"pure": (1.0, 0.0), "approximate": (1.0, 1e-6)}
every_budget = pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)


ONE = Steps(reach=1000.0, count=1, step_noise=1e9, sum_noise=5e5)  # a rate of 1


def make(domain=TREES, horizon=400, epsilon=1.0, delta=1e-6, **about):
    about = {"seed": 3, "noise": SeededNoise(4), **about}
    return ProjectionFreeBandit(domain, horizon, epsilon, delta, **about)


def loss_of(point):
    return 0.5 + 0.2 * math.tanh(float(point.sum() + point[0]))


def run(bandit, rounds):
    points = []
    for _ in range(rounds):
        d = bandit.decide()
        bandit.learn(d, loss_of(d.point))
        points.append(d.point)
    return np.array(points)


# -- the plain algorithm --------------------------------------------------------------------------


def by_hand(domain, T, bandit):
    """Algorithm 1 with this module's baseline, smoothing and tolerance, written out."""
    hull, zeta, size = domain.affine_hull, bandit.radius, bandit.batch_size
    n, D = hull.basis.shape[1], domain.diameter()
    batches = max(1, math.ceil(T / size) - 1)
    last, squares, moves = np.zeros(n), 0.0, 0
    coins, centre, baseline = np.random.default_rng(3), domain.interior_point, 0.5
    s, smooth, losses, points = np.zeros(n), np.zeros(n), [], []
    for first in range(0, T, size):
        units = coins.standard_normal((size, n))
        units /= np.linalg.norm(units, axis=1, keepdims=True)
        for u in units[: T - first]:
            x = centre + zeta * hull.basis @ u
            f = loss_of(x)
            s = s + n / zeta * (f - baseline) * u
            losses.append(f)
            points.append(x)
        smooth = smooth + SMOOTH * (s - smooth)
        squares, moves, last = squares + float((s - last) @ (s - last)), moves + 1, s
        eta = D / math.sqrt(2 * batches * squares / (moves * n))
        target = domain.interior_point - eta * hull.basis @ smooth
        gap = D**2 / math.sqrt(T)
        centre = nearest_point(domain, target, centre, gap=gap, max_calls=max(size, 10)).point
        baseline = float(np.mean(losses))
    return np.array(points)


@every_domain
def test_without_privacy__it_is_the_algorithm_of_the_module_step_by_step(domain):
    bandit = make(domain, 200, math.inf, 0.0)
    np.testing.assert_allclose(run(bandit, 200), by_hand(domain, 200, bandit), atol=1e-9)
    assert not bandit.guarantee.private
    assert bandit.oracle_calls > 0


@every_domain
def test_points__are_the_radius_away_from_a_point_of_the_domain_in_its_hull(domain):
    bandit, hull = make(domain), domain.affine_hull
    for point in run(bandit, 400):
        coordinates = hull.coordinates(point)
        np.testing.assert_allclose(hull.point(coordinates), point, atol=1e-9)
    middle = bandit.bandit.centre
    assert domain.contains(middle)
    assert np.linalg.norm(point - middle) == pytest.approx(bandit.radius)
    assert bandit.radius <= domain.diameter() / 4


@every_domain
def test_shrink__never_leaves_the_domain_and_reaches_its_border(domain):
    bandit = make(domain, 60, epsilon=0.1, shrink=True)  # much noise: centres at the border
    assert bandit.radius <= domain.inner_radius / 2
    assert all(domain.contains(point) for point in run(bandit, 60))
    inside = bandit.bandit.inside
    assert inside == pytest.approx(1 - bandit.radius / domain.inner_radius)
    assert 0.5 <= inside < 1


def test_shrink__the_centre_is_the_nearest_point_of_the_smaller_set():
    domain = Ball(2)
    plain = SmoothedDescent(
        domain, steps=ONE, radius=0.25, size=100, gap=1e-12, baseline=0.0, shrink=True, seed=0,
    )  # fmt: skip
    plain.move(np.array([0.6, 0.0]) / SMOOTH, 0.0)  # inside the ball of radius 0.75
    points = np.array([plain.aim(i).point for i in range(100)])
    np.testing.assert_allclose(np.linalg.norm(points - [-0.6, 0.0], axis=1), 0.25)


def test_line_14__minimises():
    """A positive gradient moves the centre down."""
    bandit = make(Ball(2), 4000, math.inf, 0.0)
    for _ in range(4000):
        d = bandit.decide()
        bandit.learn(d, 0.5 + 0.3 * float(d.point[0]))
    assert bandit.bandit.centre[0] < -0.5


# -- directions -----------------------------------------------------------------------------------


def directions_of(n, count, batches=1):
    plain = SmoothedDescent(
        Cube(n), steps=ONE, radius=0.1, size=count, gap=1.0, baseline=0.0, shrink=False, seed=1,
    )  # fmt: skip
    drawn = []
    for _ in range(batches):
        plain.stay()
        drawn.append([plain.aim(i).direction for i in range(count)])
    return np.array(drawn)


@pytest.mark.parametrize("i", [0, 1, 4])
def test_directions__each_is_uniform_on_the_sphere(i):
    """<u, v> of a fixed v is distributed as one coordinate: Beta((n-1)/2, (n-1)/2) on [-1, 1]."""
    n, v = 4, np.array([0.5, -0.5, 0.5, -0.5])
    units = directions_of(n, 6, batches=4000)[:, i]
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1.0)
    distribution = stats.beta((n - 1) / 2, (n - 1) / 2, loc=-1, scale=2)
    for values in (units @ v, units[:, 2]):
        assert stats.kstest(values, distribution.cdf).pvalue > 1e-6
        assert stats.kstest(np.clip(values * 1.25, -1, 1), distribution.cdf).pvalue < 1e-6, (
            "no power"
        )


def test_estimate__is_unbiased_for_losses_fixed_in_advance_whatever_the_baseline():
    """(n/zeta)(f_t(x + zeta u_t) - b) u_t averages to the slope of f_t, round by round."""
    n, zeta, batches = 3, 0.1, 40_000
    units = directions_of(n, 4, batches)
    slopes = np.random.default_rng(0).normal(size=(4, n))  # another loss in each round
    losses = 0.3 + zeta * np.einsum("bti,ti->bt", units, slopes)
    terms = n / zeta * (losses - 0.2)[..., None] * units
    error = terms.std(axis=0) / math.sqrt(batches)
    assert (np.abs(terms.mean(axis=0) - slopes) < 5 * error).all()  # 12 tests at 6e-7


# -- the release ----------------------------------------------------------------------------------


def released_row(losses, seed=3, k=1, budget=(1.0, 1e-6)):
    """What the first batch gives to the running sum, and the sensitivity that was claimed."""
    bandit = make(Cube(3), 64, *budget, loss_range=(-1.0, 2.0), contributions=k, seed=seed)
    rows, add = [], bandit._feedback.sums.add
    bandit._feedback.sums.add = lambda row: rows.append(row) or add(row)
    for t in range(bandit.batch_size + 1):
        bandit.learn(bandit.decide(), losses[t] if t < len(losses) else 0.7)
    return rows[0], bandit._feedback.sums.sensitivity


@every_budget
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pair", [(-1.0, 2.0), (2.0, -1.0), (0.5, 2.0), (0.5, 0.5)])
def test_release__a_replaced_loss_moves_the_sum_by_at_most_the_sensitivity(pair, seed, budget):
    (a, claim), (b, _) = (released_row([loss], seed, budget=budget) for loss in pair)
    moved = np.linalg.norm(a - b)
    assert moved <= claim * (1 + 1e-12)
    assert moved == pytest.approx(claim * abs(pair[0] - pair[1]) / 3)  # tight at opposite ends


def released_by_one_person(loss, k, **about):
    """The row of a batch that holds k losses of one person, all in the direction of the first."""
    bandit = make(Cube(9), 64, loss_range=(-1.0, 2.0), contributions=k, **about)
    rows, sums = [], bandit._feedback.sums
    add, sums.add = sums.add, lambda row: rows.append(row) or add(row)
    waiting = [bandit.decide() for _ in range(5)]  # a batch has 4 rounds
    for each in waiting[:k]:
        alike = PointDecision(each.round, each.learner, waiting[0].choice, bandit._key)
        assert bandit.learn(alike, loss)
    run_idle(bandit, 4)
    return rows[1], bandit.guarantee.releases[0]


def run_idle(bandit, rounds):
    for _ in range(rounds):
        bandit.decide()


NOISES = {"blt": SeededNoise, "exact tree": lambda seed: SecureNoise()}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("k", [2, 5])
def test_release__k_losses_of_one_person_in_one_batch_are_paid_for(k, noise):
    """They move one row by k terms: k times what one loss costs, whatever the mechanism."""
    (a, paid), (b, _) = (released_by_one_person(x, k, noise=noise(4)) for x in (-1.0, 2.0))
    (c, one), (d, _) = (released_by_one_person(x, 1, noise=noise(4)) for x in (-1.0, 2.0))
    assert paid.mechanism == one.mechanism == "gaussian"
    assert np.linalg.norm(a - b) == pytest.approx(k * np.linalg.norm(c - d))
    assert paid.sensitivity >= k * one.sensitivity * (1 - 1e-12)
    assert paid.mu == pytest.approx(one.mu)


def test_release__k_rows_that_are_rounded_to_the_lattice_are_paid_for():
    """With little epsilon the lattice is coarse: 1e-9 of a term here."""
    k, n = 7, 9
    sums = make(Cube(n), 10**7, 1e-3, contributions=k, noise=SecureNoise())._feedback.sums
    plan, term = sums._calibration, make(Cube(n), 10**7, 1e-3)._feedback.sums.sensitivity
    assert plan.spacing > 1e-9 * term
    per_unit = plan.design.sensitivity(1)
    assert plan.release.sensitivity >= k * (term + math.sqrt(n + 1) * plan.spacing) * per_unit


def test_release__the_claim_is_n_over_zeta_times_the_range():
    bandit = make(Cube(3), 64, loss_range=(-1.0, 2.0))
    expected = 3 / bandit.radius * 3.0 * math.sqrt(1 + LEVEL**2)
    assert bandit._feedback.sums.sensitivity == pytest.approx(expected)
    assert bandit._feedback.sums.norm == "l2"


def test_release__noise_has_its_scale(assert_distribution):
    """With losses at the middle every term is zero: the first release is noise alone."""
    seen, bandit = [], make(Cube(20), 32)
    for seed in range(150):
        bandit = make(Cube(20), 32, noise=SeededNoise(seed))
        for _ in range(3):
            bandit.learn(bandit.decide(), 0.5)
        seen.append(bandit._feedback.sums.estimate)
    sums = bandit._feedback.sums
    assert sums.rounds == 1
    std = sums.std(1)
    assert_distribution(np.ravel(seen), stats.norm(scale=std).cdf)


def test_release__fewer_than_batches_and_none_after_the_last_batch():
    bandit = make(Cube(2), 100)
    run(bandit, 100)
    sums = bandit._feedback.sums
    assert sums.rounds == sums.horizon == math.ceil(100 / bandit.batch_size) - 1


def test_radius__follows_the_paper_and_a_steeper_loss_has_a_smaller_one():
    domain, T = Ball(4), 10**6
    paper = 2.0 * math.sqrt(4) / T**0.25
    assert make(domain, T, loss_range=(0.0, 2.0)).radius == pytest.approx(paper)
    steep = make(domain, T, loss_range=(0.0, 2.0), lipschitz=4.0)
    assert steep.radius == pytest.approx(paper / 2)


def test_rate__falls_as_noise_grows():
    rates = [make(Ball(4), 10**4, e).bandit.rate for e in (0.01, 0.1, 1.0, math.inf)]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1] / 10


def test_rate__balances_the_bound_by_what_steps_are_beyond_their_noise():
    """Steps of variance 9 and noise of variance 4 in each of 3 directions: 5 of them are chance."""
    steps = Steps(reach=2.0, count=10, step_noise=4.0, sum_noise=6.0)
    assert steps.rate(moment=5 * 3 * 9.0, done=5, dim=3) == pytest.approx(2 / math.sqrt(2 * 56))
    assert steps.rate(moment=1.0, done=5, dim=3) == pytest.approx(2 / math.sqrt(2 * 6))


def test_rate__is_finite_where_no_loss_says_anything():
    bandit = make(TREES, 200, math.inf, 0.0)
    for _ in range(200):
        bandit.learn(bandit.decide(), 0.5)  # the middle of the range: no estimate moves the sum
    assert np.array_equal(bandit.bandit.centre, TREES.interior_point)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_rate__knows_the_noise_in_steps_of_its_sums(delta):
    """The twin's mean square against 20 other draws of the same noise."""
    bandit = make(Ball(3), 4000, 1.0, delta)
    told = bandit.bandit.steps.step_noise
    seen = []
    for seed in range(20):
        sums = make(Ball(3), 4000, 1.0, delta, noise=SeededNoise(seed + 50))._feedback.sums
        totals = np.array([sums.add(np.zeros(4)) for _ in range(sums.horizon)])
        seen.append(np.mean(np.diff(totals, axis=0, prepend=0.0) ** 2))
    assert told == pytest.approx(np.mean(seen), rel=0.35)


# -- what adversaries try -------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 16, 17, 97, 1009])
@every_budget
def test_any_horizon__every_round_has_a_decision_and_past_it_the_centre_stays(horizon, budget):
    bandit = make(Simplex(3), horizon, *budget)
    run(bandit, horizon)
    assert bandit.rounds == horizon
    assert not bandit.learning
    centre, sums = bandit.bandit.centre, bandit._feedback.sums.rounds
    for _ in range(3 * bandit.batch_size):
        assert bandit.learn(bandit.decide(), 0.5) is False
    assert np.array_equal(bandit.bandit.centre, centre)
    assert bandit._feedback.sums.rounds == sums


@pytest.mark.parametrize("loss", [math.nan, math.inf, 1.001, -0.001, "x", None])
def test_a_bad_loss_is_refused_and_changes_nothing(loss):
    bandit = make()
    d = bandit.decide()
    before = str(bandit.state_dict())
    with pytest.raises(ValueError, match="loss must"):
        bandit.learn(d, loss)
    assert str(bandit.state_dict()) == before
    assert bandit.learn(d, 1 + 1e-12)


def test_a_second_loss_and_a_strange_decision_are_refused_and_change_nothing():
    bandit, other = make(), make()
    d, strange = bandit.decide(), other.decide()
    bandit.learn(d, 0.3)
    before = str(bandit.state_dict())
    with pytest.raises(ValueError, match="has had its loss"):
        bandit.learn(d, 0.3)
    with pytest.raises(ValueError, match="this learner made"):
        bandit.learn(strange, 0.3)
    assert str(bandit.state_dict()) == before


def test_late_losses__enter_the_open_batch_with_their_own_direction_and_baseline():
    bandit = make(Cube(2), 400, math.inf)
    waiting = bandit.decide()
    run(bandit, bandit.batch_size)  # the batch of `waiting` has been released
    before = bandit._feedback._open().gradient.copy()
    assert bandit.learn(waiting, 0.9)
    expected = before + (0.9 - 0.5) * waiting.choice.direction
    np.testing.assert_allclose(bandit._feedback._open().gradient, expected)


def test_late_losses__do_not_count_in_the_last_batch():
    bandit = make(Cube(2), 400)
    waiting = [bandit.decide() for _ in range(401 - bandit.batch_size)]
    before = bandit._feedback._open().gradient.copy()
    assert not bandit.learn(waiting[0], 0.9)
    np.testing.assert_array_equal(bandit._feedback._open().gradient, before)


def test_missing_losses__leave_no_trace():
    bandit = make(Cube(2), 400, math.inf)
    for _ in range(400):
        d = bandit.decide()
    np.testing.assert_array_equal(bandit._feedback.sums.estimate, 0.0)
    np.testing.assert_array_equal(bandit.bandit.centre, 0.0)
    assert d.choice.baseline == 0.5


def test_all_losses_in_one_batch__are_within_the_bound_of_the_running_sum():
    bandit = make(Cube(2), 400)
    waiting = [bandit.decide() for _ in range(200)]
    for d in waiting:
        bandit.learn(d, 1.0 if d.choice.direction[0] > 0 else 0.0)
    run(bandit, 100)  # does not raise


@pytest.mark.parametrize(
    "wrong",
    [
        {"horizon": 0},
        {"epsilon": -1.0},
        {"delta": 1.0},
        {"loss_range": (1.0, 0.0)},
        {"loss_range": (0.0, math.inf)},
        {"lipschitz": 0.0},
        {"contributions": 0},
        {"seed": 0.5},
        {"domain": 3},
        {"domain": FlowPolytope([(0, 1)], 0, 1)},
    ],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ProjectionFreeBandit(**{"domain": Ball(2), "horizon": 10, "epsilon": 1.0, **wrong})


# -- promise and state ----------------------------------------------------------------------------


@every_budget
def test_guarantee__is_computed_from_the_running_sums(budget):
    bandit = make(TREES, 400, *budget, contributions=2)
    run(bandit, 400)
    promise, (epsilon, delta) = bandit.guarantee, budget
    assert (promise.trust, promise.neighbours) == ("central", "replace-one")
    assert promise.epsilon_at(delta) == pytest.approx(epsilon, rel=1e-6)
    (release,) = promise.releases
    assert release.mechanism == ("k-norm" if delta == 0 else "gaussian")
    assert "Ene" in promise.reference
    assert promise.unit == "user, at most 2 rounds"
    assert "one person with everything they did in up to 2 rounds" in promise.statement()
    assert any("more than 2 rounds" in line for line in promise.unprotected)


def test_guarantee__says_that_arrivals_are_public():
    promise = make().guarantee
    assert "that a loss came, and when" in promise.unprotected
    assert promise.unit == "round"
    assert "more than" not in promise.statement().split("Not protected")[1]


def test_guarantee__agrees_with_dp_accounting():
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    (release,) = make().guarantee.releases
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(release.scale / release.sensitivity))
    assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, abs=0.01)


def test_guarantee__secure_noise_is_exact():
    bandit = make(Cube(2), 100, noise=SecureNoise())
    run(bandit, 100)
    assert bandit.guarantee.sampler == "exact lattice, OS entropy"


SAVED = {name: domain for name, domain in DOMAINS.items() if name != "base"}


@pytest.mark.parametrize("domain", SAVED.values(), ids=SAVED)
@every_budget
@pytest.mark.parametrize("rounds", [0, 130])
def test_state__a_saved_learner_has_the_same_future(domain, budget, rounds, tmp_path):
    whole, stopped = (make(domain, 400, *budget) for _ in range(2))
    for each in (whole, stopped):
        run(each, rounds)
    assert whole.learn(whole.decide(), 0.25)
    waiting = stopped.decide()
    stopped.save(tmp_path / "bandit")
    again = ProjectionFreeBandit.load(tmp_path / "bandit")
    assert again.learn(waiting, 0.25)
    np.testing.assert_array_equal(run(again, 200), run(whole, 200))
    assert again.guarantee == whole.guarantee
    assert again.oracle_calls == whole.oracle_calls


def test_state__a_domain_made_from_a_function_goes_on_by_load_state_dict(tmp_path):
    whole, stopped, again = (make(DOMAINS["base"]) for _ in range(3))
    for each in (whole, stopped):
        run(each, 130)
    again.load_state_dict(stopped.state_dict())
    np.testing.assert_array_equal(run(again, 200), run(whole, 200))
    again.save(tmp_path / "bandit")
    with pytest.raises(ValueError, match="load_state_dict"):
        ProjectionFreeBandit.load(tmp_path / "bandit")


def test_state__one_round_takes_no_loss_after_loading():
    whole, stopped, again = (make(Cube(2), 1) for _ in range(3))
    again.load_state_dict(stopped.state_dict())
    assert not again.learn(again.decide(), 0.3)
    assert not whole.learn(whole.decide(), 0.3)


def test_state__a_damaged_or_older_one_changes_nothing():
    bandit = make()
    run(bandit, 20)
    old = bandit.state_dict()
    run(bandit, 100)
    before = str(bandit.state_dict())
    damaged = bandit.state_dict()
    damaged["state"]["bandit"]["of"]["_smooth"] = np.zeros(7)
    for state in (old, damaged):
        with pytest.raises(ValueError, match="state"):
            bandit.load_state_dict(state)
        assert str(bandit.state_dict()) == before


DAMAGE = {
    ("rounds",): [-5, "x", None],
    ("_rewarded",): [7, {}, None],
    ("bandit", "of", "centre"): [np.full(2, math.nan), np.zeros(3), None],
    ("bandit", "of", "_smooth"): [np.full(2, math.inf), np.zeros(7), None],
    ("bandit", "of", "baseline"): [math.nan, "x", None],
    ("bandit", "of", "oracle_calls"): [None, -1, 0.5],
    ("bandit", "of", "_rng"): ["{}", 3, None],
    ("bandit", "of", "batch"): [None, -7, 2.5],
    ("_feedback", "of", "sums"): [{}, None, 4],
    ("_feedback", "of", "_terms"): [None, 4],
    ("_feedback", "of", "_terms", "of", "gradient"): [np.zeros(7), np.full(2, math.nan)],
    ("_feedback", "of", "_terms", "of", "level"): [math.nan, "x"],
}


@pytest.mark.parametrize("path", DAMAGE, ids=".".join)
def test_state__a_damaged_piece_is_refused_and_changes_nothing(path):
    whole, bandit = make(Cube(2)), make(Cube(2))
    for each in (whole, bandit):
        run(each, 30)
    for value in DAMAGE[path]:
        again = make(Cube(2))
        before, state = str(again.state_dict()), bandit.state_dict()
        place = state["state"]
        for name in path[:-1]:
            place = place[name]
        assert path[-1] in place
        place[path[-1]] = value
        with pytest.raises(ValueError, match="damaged"):
            again.load_state_dict(state)
        assert str(again.state_dict()) == before
    again.load_state_dict(bandit.state_dict())  # undamaged
    np.testing.assert_array_equal(run(again, 50), run(whole, 50))


def test_record__comes_back_bit_by_bit():
    bandit = make(TREES)
    for d in (bandit.decide() for _ in range(60)):
        again = bandit.decision(d.to_dict()).choice
        assert again.baseline == d.choice.baseline
        for name in ("point", "direction"):
            one, other = getattr(again, name), getattr(d.choice, name)
            assert np.array_equal(one, other)
            assert not one.flags.writeable
            assert not other.flags.writeable


def test_record__a_forged_one_is_refused():
    bandit = make(Cube(2))
    record = bandit.decide().to_dict()

    def forged(stretch, baseline):
        direction = [stretch * u for u in record["direction"]]
        return {**record, "direction": direction, "baseline": baseline}

    for stretch, baseline in ((2.0, 0.5), (0.0, 0.5), (1 + 1e-12, 0.5), (-1.0, 0.5), (1.0, -1e9)):
        with pytest.raises(ValueError, match="record"):
            bandit.decision(forged(stretch, baseline))


# -- projection by linear minimisation ------------------------------------------------------------


@pytest.mark.parametrize("domain", [Ball(3), TraceNormBall(2, 3)], ids=str)
def test_nearest_point__its_gap_holds_for_far_targets_too(domain):
    """Where rounding is all that is left: objectives are compared with those of long runs."""
    rng = np.random.default_rng(0)
    for size in np.geomspace(1e-6, 1e9, 40):
        target = size * rng.normal(size=domain.dim)
        start = domain.linear_minimizer(rng.normal(size=domain.dim))
        found = nearest_point(domain, target, start, gap=1e-12, max_calls=40)
        best = domain.project(target)
        excess = (found.point - best) @ (found.point + best - 2 * target) / 2
        assert excess <= found.gap
        assert found.gap <= 1e-6 * max(1.0, size)


# -- learning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["absolute", "linear"])
@pytest.mark.parametrize("name", ["simplex", "trees", "paths", "base"])
def test_it_learns(name, kind):
    """Regret below 60% of what staying in the middle costs, mean of 3 seeds."""
    domain, horizon, regret, idle = DOMAINS[name], 20_000, 0.0, 0.0
    for seed in range(3):
        world = convex_losses(kind, domain, horizon, seed=seed)
        loss_range = world.loss_range(domain.diameter() / 4)
        noise = SeededNoise(seed)
        bandit = make(domain, horizon, 1.0, 1e-6, loss_range=loss_range, seed=seed, noise=noise)
        points = np.empty((horizon, domain.dim))
        for t in range(horizon):
            d = bandit.decide()
            points[t] = d.point
            bandit.learn(d, world.loss(t, d.point))
        regret += world.regret(points)
        idle += world.regret(domain.interior_point)
        assert bandit.oracle_calls <= 0.1 * horizon
    assert regret < 0.6 * idle
