"""Attacks on what SparseBandit releases: below the claim, and catching bugs.

One person's row is replaced; the attacker sees every theta of every arm and knows all other rows.
A claim is refuted, or a bug caught, at 99.99% confidence each. The bugs: half the noise,
argmin(score + Gumbel), residuals that are not clipped, arms that release only if they were chosen.

zCDP turned into (epsilon, delta) is loose for one release, so selections and measurements are
also held to their own price: epsilon of bounded range, and mu.
"""

import math

import numpy as np
import pytest

from discreet.audit import audit_scores
from discreet.audit.copied import copied
from discreet.bandits.sparse import SparseBandit
from discreet.bandits.sparse_windows import SELECTING, WindowArms
from discreet.links import link
from discreet.privacy import Budget, SeededNoise
from discreet.privacy.gaussian import gaussian_epsilon

EPSILON, DELTA, SURE = 4.0, 1e-6, 0.9999
RHO = Budget(EPSILON, DELTA).rho
SELECTION = math.sqrt(8 * RHO * SELECTING)  # one choice in a window
MU = math.sqrt(2 * RHO * (1 - SELECTING))
MEASUREMENT = gaussian_epsilon(MU, DELTA)
CLIP = 0.2
FORCED = {1: 40, 8: 5}  # long windows for one entry, short ones for eight: one choice in each


def made(dim, noise_fraction=1.0):
    arms = WindowArms(
        2,
        dim,
        400,
        Budget(EPSILON, DELTA),
        forced=FORCED[dim],
        link=link("identity"),
        bound=CLIP,
        radius=1.0,
        noise=SeededNoise(0),
    )
    arms._rho /= noise_fraction**2  # the noise, by what the ledger would refuse
    if noise_fraction != 1:
        arms._ledger._limit = math.inf
    assert arms.entries(0) == 1 or noise_fraction != 1
    arms.entries = lambda window: 1
    return arms


def windows(unused, row, runs, noise, tamper=None, base=0.0):
    """Windows that are full and not yet released, with one row of this person each."""
    for _ in range(runs):
        arms = copied(unused)
        arms._noise = noise
        arms._moment[:] += base
        if tamper:
            tamper(arms)
        arms.take(*row)
        arms.bound = CLIP
        yield arms


def thetas(*arguments, **options):
    """The released parameters of such windows."""
    for arms in windows(*arguments, **options):
        arms.advance(arms.ends[0])
        yield arms.theta


def selections(noise_fraction=1.0, tamper=None, arms=(0, 0), runs=2500):
    """Whether entry 0 of arm 0 was changed; the rows push it up and the others down, or back."""
    unused, noise, x = made(8, noise_fraction), SeededNoise(2), -np.ones(8)
    x[0] = 1.0
    sides = []
    for arm, y in zip(arms, (-1.0, 1.0), strict=True):
        seen = thetas(unused, (arm, x, y), runs, noise, tamper, base=5.0)
        sides.append(np.array([float(theta[0, 0] != 0) for theta in seen]))
    return sides


def measurements(noise_fraction=1.0, tamper=None, arms=(0, 0), runs=2500):
    """The measured slopes of one entry and along the last step, of the arms in question."""
    unused, noise, sides = made(1, noise_fraction), SeededNoise(3), []
    unused._step[:] = 1.0
    use, first = sorted(set(arms)), np.zeros((2, 1), dtype=int)
    for arm, y in zip(arms, (-1.0, 1.0), strict=True):
        side = []
        for each in windows(unused, (arm, np.ones(1), y), runs, noise, tamper):
            measured = each._measure(first).value  # slope, curvature, slope along the last step
            side.append(measured[use, 0].sum() + measured[use, 2].sum())
        sides.append(np.array(side))
    return sides


def proved(sides, delta=0.0, method="clopper-pearson", confidence=SURE):
    return audit_scores(*sides, delta=delta, method=method, confidence=confidence).lower_bound


def test_selection__stays_below_its_price_and_half_the_noise_is_caught():
    seen = selections()
    assert proved(seen) <= SELECTION
    assert proved(seen, confidence=0.95) >= 0.5 * SELECTION
    assert proved(selections(noise_fraction=0.5)) > SELECTION


