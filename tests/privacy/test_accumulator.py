import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from discreet.privacy import Budget, Ledger, SecureNoise, SeededNoise
from discreet.privacy.accumulator import NoisySum
from discreet.privacy.noise import SystemNoise, to_lattice
from discreet.state import decode, encode, load_state, save_state


class Forbidden(SeededNoise):
    """Noise that must not be drawn."""

    def normal(self, size):
        raise AssertionError("noise was drawn")


@pytest.mark.parametrize(("sensitivity", "mu"), [(1.0, 1.0), (2.0, 0.5), (3.0, 0.1)])
def test_noisy_sum__holds_gaussian_noise_of_scale_sensitivity_over_mu(
    sensitivity, mu, assert_distribution
):
    total = NoisySum(4000, sensitivity=sensitivity, mu=mu, noise=SeededNoise(1))
    assert total.release.scale == sensitivity / mu
    assert total.release.mu == pytest.approx(mu)
    assert_distribution(total._value, stats.norm(scale=sensitivity / mu).cdf)


def test_noisy_sum__secure_noise_has_the_same_distribution(assert_distribution):
    total = NoisySum(6000, sensitivity=2.0, mu=0.5, noise=SecureNoise())
    assert_distribution(total._value, stats.norm(scale=4.0).cdf)


def test_noisy_sum__the_noise_does_not_depend_on_the_terms_and_is_drawn_once():
    terms = np.random.default_rng(0).uniform(-1, 1, (50, 7))
    total = NoisySum(7, sensitivity=2.0, mu=0.5, noise=SeededNoise(3))
    noise = total._value.copy()
    for term in terms:
        total.add(term)
    assert np.allclose(total._value - noise, terms.sum(axis=0), atol=1e-12)
    again = NoisySum(7, sensitivity=2.0, mu=0.5, noise=SeededNoise(3))
    again.add(terms.sum(axis=0))
    assert np.allclose(again._value, total._value)


def test_noisy_sum__does_not_keep_or_change_what_is_added():
    total, term = NoisySum(2, sensitivity=1.0, mu=math.inf), np.array([1.0, 2.0])
    total.add(term)
    term[:] = 9
    total.add(np.ones(2))
    assert total._value.tolist() == [2.0, 3.0]
    assert term.tolist() == [9.0, 9.0]


def test_noisy_sum__no_privacy_is_the_plain_sum_and_says_so():
    ledger = Ledger(Budget(math.inf, 1e-6))
    total = NoisySum(3, sensitivity=2.0, mu=math.inf, noise=Forbidden(0))
    ledger.spend(total.release)
    total.add(np.arange(3.0))
    assert total._value.tolist() == [0.0, 1.0, 2.0]
    assert total.release.mu == math.inf
    assert total.release.scale == 0
    assert "NO PRIVACY" in ledger.guarantee().statement()


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_noisy_sum__every_value_lies_on_the_lattice_under_secure_noise(seed, steps):
    total = NoisySum(3, sensitivity=2.0, mu=0.3, noise=SecureNoise())
    rng, spacing = np.random.default_rng(seed), total._spacing
    assert spacing > 0
    assert math.log2(spacing) % 1 == 0
    for _ in range(steps):
        total.add(rng.standard_cauchy(3))
        assert (total._value % spacing == 0).all()


def test_noisy_sum__large_sums_stay_exact_on_the_lattice():
    # 2^26 terms of norm 1 are promised: the last bit still counts there.
    total = NoisySum(1, sensitivity=2.0, mu=0.3, noise=SecureNoise())
    noise = float(total._value[0])
    for _ in range(4):
        total.add(np.array([2.0**24]))
        before = float(total._value[0])
        total.add(np.array([total._spacing]))
        assert total._value[0] - before == total._spacing
        total.add(np.array([-total._spacing]))
    assert total._value[0] - 2.0**26 == noise


