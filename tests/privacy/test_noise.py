import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from discreet.privacy import (
    BallChannel,
    Budget,
    IntervalChannel,
    PrefixSum,
    SecureNoise,
    SeededNoise,
    Tree,
)
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import SystemNoise, source, to_lattice

SOURCES = [SeededNoise(0), SystemNoise(), SecureNoise()]


@pytest.mark.parametrize("noise", SOURCES, ids=lambda noise: type(noise).__name__)
def test_noise__distributions(noise, assert_distribution):
    size = 20_000
    assert_distribution(noise.gaussian(2.0, size), stats.norm(scale=2.0).cdf)
    assert_distribution(noise.laplace(3.0, size), stats.laplace(scale=3.0).cdf)
    assert_distribution(noise.normal(size), stats.norm.cdf)
    assert_distribution(noise.gamma(2.5, size), stats.gamma(2.5).cdf)
    uniform = noise.uniform((100, 200))
    assert uniform.shape == (100, 200)
    assert 0 < uniform.min() <= uniform.max() < 1
    assert_distribution(uniform, stats.uniform.cdf)


@pytest.mark.parametrize("noise", SOURCES, ids=lambda noise: type(noise).__name__)
def test_noise__selection_is_proportional_to_exponentials(noise):
    scores = np.array([0.0, 1.0, 3.0])
    counts = np.bincount([noise.select(scores, 2.0) for _ in range(8000)], minlength=3)
    weights = np.exp(scores / 2.0)
    assert stats.chisquare(counts, 8000 * weights / weights.sum()).pvalue > 1e-6


def test_seeded__is_tagged_apart_from_coins_and_reproducible():
    assert np.array_equal(SeededNoise(7).normal(5), SeededNoise(7).normal(5))
    assert not np.array_equal(SeededNoise(7).normal(5), np.random.default_rng(7).standard_normal(5))
    a, b = SeededNoise(7).spawn(2)
    assert not np.array_equal(a.normal(5), b.normal(5))
    noise = SeededNoise(7)
    noise.normal(3)
    assert np.array_equal(SeededNoise.restored(noise.state()).normal(4), noise.normal(4))
    a, b = noise.spawn(2)
    (c,) = SeededNoise.restored(noise.state()).spawn(1)
    assert c.state() not in (a.state(), b.state())
    with pytest.raises(ValueError, match="seed"):
        SeededNoise(-1)
    with pytest.raises(ValueError, match="seed"):
        SeededNoise(np.random.SeedSequence(7))  # type: ignore[arg-type]


def test_sources__never_save_a_state_that_reveals_noise():
    assert SystemNoise().state() == SecureNoise().state() == ""


def test_source__none_is_float_noise_from_the_operating_system():
    assert source(None).sampler("gaussian") == "float, OS entropy"
    assert SeededNoise(0).sampler("gaussian") == "float, simulation only"
    assert SecureNoise().sampler("gaussian") == "exact lattice, OS entropy"
    assert SecureNoise().sampler("k-norm") == "float, OS entropy"
    with pytest.raises(ValueError, match="noise must be"):
        source(np.random.default_rng(0))  # type: ignore[arg-type]


def test_secure__only_what_is_exact_claims_to_be():
    noise = SecureNoise()
    exact, floats = "exact lattice, OS entropy", "float, OS entropy"
    assert Mechanisms(noise).gaussian([1.0], sensitivity=1, mu=1).release.sampler == exact
    assert Mechanisms(noise).laplace([1.0], sensitivity=1, epsilon=1).release.sampler == exact
    assert Mechanisms(noise).select([1.0], sensitivity=1, epsilon=1).release.sampler == exact
    assert (
        Mechanisms(noise).k_norm([1.0, 0.0], sensitivity=1, epsilon=1, norm="linf").release.sampler
        == floats
    )
    ball, interval = BallChannel(2, 1.0), IntervalChannel(1.0)
    ball.privatize([0.1, 0.1], noise)
    interval.privatize(0.5, noise)
    assert ball.guarantee.sampler == floats
    assert interval.guarantee.sampler == "52-bit coin, OS entropy"
    for budget in (Budget(1.0), Budget(1.0, 1e-6)):
        for norm in ("l1", "l2", "linf"):
            sums = PrefixSum(300, 2, budget, sensitivity=1.0, norm=norm, noise=noise)
            assert sums.mechanism == ("tree" if budget.pure else "blt")
            assert sums.guarantee.sampler == exact
    for mechanism, sampler in (("blt", exact), ("tree", exact), ("toeplitz", floats)):
        sums = PrefixSum(
            300, 2, Budget(1.0, 1e-6), sensitivity=1.0, mechanism=mechanism, noise=noise
        )
        assert sums.guarantee.sampler == sampler


def test_secure__noise_and_values_live_on_one_lattice():
    noise = SecureNoise()
    for value, _ in (
        Mechanisms(noise).gaussian(np.linspace(-1, 1, 200) / 3, sensitivity=1.0, mu=0.3),
        Mechanisms(noise).laplace(np.linspace(-1, 1, 200) / 3, sensitivity=1.0, epsilon=0.3),
    ):
        spacing = 2.0 ** (math.floor(math.log2(1 / 0.3)) - 40)
        assert np.array_equal(value, to_lattice(value, spacing))