def test_measurement__stays_below_its_price_and_half_the_noise_is_caught():
    seen = measurements()
    assert proved(seen, DELTA, "gdp") <= MEASUREMENT
    assert proved(seen, DELTA, "gdp", 0.95) >= 0.5 * MEASUREMENT
    assert proved(measurements(noise_fraction=0.5), DELTA, "gdp") > MEASUREMENT


@pytest.mark.parametrize("arms", [(0, 1), (1, 0)])
def test_leaving_one_arm_for_another__costs_less_than_a_replacement_within_one(arms):
    assert proved(selections(arms=arms)) <= SELECTION
    # Two moves of half the size, seen through the sum of both arms: mu/sqrt(2).
    half = gaussian_epsilon(MU / math.sqrt(2), DELTA)
    assert proved(measurements(arms=arms), DELTA, "gdp") <= half * 1.01


def test_audit__catches_the_wrong_sign_of_gumbel_noise():
    rng = np.random.default_rng(0)

    def wrong_sign(arms):  # argmin(-score + Gumbel)
        def peel(scores, k, scale):
            return np.array([np.argmin(-scores + rng.gumbel(0, scale, len(scores)))])

        arms._peel = peel

    assert proved(selections(tamper=wrong_sign, runs=4000)) > SELECTION


def test_audit__catches_residuals_that_are_not_clipped():
    def unclipped(arms):
        arms.bound = math.inf  # until the row is in; then the noise is that of the true clip

    assert proved(selections(tamper=unclipped)) > EPSILON
    assert proved(measurements(tamper=unclipped), DELTA, "gdp") > EPSILON


def whole_runs(method, runs):
    """All thetas of a run. The person of the first greedy round chooses arm 0, or arm 1."""
    K, t0, T = 2, 4, 40
    unused = SparseBandit(K, 1, T, EPSILON, DELTA, forced=t0, method=method, seed=0)
    noise, sides = SeededNoise(5), []
    for x in (1.0, -1.0):
        side = []
        for _ in range(runs):
            bandit = copied(unused)
            arms = bandit._arms
            each = [arm.direction for arm in arms._each] if method == "every-round" else [arms]
            for drawing in each:
                drawing._noise = noise
            score = 0.0
            for t in range(T):
                mine = t == K * t0
                if mine:  # as if released before: arm 0 is better for x > 0, arm 1 for x < 0
                    bandit._advance()
                    known = [arm.theta for arm in arms._each] if len(each) > 1 else arms.theta
                    known[0][:] = 0.5
                    known[1][:] = -0.5
                d = bandit.decide([x if mine else 0.0])
                assert not mine or d.action == (0 if x > 0 else 1)
                bandit.learn(d, 1.0 if mine else 0.0)
                score += bandit.theta.sum() if t > K * t0 else 0.0
            side.append(score)
        sides.append(np.array(side))
    return sides


@pytest.mark.parametrize("method", ["windows", "every-round"])
def test_audit__whole_runs_stay_below_the_claim(method):
    sides = whole_runs(method, runs=300)
    assert np.std(sides[0]) > 0
    assert proved(sides, DELTA) <= EPSILON


def test_audit__catches_releases_that_depend_on_the_arm_that_was_chosen():
    def only_if_chosen(arms):
        release = arms._release

        def hidden(k):
            used, before = arms._curvature.any(axis=1), arms.theta.copy()
            release(k)
            arms.theta[~used] = before[~used]  # "an arm without new rows has nothing to release"

        arms._release = hidden

    noise, sides = SeededNoise(6), []
    for arm in (0, 1):
        seen = thetas(made(1), (arm, np.ones(1), 0.1), 1500, noise, only_if_chosen)
        sides.append(np.array([float(theta[0, 0] != 0) for theta in seen]))
    assert proved(sides, DELTA) > EPSILON
    honest = []
    for arm in (0, 1):
        seen = thetas(made(1), (arm, np.ones(1), 0.1), 500, noise)
        honest.append(np.array([float(theta[0, 0] != 0) for theta in seen]))
    assert proved(honest, DELTA) == 0
