"""Exact BLT: what is published is C x + z in integers; the rest is post-processing."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from discreet.audit.bounds import audit_scores
from discreet.privacy import Budget, PrefixSum, SecureNoise, SeededNoise
from discreet.privacy.noise import to_lattice
from discreet.privacy.toeplitz import Buffered, LatticeSum, noise_matrix, rounding

BUDGET = Budget(1.0, 1e-6)


class LatticeNoise(SeededNoise):
    """Reproducible lattice noise: numpy's normals, rounded; normal up to (spacing/std)^2."""

    exact = SecureNoise.exact
    spacing = SecureNoise.spacing
    factor = 1.0

    def spawn(self, count):
        children = super().spawn(count)
        for child in children:
            child.__class__ = type(self)
        return children

    def gaussian(self, std, size, spacing=0.0):
        return to_lattice(self.factor * std * self.normal(size), spacing)


class Silent(LatticeNoise):
    factor = 0.0


def exact_coefficients(design, rounds):
    """c_0, c_1, ... as fractions, from the dyadic weights and gaps."""
    weights = [Fraction(w) for w in design.w]
    poles = [1 - Fraction(gap) for gap in design.q_gap]
    later = [sum(w * q**k for w, q in zip(weights, poles, strict=True)) for k in range(rounds - 1)]
    return [Fraction(1), *later]


def moved(design, rows):
    """U for rows of integers, one coordinate: the integer part of LatticeSum, without noise."""
    sums = LatticeSum(design, 1, 1.0, 1.0, SeededNoise(0))
    buffers, out = sums._buffers, []
    for x in rows:
        buffers, u = sums._step(buffers, np.array([int(x)], dtype=object))
        out.append(u[0])
    return out


@pytest.mark.parametrize("horizon", [1, 7, 80, 2**20, 2**30])
def test_dyadic__coefficients_have_24_bits_and_the_same_noise(horizon):
    fitted = Buffered.fitted(horizon)
    dyadic = fitted.dyadic()
    for values in (dyadic.w, dyadic.q_gap):
        for value in values:
            numerator, _ = float(value).as_integer_ratio()
            assert numerator.bit_length() <= 24
    at = np.array(horizon)
    ratio = dyadic.sensitivity(1) * dyadic.std(at) / (fitted.sensitivity(1) * fitted.std(at))
    assert ratio == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("k", [1, 3])
def test_reach__is_the_exact_norm_of_the_dyadic_columns(k):
    horizon = 60
    design = Buffered.fitted(horizon).dyadic()
    c = exact_coefficients(design, horizon)
    assert all(a >= b >= 0 for a, b in itertools.pairwise(c))
    column = [sum(c[max(0, t - k + 1) : t + 1]) for t in range(horizon)]
    length = math.sqrt(sum(each**2 for each in column))
    assert design.sensitivity(k) == pytest.approx(length, rel=1e-13)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([30, 2**20, 2**30]),
    st.sampled_from([1, 1000, 2**36]),
    st.integers(1, 3),
)
def test_rounding__moves_a_published_number_by_less_than_it_says(seed, horizon, size, people):
    """U - U' is C (X - X') up to 1 + 2^-8, whatever the rows; exact in fractions."""
    rounds = 30
    design = Buffered.fitted(horizon).dyadic()
    rng = np.random.default_rng(seed)
    first = [int(v) for v in rng.integers(-size, size + 1, rounds)]
    second = list(first)
    for t in rng.choice(rounds, people, replace=False):
        second[t] = int(rng.integers(-size, size + 1))
    c = exact_coefficients(design, rounds)
    change = [a - b for a, b in zip(first, second, strict=True)]
    ideal = [sum(c[t - i] * change[i] for i in range(t + 1)) for t in range(rounds)]
    off = [
        abs(a - b - each)
        for a, b, each in zip(moved(design, first), moved(design, second), ideal, strict=True)
    ]
    assert max(off) <= 1 + Fraction(1, 256)
    assert math.sqrt(sum(each**2 for each in off)) <= rounding(rounds, 1)


def test_rounding__lost_parts_stay_below_their_guard_over_a_long_stream():
    """Without noise U is C x, up to half a unit and the guard, after many rounds of ones."""
    rounds = 4000
    design = Buffered.fitted(rounds).dyadic()
    out = moved(design, [1] * rounds)
    q = 1 - design.q_gap
    sums = np.array([1 + design.w @ ((1 - q**t) / design.q_gap) for t in range(rounds)])
    assert np.abs(np.array(out, dtype=float) - sums).max() <= 0.5 + 2**-8 + 1e-9