def test_secure__rounding_to_the_lattice_is_inside_the_sensitivity():
    noise = SecureNoise()
    dim = 9
    spacing = noise.spacing("gaussian", 2.0)
    released = Mechanisms(noise).gaussian(np.zeros(dim), sensitivity=1.0, mu=0.5).release
    assert released.sensitivity == 1.0 + spacing * math.sqrt(dim)
    assert released.mu == pytest.approx(0.5, rel=1e-15)
    released = Mechanisms(noise).laplace(np.zeros(dim), sensitivity=1.0, epsilon=0.5).release
    assert released.sensitivity == 1.0 + spacing * dim
    # Worst case: each coordinate of the two neighbours is rounded apart.
    a = np.full(dim, 0.49999 * spacing)
    b = a + 1.0 / math.sqrt(dim) + 0.00002 * spacing
    moved = np.linalg.norm(to_lattice(b, spacing) - to_lattice(a, spacing))
    assert 1.0 < moved <= 1.0 + spacing * math.sqrt(dim)


def test_secure__tree_sums_are_exact_lattice_arithmetic():
    T, dim = 200, 3
    sums = PrefixSum(
        T, dim, Budget(1.0, 1e-6), sensitivity=2.0, mechanism="tree", noise=SecureNoise()
    )
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (T, dim))
    out = sums.add_many(X)
    spacing = sums._calibration.spacing
    assert spacing > 0
    units = out / spacing
    assert np.array_equal(units, np.rint(units))
    # Far below 2^53 units: no sum was ever rounded.
    assert np.abs(units).max() < 2**52


def test_secure__lattice_is_coarser_when_sums_are_long_and_refuses_what_cannot_be_exact():
    noise = SecureNoise()
    fine, coarse = noise.spacing("gaussian", 1.0), noise.spacing("gaussian", 1.0, 2.0**24)
    assert fine == 2.0**-40
    assert coarse == 2.0**-27
    with pytest.raises(ValueError, match="cannot keep these sums exact"):
        noise.spacing("gaussian", 1.0, 2.0**40)


class LatticeNoise(SeededNoise):
    """Lattice noise fast enough for long streams: numpy's normals, rounded."""

    exact = SecureNoise.exact
    spacing = SecureNoise.spacing

    def spawn(self, count):
        children = [LatticeNoise.__new__(LatticeNoise) for _ in range(count)]
        for child, seeds in zip(children, self._seeds.spawn(count), strict=True):
            child._begin(seeds)
        return children

    def gaussian(self, std, size, spacing=0.0):
        return to_lattice(std * self.normal(size), spacing)


def test_secure__long_batches_stay_exact():
    # With tiny epsilon the running totals of node noise are what needs the bits: the parity of
    # out[t+1] - out[t] - x[t+1] must not be constant, or it would give away every row.
    T = 2**21
    sums = PrefixSum(T, 1, Budget(1e-4, 1e-6), sensitivity=2.0, mechanism=Tree(5),
                     noise=LatticeNoise(0))  # fmt: skip
    spacing = sums._calibration.spacing
    out = sums.add_many(np.zeros((T, 1)))[:, 0] / spacing
    assert np.abs(out).max() < 2**52
    odd = np.abs(np.diff(out)[-500_000:]) % 2
    assert 0.49 < odd.mean() < 0.51
    one_by_one = PrefixSum(T, 1, Budget(1e-4, 1e-6), sensitivity=2.0, mechanism=Tree(5),
                           noise=LatticeNoise(0))  # fmt: skip
    first = [one_by_one.add(0.0)[0] / spacing for _ in range(300)]
    assert np.array_equal(first, out[:300])


def off_grid(outputs):
    """Outputs below 1/4 that are not multiples of 2^-53."""
    small = outputs[np.abs(outputs) < 0.25]
    return int(np.sum(small * 2.0**53 != np.rint(small * 2.0**53)))


def test_floating_point_attack__breaks_naive_noise_and_not_the_lattice():
    # Mironov (2012): 1 + z with |1 + z| < 1/4 is always a multiple of 2^-53, 0 + z hardly ever.
    n = 20_000
    naive = SeededNoise(0)
    for draw in (naive.gaussian, naive.laplace):
        assert off_grid(1.0 + draw(1.0, n)) == 0
        assert off_grid(0.0 + draw(1.0, n)) > 100
    secure = SecureNoise()
    for f in (0.0, 1.0):
        released = Mechanisms(secure).gaussian(np.full(n, f), sensitivity=1.0, mu=1.0)
        assert off_grid(released.value) == 0
        released = Mechanisms(secure).laplace(np.full(n, f), sensitivity=1.0, epsilon=1.0)
        assert off_grid(released.value) == 0


def test_secure__says_what_to_install_when_opendp_is_missing():
    code = (
        "import sys; sys.modules['opendp'] = None; sys.modules['opendp.prelude'] = None\n"
        "from discreet.privacy import SecureNoise\n"
        "try:\n    SecureNoise()\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'discreet[secure]'" in done.stdout


@pytest.mark.parametrize("draw", [SecureNoise.gaussian, SecureNoise.laplace])
def test_secure_noise__lies_on_every_point_of_the_lattice_that_is_asked_for(draw):
    steps = draw(SecureNoise(), 1.0, 200, 2.0**-10) * 2**10
    assert (steps == np.rint(steps)).all()
    assert {0.0, 1.0} == set(steps % 2)  # wrong with probability 2^-199
