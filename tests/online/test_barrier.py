"""BarrierBandit: SCRiBLe on ball, cube, simplex and polytope, inside the private reduction."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from discreet.domains import Ball, Cube, Polytope, Simplex
from discreet.online.barrier import BarrierBandit, Scrible
from discreet.online.reduction import PrivateReduction
from discreet.privacy import SecureNoise, SeededNoise

TRIANGLE = Polytope([[-1, 0], [0, -1], [1, 1]], [0, 0, 1])
DOMAINS = [Ball(3), Cube(3), Simplex(4), TRIANGLE, Ball(1), Cube(1)]
NAMES = ["ball", "cube", "simplex", "triangle", "ball1", "cube1"]
every_domain = pytest.mark.parametrize("domain", DOMAINS, ids=NAMES)
TRUSTS = ("local", "central")


def make(domain, trust="local", epsilon=1.0, horizon=3000, **about):
    about = {"seed": 3, "noise": SeededNoise(4), **about}
    return BarrierBandit(domain, horizon, epsilon, trust=trust, **about)


def loss_of(point):
    return 0.5 * float(point[0])


def run(bandit, rounds):
    points = []
    for _ in range(rounds):
        d = bandit.decide()
        bandit.learn(d, loss_of(d.point))
        points.append(d.point)
    return np.array(points)


def moved(domain, size=30.0, rate=0.3):
    """SCRiBLe after estimates that add up to a vector away from the middle."""
    plain = Scrible(domain, rate=rate, seed=0)
    plain._total = size * np.random.default_rng(1).normal(size=plain.dim)
    return plain


# -- the plain algorithm --------------------------------------------------------------------------


@every_domain
def test_scrible__the_centre_minimises_rate_times_total_plus_barrier(domain):
    plain = moved(domain, 30.0)
    centre = plain.decide().centre
    pull, barrier = plain.rate * plain._total, domain.barrier

    def objective(z):
        return float(pull @ z) + barrier.value(z)

    start = plain.hull.coordinates(domain.interior_point)
    best = minimize(objective, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    # Half a squared Newton decrement, 0.05^2/2, is what stopping early may cost.
    assert objective(centre) <= best.fun + 0.002
    assert objective(start) > best.fun + 0.05, "the test has a minimum to find"


@every_domain
def test_scrible__plays_inside_and_up_to_the_border(domain):
    for size in (0.0, 1.0, 1e3, 1e12):
        plain = moved(domain, size)
        for _ in range(20):
            choice = plain.decide()
            assert domain.contains(choice.point)
            other = plain.hull.point(choice.centre - choice.sign * choice.step)
            assert domain.contains(other)
            farther = [choice.centre + s * 1.01 * choice.step for s in (1, -1)]
            if size < 1e6:  # beyond it, 1% of the step is less than what `contains` forgives
                assert not all(domain.contains(plain.hull.point(z)) for z in farther)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_scrible__a_total_along_the_first_axis_has_a_basis_across_it(side):
    """The reflection must not be taken about a zero vector."""
    plain = Scrible(Ball(3), rate=1.0, seed=0)
    plain._total = np.array([5.0 * side, 0.0, 0.0])
    steps = np.array([plain.decide().step for _ in range(50)])
    units = np.abs(steps) / np.linalg.norm(steps, axis=1, keepdims=True)
    np.testing.assert_allclose(np.unique(units.round(12), axis=0), np.eye(3)[::-1])


@every_domain
def test_scrible__the_estimate_is_unbiased(domain):
    """Exactly: loss * sign * weights averages to the loss vector over signs and eigenvectors."""
    plain = moved(domain, 3.0)
    gradient = np.random.default_rng(2).normal(size=domain.dim)
    seen, estimates = set(), []
    for _ in range(400):
        choice = plain.decide()
        key = (*np.round(choice.step, 9), choice.sign)
        if key in seen:
            continue
        seen.add(key)
        estimates.append(float(gradient @ choice.point) * choice.sign * choice.weights)
    cube = isinstance(domain, Cube)
    assert len(seen) == (2 ** (domain.dim + 1) if cube else 2 * plain.dim)
    inside = gradient @ plain.hull.basis
    np.testing.assert_allclose(np.mean(estimates, axis=0), inside, atol=1e-8)


@every_domain
def test_scrible__the_estimate_is_no_longer_than_dikins(domain):
    """E |l~|^2 for losses of 1, dual local norm: at most d^2; cube d, ball d (d + 1)/2."""
    for size in (0.0, 1.0, 100.0):
        plain = moved(domain, size)
        centre = plain.decide().centre
        inverse = np.linalg.inv(domain.barrier.hessian(centre))
        squares = [w @ inverse @ w for w in (plain.decide().weights for _ in range(300))]
        d = plain.dim
        limit = {Cube: d, Ball: d * (d + 1) / 2}.get(type(domain), d * d)
        assert np.mean(squares) <= limit * 1.15  # 300 draws of d values below d^2
        assert max(squares) <= d * d * (1 + 1e-6)


@every_domain
@pytest.mark.parametrize("trust", TRUSTS)
def test_without_privacy__it_is_scrible_step_by_step(domain, trust):
    bandit = make(domain, trust, math.inf)
    plain = Scrible(domain, rate=bandit.bandit.rate, seed=3)
    for _ in range(100):
        d, choice = bandit.decide(), plain.decide()
        np.testing.assert_array_equal(d.point, choice.point)
        bandit.learn(d, loss_of(d.point))
        plain.learn(choice, loss_of(choice.point))
    assert not bandit.guarantee.private


def test_local__it_is_the_reduction_around_scrible():
    bandit = make(Ball(3))
    inner = Scrible(Ball(3), rate=bandit.bandit.rate, seed=3)
    reduction = PrivateReduction(inner, 1.0, loss_range=(-1.0, 1.0), noise=SeededNoise(4))
    for _ in range(100):
        d, other = bandit.decide(), reduction.decide()
        np.testing.assert_array_equal(d.point, other.choice.point)
        bandit.learn(d, loss_of(d.point))
        reduction.learn(other, loss_of(d.point))


# -- batches --------------------------------------------------------------------------------------


def test_central__a_batch_holds_centre_and_step_and_releases_one_noisy_mean():
    bandit = make(Cube(2), "central", 4.0)
    assert bandit.batch_size == 8
    noise, expected = SeededNoise(4).spawn(1)[0], np.zeros(2)
    for _ in range(20):
        decisions = [bandit.decide() for _ in range(8)]
        np.testing.assert_allclose(bandit.bandit._total, expected, atol=1e-12)
        total = float(noise.laplace(2.0 / 4.0, 1)[0])  # sensitivity 2, epsilon 4
        for d in decisions:
            assert d.choice.centre is decisions[0].choice.centre
            assert d.choice.step is decisions[0].choice.step
            bandit.learn(d, loss_of(d.point))
            total += d.choice.sign * loss_of(d.point)
        expected = bandit.bandit._total + total / 8 * decisions[0].choice.weights


@pytest.mark.parametrize("bound", [1.0, 3.0])
@pytest.mark.parametrize("k", [1, 2])
def test_central__a_replaced_loss_moves_the_release_by_at_most_its_sensitivity(bound, k):
    sums = []
    for side in (1, -1):
        bandit = make(Ball(2), "central", 1.0, loss_bound=bound, contributions=k)
        decisions = [bandit.decide() for _ in range(bandit.batch_size)]
        for i, d in enumerate(decisions):
            bandit.learn(d, side * d.choice.sign * bound if i < k else 0.0)
        sums.append(bandit._feedback._batch(0).total)
    (release,) = bandit.guarantee.releases
    assert sums[0] - sums[1] == pytest.approx(release.sensitivity)
    assert release.sensitivity == pytest.approx(2 * k * bound)
    assert release.scale == pytest.approx(2 * k * bound / 1.0)


# -- what adversaries try -------------------------------------------------------------------------


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("loss", [math.nan, -math.inf, 1.001, -1.001, "x", None])
def test_a_bad_loss_is_refused_and_changes_nothing(trust, loss):
    bandit = make(Ball(3), trust)
    d = bandit.decide()
    before = str(bandit.state_dict())
    with pytest.raises(ValueError, match="loss must"):
        bandit.learn(d, loss)
    assert str(bandit.state_dict()) == before
    bandit.learn(d, 1 + 1e-12)  # rounding of <l, x> at the border


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_second_loss_is_refused_and_past_the_horizon_the_centre_stays(trust):
    bandit = make(Cube(2), trust, horizon=5)
    decisions = [bandit.decide() for _ in range(5)]
    assert bandit.learn(decisions[4], 0.1)
    centre = bandit.decide().choice.centre
    assert bandit.learn(decisions[0], 0.1) is False
    assert np.array_equal(bandit.decide().choice.centre, centre)
    before = str(bandit.state_dict())
    with pytest.raises(ValueError, match="has had its loss"):
        bandit.learn(decisions[4], 0.1)
    assert str(bandit.state_dict()) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"horizon": 0},
        {"epsilon": -1.0},
        {"trust": "joint"},
        {"loss_bound": 0.0},
        {"contributions": 0},
        {"seed": 0.5},
        {"domain": 3},
    ],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BarrierBandit(**{"domain": Ball(2), "horizon": 10, "epsilon": 1.0, **wrong})


# -- promise and state ----------------------------------------------------------------------------


@pytest.mark.parametrize("trust", TRUSTS)
def test_guarantee__is_computed_from_the_release(trust):
    bandit = make(Ball(3), trust, 0.5, contributions=2)
    run(bandit, 200)
    promise = bandit.guarantee
    assert (promise.trust, promise.epsilon, promise.delta) == (trust, 0.5, 0.0)
    assert promise.epsilon_at(0.0) == pytest.approx(0.5)


def test_guarantee__secure_noise_is_exact_in_the_centre():
    bandit = make(Ball(2), "central", noise=SecureNoise())
    run(bandit, 40)
    assert bandit.guarantee.sampler == "exact lattice, OS entropy"


@every_domain
@pytest.mark.parametrize("trust", TRUSTS)
def test_state__a_saved_learner_has_the_same_future(domain, trust, tmp_path):
    whole, stopped = make(domain, trust), make(domain, trust)
    for each in (whole, stopped):
        run(each, 100)
    whole.learn(whole.decide(), 0.25)
    waiting = stopped.decide()
    stopped.save(tmp_path / "bandit")
    again = BarrierBandit.load(tmp_path / "bandit")
    again.learn(waiting, 0.25)
    np.testing.assert_array_equal(run(again, 200), run(whole, 200))
    assert again.guarantee == whole.guarantee


def test_state__a_damaged_one_changes_nothing():
    bandit = make(Ball(3), "central")
    run(bandit, 50)
    before = str(bandit.state_dict())
    state = bandit.state_dict()
    state["state"]["bandit"]["of"]["_total"] = np.zeros(7)
    with pytest.raises(ValueError, match="state"):
        bandit.load_state_dict(state)
    assert str(bandit.state_dict()) == before


# -- learning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("domain", DOMAINS[:4], ids=NAMES[:4])
def test_it_learns_a_fixed_loss_vector(domain, trust):
    """Regret below 60% of what standing in the middle costs, mean of 3 seeds."""
    horizon, loss = 8000, np.zeros(domain.dim)
    loss[0] = 1.0
    best = float(loss @ domain.linear_minimizer(loss))
    still = float(loss @ domain.interior_point) - best
    regret = 0.0
    for seed in range(3):
        bandit = make(domain, trust, 2.0, horizon, seed=seed, noise=SeededNoise(seed))
        for _ in range(horizon):
            d = bandit.decide()
            value = float(loss @ d.point)
            regret += (value - best) / 3
            bandit.learn(d, value)
    assert regret < 0.6 * still * horizon


@pytest.mark.parametrize("domain", [Simplex(4), Simplex(2)], ids=["simplex 4", "simplex 2"])
def test_border__losses_that_drive_it_into_a_corner_do_not_stop_it(domain):
    """A loss that is no linear function makes totals grow without end."""
    for seed in range(3):
        bandit = BarrierBandit(domain, 1500, 1.0, seed=seed, noise=SeededNoise(seed))
        for _ in range(1500):
            decision = bandit.decide()
            assert domain.contains(decision.point)
            bandit.learn(decision, 1.0 if decision.point[0] > 0 else -1.0)