def test_sums__without_noise_are_the_running_sums():
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (3000, 2))
    sums = PrefixSum(3000, 2, BUDGET, sensitivity=2.0, mechanism="blt", noise=Silent(0))
    assert isinstance(sums._sum, LatticeSum)
    out = np.concatenate([sums.add_many(X[:2000]), [sums.add(x) for x in X[2000:]]])
    assert np.abs(out - np.cumsum(X, axis=0)).max() < 1e-7


@pytest.mark.parametrize("contributions", [1, 3])
def test_sums__equal_float_blt_given_the_same_noise(contributions):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 2))
    budget = Budget(1.0, 1e-6, contributions)
    made = [
        PrefixSum(500, 2, budget, sensitivity=2.0, mechanism="blt", noise=noise)
        for noise in (LatticeNoise(4), SeededNoise(4))
    ]
    exact, floats = (sums.add_many(X) for sums in made)
    assert np.abs(exact - floats).max() < 1e-4
    t = np.arange(1, 501)
    assert np.allclose(made[0].std(t), made[1].std(t), rtol=1e-6)
    assert (made[0].std(t) >= made[1].std(t) * (1 - 1e-6)).all()


def test_sums__what_is_published_lies_on_the_lattice_and_has_the_distribution(assert_distribution):
    """C of the sums gives back C x + z: integers, and N(0, s^2) where x is zero."""
    T, dim = 12, 400
    sums = PrefixSum(T, dim, BUDGET, sensitivity=2.0, mechanism="blt", noise=SecureNoise())
    assert sums.guarantee.sampler == "exact lattice, OS entropy"
    out = sums.add_many(np.zeros((T, dim)))
    calibration = sums._calibration
    z = np.linalg.solve(noise_matrix(calibration.design, T), out)
    units = z / calibration.spacing
    assert np.abs(units - np.rint(units)).max() < 0.01
    assert_distribution(z.ravel(), stats.norm(scale=calibration.release.scale).cdf)


def test_sums__the_sensitivity_covers_rounding_of_rows_and_of_what_is_published():
    T, dim = 1000, 7
    (release,) = PrefixSum(
        T, dim, BUDGET, sensitivity=2.0, mechanism="blt", noise=SecureNoise()
    ).guarantee.releases
    design = Buffered.fitted(T).dyadic()
    spacing = SecureNoise().spacing("gaussian", 2.0 * design.sensitivity(1) / BUDGET.mu)
    rows = (2.0 + spacing * math.sqrt(dim)) * design.sensitivity(1)
    assert release.sensitivity == pytest.approx(
        rows + spacing * (1 + 1 / 256) * math.sqrt(T * dim), rel=1e-15
    )
    assert release.mu == pytest.approx(BUDGET.mu)
    # A person of k rounds in up to k streams: each stream rounds what it publishes.
    (twice,) = PrefixSum(
        4, dim, Budget(1.0, 1e-6, 10), sensitivity=2.0, mechanism="blt", noise=SecureNoise()
    ).guarantee.releases
    small = Buffered.fitted(4).dyadic()
    spacing = SecureNoise().spacing("gaussian", 2.0 * small.sensitivity(10) / BUDGET.mu)
    rows = (2.0 + spacing * math.sqrt(dim)) * small.sensitivity(10)
    published = spacing * (1 + 1 / 256) * math.sqrt(4 * dim)
    assert twice.sensitivity == pytest.approx(rows + math.sqrt(10) * published, rel=1e-15)


@pytest.mark.parametrize("bound", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e6])
def test_sums__any_size_of_rows_and_noise_is_exact(bound, epsilon):
    """No range to leave: integers grow, where floats would have to be refused."""
    sums = PrefixSum(
        2**20, 1, Budget(epsilon, 1e-6), sensitivity=2 * bound, mechanism="blt", noise=Silent(0)
    )
    X = np.random.default_rng(1).uniform(-bound, bound, (300, 1))
    assert np.allclose(sums.add_many(X), np.cumsum(X, axis=0), rtol=0, atol=300 * sums.std(1))
    spacing = sums._calibration.spacing
    rounded = np.cumsum(to_lattice(X, spacing), axis=0)
    assert np.abs(sums.estimate - rounded[-1]).max() <= 2e-6 * sums.std(1) + 1e-9 * bound