@pytest.mark.parametrize("contributions", [1, 3])
def test_noisy_sum__rounding_grows_the_sensitivity_by_one_spacing_for_each_call(contributions):
    # One person may be in as many calls of `add` as there are contributions; each is rounded.
    dim, mu = 5, Budget(1.0, 1e-6).mu
    total = NoisySum(
        dim, sensitivity=2.0, mu=mu, noise=SecureNoise(), contributions=contributions
    )  # fmt: skip
    spacing = total._spacing
    rounding = spacing * 2 * math.sqrt(dim) * contributions  # 2: it may change calls
    assert total.release.sensitivity == 2.0 + rounding > 2.0
    assert total.release.scale == total.release.sensitivity / mu
    # The worst pair of neighbours: each coordinate on either side of a rounding edge.
    edge = 0.5 * spacing
    moved = np.zeros(dim)
    for _ in range(contributions):
        one, other = decode(encode(total)), decode(encode(total))
        one._value = other._value = np.zeros(dim)
        one.add(np.full(dim, 1.5 * edge))
        other.add(np.full(dim, 0.5 * edge))
        moved += one._value - other._value
    assert np.linalg.norm(moved) == pytest.approx(rounding / 2)


def test_noisy_sum__float_noise_needs_no_rounding():
    for noise in (SeededNoise(0), SystemNoise()):
        assert NoisySum(5, sensitivity=2.0, mu=1.0, noise=noise).release.sensitivity == 2.0


@pytest.mark.parametrize(
    "noise", [SeededNoise(4), SystemNoise(), SecureNoise()], ids=["seeded", "system", "secure"]
)
def test_noisy_sum__its_state_draws_nothing_and_resumes(noise, tmp_path):
    total = NoisySum(3, sensitivity=2.0, mu=0.3, noise=noise, what="w", scope="s")
    total.add(np.array([0.1, 0.2, 0.3]))
    state, position = encode(total), noise.state()
    save_state(tmp_path / "sum", {"sum": state})
    resumed = decode(load_state(tmp_path / "sum")["sum"])
    assert np.array_equal(resumed._value, total._value)
    assert resumed.release == total.release
    assert noise.state() == position
    for each in (total, resumed):
        each.add(np.array([0.4, 0.5, 0.6]))
    assert np.array_equal(resumed._value, total._value)
    assert not np.array_equal(state["of"]["_value"], total._value), "a state is a copy"
    total.save(tmp_path / "whole")
    assert np.array_equal(NoisySum.load(tmp_path / "whole")._value, total._value)


@pytest.mark.parametrize(
    "change", [{"dim": 0}, {"sensitivity": 0.0}, {"sensitivity": math.inf}, {"mu": 0.0},
               {"mu": math.nan}, {"noise": 3}], ids=str,
)  # fmt: skip
def test_noisy_sum__bad_arguments_are_refused(change):
    with pytest.raises(ValueError, match="must"):
        NoisySum(**{"dim": 2, "sensitivity": 1.0, "mu": 1.0, **change})


def test_noisy_sum__a_term_that_changes_calls_is_rounded_in_both_and_that_is_covered():
    dim = 4
    total = NoisySum(dim, sensitivity=1.0, mu=1.0, noise=SecureNoise())
    spacing = total._spacing
    half = np.full(dim, spacing / 2)
    own = np.full(dim, spacing / 1000)
    # Others come in both calls; one person in the first, or, with another term, in the second.
    here = to_lattice(half + own / 2, spacing) + to_lattice(half + own / 2, spacing)
    there = to_lattice(half - own / 2, spacing) + to_lattice(half - own / 2, spacing)
    apart = np.linalg.norm(here - there)
    assert apart == pytest.approx(2 * spacing * math.sqrt(dim))
    assert apart <= total.release.sensitivity - total.sensitivity


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_noisy_sum__what_is_not_finite_is_refused_and_changes_nothing(odd):
    total = NoisySum(2, sensitivity=1.0, mu=1.0, noise=SeededNoise(0))
    before = total._value.copy()
    with pytest.raises(ValueError, match="finite"):
        total.add(np.array([0.0, odd]))
    with pytest.raises(ValueError, match="finite"):
        total.publish(np.array([0.0, odd]))
    assert np.array_equal(total.publish(), before)
