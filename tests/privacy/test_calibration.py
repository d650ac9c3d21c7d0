"""What running sums book, against moves that are worked out here; laws of their noise."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.privacy import Budget, IntervalChannel, PrefixSum, SecureNoise, SeededNoise, Tree
from discreet.privacy.channels import COINS, BinaryChannel, _Response
from discreet.privacy.mechanisms import draw_generalized

DIM = 5


def released(mechanism, norm, k, noise=None, delta=1e-6):
    sums = PrefixSum(100, DIM, Budget(1.0, delta, k), sensitivity=2.0, norm=norm,
                     mechanism=mechanism, noise=noise or SeededNoise(0))  # fmt: skip
    (release,) = sums.guarantee.releases
    return release, sums.design


@pytest.mark.parametrize("k", [1, 3])
def test_generalized__books_the_longest_row_in_the_norm_of_its_noise(k):
    """Of l_8 norm 2 the vector of equal entries is the longest in l_2."""
    release, tree = released("generalized-gaussian", "l8", k)
    even = np.full(DIM, 2.0 / DIM ** (1 / 8))
    assert np.linalg.norm(even, 8) == pytest.approx(2.0)
    assert release.norm == "l2"
    nodes = math.sqrt(tree.depth)  # of one round, one in each level; k of them, at most k times
    assert release.sensitivity >= np.linalg.norm(even) * nodes * (1 - 1e-12)
    # k rounds that are the first ones fill leaves and share the nodes above.
    shared = [np.bincount(np.arange(k) // 2**level) for level in range(tree.depth)]
    packed = math.sqrt(sum(float(each @ each) for each in shared))
    assert release.sensitivity >= np.linalg.norm(even) * packed * (1 - 1e-12)


@pytest.mark.parametrize("mechanism", ["tree", Tree(branching=3), "blt"])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_exact_noise__rounding_is_booked_in_every_coordinate(mechanism, norm, delta):
    """Two rows may be rounded apart by one spacing more in each coordinate."""
    pytest.importorskip("opendp")
    if mechanism == "blt" and delta == 0:
        pytest.skip("filtered noise is Gaussian")
    sums = PrefixSum(100, DIM, Budget(1.0, delta), sensitivity=2.0, norm=norm,
                     mechanism=mechanism, noise=SecureNoise())  # fmt: skip
    (release,) = sums.guarantee.releases
    own = {"l1": 1, "l2": 2, "linf": math.inf}[norm]
    used = 1 if release.norm == "l1" else 2
    longest = 2.0 * DIM ** max(0.0, 1 / used - 1 / own)
    rounding = sums._calibration.spacing * DIM ** (1 / used)
    assert rounding > 0
    pure = {} if mechanism == "blt" else {"pure": used == 1}
    least = (longest + rounding) * sums.design.sensitivity(1, **pure)
    assert least * (1 - 1e-12) <= release.sensitivity <= least * (1 + 1e-3)
    if mechanism != "blt":  # whose published numbers are rounded once more
        assert math.isclose(release.sensitivity, least, rel_tol=1e-15)


def test_add_many__a_row_that_zeros_cannot_stand_for_is_an_error_for_all():
    """Rows in [9, 10] are 1 apart, and zeros are 10 from them."""
    sums = PrefixSum(9, 1, Budget(1.0, 1e-6), sensitivity=1.0, bound=10.0, noise=SeededNoise(0))
    with pytest.raises(ValueError, match="stand in"):
        sums.add_many([[9.5], [math.nan]])
    assert sums.rounds == 0


@pytest.mark.parametrize("r", [2, 3.0, 6.0])
def test_draw_generalized__has_the_law_that_it_says(r, assert_distribution):
    """|z|_r^2 / s^2 is chi-square of d degrees, and |z_1|^r / |z|_r^r is Beta(1/r, (d - 1)/r)."""
    z = draw_generalized(r, 2.0, 20_000, DIM, SeededNoise(3))
    powers = np.abs(z) ** r
    length = powers.sum(axis=1)
    assert_distribution(length ** (2 / r) / 4, stats.chi2(DIM).cdf)
    assert_distribution(powers[:, 0] / length, stats.beta(1 / r, (DIM - 1) / r).cdf)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.3, 1.0, 5.0, 20.0, 25.0])
def test_response__no_value_has_more_coins_than_the_likely_report(epsilon):
    """Values a rounding beyond the ends too: they are what `within` lets through."""
    response = _Response.of(epsilon)
    for x in (1.0, 1 + 1e-9, 2.0):
        assert response.coins_up(np.array([x, -x])).tolist() == [
            response.likely, COINS - response.likely,
        ]  # fmt: skip
        assert response.draw_one(x, response.likely) == -response.bound
        assert response.draw_one(-x, COINS - response.likely - 1) == response.bound


@pytest.mark.parametrize("kind", [IntervalChannel, BinaryChannel])
def test_channel__what_is_sent_is_cut_and_never_refused(kind):
    channel = kind(1.0, low=0.0, high=1.0)
    for value in (-3.0, 1 + 1e-6, 7.0):
        assert abs(channel.report(value, SeededNoise(0)) - 0.5) <= channel.report_bound + 1e-12
        assert np.isfinite(channel.send(np.array([value]), SeededNoise(0))).all()