@pytest.mark.parametrize("stop", [0, 1, 29])
def test_sums__resume_to_the_same_future(stop, tmp_path):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (60, 2))

    def make():
        return PrefixSum(60, 2, BUDGET, sensitivity=2.0, mechanism="blt", noise=LatticeNoise(8))

    sums, whole = make(), make()
    sums.add_many(X[:stop])
    expected = whole.add_many(X)[stop:]
    resumed = make()
    resumed.load_state_dict(sums.state_dict())
    assert np.allclose([resumed.add(x) for x in X[stop:]], expected)


def test_sums__secure_noise_resumes_from_a_file(tmp_path):
    sums = PrefixSum(60, 2, BUDGET, sensitivity=2.0, noise=SecureNoise())
    assert sums.mechanism == "blt"
    sums.add([0.1, 0.2])
    sums.save(tmp_path / "sums")
    state = sums.state_dict()
    resumed = PrefixSum.load(tmp_path / "sums")
    assert str(resumed.state_dict()) == str(state)
    resumed.add([0.1, 0.2])


@pytest.mark.parametrize(
    "harm",
    [
        lambda s: s.update(rounds=99),
        lambda s: s.update(_buffers={"@": "integers", "of": [[0, 0]]}),
        lambda s: s.update(_buffers={"@": "integers", "of": [[0.5, 0]] * 5}),
        lambda s: s.update(_buffers=np.zeros((5, 2))),
        lambda s: s.update(_memory=np.zeros((5, 2))),
    ],
)
def test_sums__a_damaged_state_is_refused(harm):
    sums = PrefixSum(60, 2, BUDGET, sensitivity=2.0, noise=LatticeNoise(0))
    sums.add([0.1, 0.2])
    state = sums.state_dict()
    harm(state["state"]["_sum"]["of"])
    fresh = PrefixSum(60, 2, BUDGET, sensitivity=2.0, noise=LatticeNoise(0))
    with pytest.raises(ValueError, match="damaged"):
        fresh.load_state_dict(state)
    assert fresh.rounds == 0


def test_sums__a_state_of_float_sums_is_refused():
    floats = PrefixSum(60, 2, BUDGET, sensitivity=2.0, mechanism="blt", noise=SeededNoise(0))
    floats.add([0.1, 0.2])
    exact = PrefixSum(60, 2, BUDGET, sensitivity=2.0, mechanism="blt", noise=LatticeNoise(0))
    state = exact.state_dict()
    state["state"]["_sum"] = floats.state_dict()["state"]["_sum"]
    with pytest.raises(ValueError, match="damaged"):
        exact.load_state_dict(state)


def attack_scores(canary, *, factor=1.0, contributions=1):
    """The best attack on the whole sequence of 24 sums: rows of +1/2 against -1/2."""
    T, runs = 24, 4000
    noise_class = type("Scaled", (LatticeNoise,), {"factor": factor})
    move = np.zeros(T)
    move[list(canary)] = 1.0
    scores = []
    for sign, seed in ((-0.5, 10), (0.5, 11)):
        sums = PrefixSum(
            T,
            runs,
            Budget(1.0, 1e-6, contributions),
            sensitivity=1.0,
            bound=runs,
            mechanism="blt",
            noise=noise_class(seed),
        )
        assert isinstance(sums._sum, LatticeSum)
        out = sums.add_many(np.tile(sign * move[:, None], (1, runs)))
        B = noise_matrix(sums._calibration.design, T)
        scores.append(np.cumsum(move) @ np.linalg.solve(B @ B.T, out))
    return scores


def proved(scores, confidence):
    report = audit_scores(*scores, delta=1e-6, confidence=confidence, method="gdp")
    return report.lower_bound


@pytest.mark.parametrize("canary", [(0,), (0, 1, 2)], ids=["one round", "three rounds"])
def test_audit__stays_below_the_claim_gets_close_and_catches_halved_noise(canary):
    k = len(canary)
    kept = attack_scores(canary, contributions=k)
    assert proved(kept, 0.9999) <= 1.0
    assert proved(kept, 0.95) >= 0.5
    halved = attack_scores(canary, contributions=k, factor=0.5)
    assert proved(halved, 0.9999) > 1.0
