"""Channels for numbers: what is claimed of them is proved with integers, coin by coin."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.privacy import BallChannel, IntervalChannel, SeededNoise
from discreet.privacy.channels import (
    CELLS,
    RESPONSE,
    BinaryChannel,
    _cell,
    _Piecewise,
    _Response,
    odds_below,
)
from discreet.privacy.noise import SystemNoise
from discreet.privacy.portable import COINS, draw_coins

getcontext().prec = 60
EPSILONS = [0.3, 0.62, 1.0, 1.7, 4.0, 8.0, 25.0]
HYBRID = [0.62, 1.0, 1.7, 4.0, 8.0, 25.0]


def odds(epsilon):
    """e^epsilon to 60 digits."""
    return Fraction(Decimal(epsilon).exp())


def old_std(epsilon):
    """Of the better of randomised response and the piecewise mechanism, at its worst."""
    half = math.exp(epsilon / 2)
    return min(1 / math.tanh(epsilon / 2), 2 * math.sqrt(half / 3) / (half - 1))


# -- coins -----------------------------------------------------------------------------------------


class Forced(SeededNoise):
    """A source whose generator returns k / 2^53."""

    def __init__(self, k):
        super().__init__(0)
        self._generator = self
        self.k = k

    def random(self, size):
        return np.full(size, self.k * 2.0**-53)


@given(st.one_of(st.integers(0, 2**53 - 1), st.integers(0, 64), st.integers(2**53 - 64, 2**53 - 1)))
def test_coins__every_one_of_2_52_has_the_same_two_seeds(k):
    assert int(draw_coins(Forced(k), 1)[0]) == k >> 1


def test_coins__of_the_operating_system_are_its_bits(monkeypatch):
    words = np.array([0, 1, 2**52 - 1, 2**51, 123456789], dtype=np.uint64)
    monkeypatch.setattr("os.urandom", lambda size: (words << np.uint64(12)).tobytes())
    assert draw_coins(SystemNoise(), len(words)).tolist() == words.tolist()


@given(st.integers(0, COINS - 1), st.integers(1, 2 * CELLS + 1))
def test_coins__pick_the_cell_that_exact_integers_pick(coin, n):
    assert int(_cell(np.array([coin]), n)[0]) == coin * n // COINS


# -- the loss, in exact arithmetic -----------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-10, *EPSILONS])
def test_binary__no_report_has_more_than_e_epsilon_times_the_coins(epsilon):
    likely = BinaryChannel(epsilon)._response.likely
    assert Fraction(likely, COINS - likely) <= odds(epsilon)
    # Hardly anything is given away.
    given_away = Fraction(1, 10**10 if 0.1 < epsilon < 10 else 10**3)
    assert Fraction(likely, COINS - likely) >= odds(epsilon) * (1 - given_away)


@given(st.sampled_from(EPSILONS), st.floats(-1, 1))
def test_binary__values_in_between_have_no_fewer_coins_than_the_ends(epsilon, x):
    response = _Response.of(epsilon)
    up = int(response.coins_up(np.array(x)))
    assert COINS - response.likely <= up <= response.likely
    assert abs(up / COINS - (1 + x / response.bound) / 2) <= 2.0**-51


@pytest.mark.parametrize("epsilon", HYBRID)
def test_hybrid__no_cell_has_more_than_e_epsilon_times_the_coins(epsilon):
    """The exact worst case over cells: 4.4e-10 above epsilon before it was taken off."""
    piecewise = IntervalChannel(epsilon)._piecewise
    in_cell = [_coins_of(i, piecewise.plateau) for i in _some(piecewise.plateau)]
    out_cell = [_coins_of(i, piecewise.others) for i in _some(piecewise.others)]
    # The formula of the docstring covers every cell, since a cell has floor or ceil of its part.
    most, least = -(-COINS // piecewise.plateau), COINS // piecewise.others
    assert max(in_cell) <= most
    assert min(out_cell) >= least
    worst = Fraction(piecewise.inside * most, (COINS - piecewise.inside) * least)
    assert worst <= odds(epsilon)
    assert worst >= odds(epsilon) * (1 - Fraction(1, 10**9 if epsilon < 10 else 10**3))
    if epsilon > 10:
        return
    # As it was: e^epsilon split between plateau and rest, whatever single cells get.
    naive = odds(epsilon) * Fraction(piecewise.plateau, piecewise.others)
    inside = math.floor(COINS * naive / (1 + naive))
    assert Fraction(inside * max(in_cell), (COINS - inside) * min(out_cell)) > odds(epsilon)


def _some(n):
    return {0, 1, n // 3, n // 2, n - 1, *range(max(0, n // 7), min(n, n // 7 + 50))} - {n}


def _coins_of(i, n):
    """How many coins c have floor(c n / 2^52) = i."""
    return -(-(i + 1) * COINS // n) - -(-i * COINS // n)


@given(
    st.sampled_from(HYBRID),
    st.floats(-1, 1),
    st.tuples(*[st.integers(0, COINS - 1)] * 3),
)
def test_hybrid__coins_lead_to_the_cell_that_the_proof_counts(epsilon, x, coins):
    piecewise = _Piecewise.of(epsilon)
    cell = int(piecewise.draw(np.array([x]), np.array(coins)[:, None])[0])
    start, left = (part[0] for part in piecewise.start(np.array([x])))
    start = int(start) + (coins[0] < left * COINS)
    assert -CELLS <= start <= CELLS + 1 - piecewise.plateau
    if coins[1] < piecewise.inside:
        assert cell == start + coins[2] * piecewise.plateau // COINS
    else:
        assert -CELLS <= cell <= CELLS
        assert not start <= cell < start + piecewise.plateau
        before = cell + CELLS if cell < start else cell + CELLS - piecewise.plateau
        assert before == coins[2] * piecewise.others // COINS


@given(st.sampled_from([0.3, 1.0, 4.0]), st.floats(-1, 1), st.floats(-1, 1))
def test_interval__no_report_tells_two_records_apart_by_more_than_epsilon(epsilon, x, y):
    channel = IntervalChannel(epsilon)
    reports = channel.privatize(np.linspace(-1, 1, 300), SeededNoise(0))
    loss = channel.log_density(reports, x) - channel.log_density(reports, y)
    assert np.abs(loss).max() <= epsilon + 1e-9


# -- what reports are worth ------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 0.7, 1.5, 5.0])
@pytest.mark.parametrize("value", [2.0, 3.1, 6.0])
def test_interval__reports_are_unbiased_with_the_stated_std(epsilon, value):
    """200,000 reports: their spread is known to .3%, so that noise 25% off fails by far."""
    channel = IntervalChannel(epsilon, low=2.0, high=6.0)
    reports = channel.privatize(np.full(200_000, value), SeededNoise(3))
    spread = reports.std()
    assert abs(reports.mean() - value) < 5 * spread / math.sqrt(len(reports))  # 6e-7
    x = (value - 4.0) / 2
    variance = channel.std**2 if channel.hybrid else channel.report_bound**2 - 4 * x * x
    assert spread == pytest.approx(math.sqrt(variance), rel=0.012)
    assert spread <= channel.std * 1.012


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_binary__reports_are_unbiased_with_the_stated_std(epsilon, value):
    channel = BinaryChannel(epsilon)
    reports = channel.privatize(np.full(200_000, value), SeededNoise(3))
    assert abs(reports.mean() - value) < 5 * reports.std() / math.sqrt(len(reports))
    assert reports.std() == pytest.approx(channel.std, rel=0.02)
    assert len(set(reports)) == 2


def test_binary__halves_the_noise_of_yes_and_no():
    """Against the piecewise mechanism at epsilon = 2, 4 and 8: 1.3, 1.8 and 4.3 times less."""
    ratios = [old_std(e) / (2 * BinaryChannel(e).std) for e in (2.0, 4.0, 8.0)]
    assert ratios == pytest.approx([1.30, 1.78, 4.34], abs=0.01)


def test_hybrid__has_less_noise_than_the_better_of_its_parts():
    ratios = [IntervalChannel(e).std / old_std(e) for e in (1.0, 1.3, 2.0, 4.0)]
    assert ratios == pytest.approx([0.957, 0.912, 0.921, 0.953], abs=0.001)
    assert not IntervalChannel(0.6).hybrid
    assert IntervalChannel(0.62).hybrid
    for epsilon in (0.1, 0.5, 0.61, 8.0, 25.0):
        assert IntervalChannel(epsilon).std <= old_std(epsilon) * (1 + 1e-6)


@pytest.mark.parametrize("x", [-1.0, 0.4, 1.0])
def test_hybrid__reports_follow_the_stated_probabilities(x):
    """40 bins, each within 5 standard errors: a false alarm in 2e-5 of all seeds."""
    channel, n = IntervalChannel(3.0), 100_000
    reports = channel.privatize(np.full(n, x), SeededNoise(5))
    two = np.abs(np.abs(reports) - channel._response.bound) < 1e-9
    cells = np.arange(-CELLS, CELLS + 1) * channel._piecewise.step
    density = np.exp(channel.log_density(cells, x))
    ends = np.exp(channel.log_density(np.array([-1.0, 1.0]) * channel._response.bound, x))
    assert density.sum() + ends.sum() == pytest.approx(1.0, abs=1e-9)
    edges = np.linspace(-channel.report_bound * 1.001, channel.report_bound * 1.001, 41)
    expected = n * np.histogram(cells, edges, weights=density)[0]
    counts = np.histogram(reports[~two], edges)[0]
    keep = expected > 20
    assert (np.abs(counts - expected) / np.sqrt(np.maximum(expected, 1)))[keep].max() < 5
    assert abs(two.sum() - n * ends.sum()) < 5 * math.sqrt(n * ends.sum())
    density_of_another = np.exp(channel.log_density(cells, 0.8 * x))  # power
    other = n * np.histogram(cells, edges, weights=density_of_another)[0]
    assert (np.abs(counts - other) / np.sqrt(np.maximum(other, 1)))[keep].max() > 5


@pytest.mark.parametrize("kind", [IntervalChannel, BinaryChannel])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("value", [-1.0, 0.4, 3.0])
def test_numbers__reports_keep_to_the_stated_bound_and_second_moment(kind, epsilon, value):
    channel = kind(epsilon, low=-1.0, high=3.0)
    away = channel.privatize(np.full(20_000, value), SeededNoise(0)) - 1.0
    assert np.abs(away).max() <= channel.report_bound * (1 + 1e-12)
    moment, error = (away**2).mean(), 5 * (away**2).std() / math.sqrt(len(away))  # 6e-7
    assert moment <= channel.second_moment * (1 + 1e-9) + error
    if value != 0.4:  # a bound of the interval reaches it
        assert moment >= 0.95 * channel.second_moment


@pytest.mark.parametrize("kind", [IntervalChannel, BinaryChannel])
@pytest.mark.parametrize("epsilon", [0.5, 3.0, math.inf])
def test_numbers__one_report_is_the_first_of_many(kind, epsilon):
    channel = kind(epsilon, low=-1.0, high=3.0)
    for seed in range(50):
        many = channel.privatize([0.4], SeededNoise(seed))
        assert channel.report(0.4, SeededNoise(seed)) == many[0]


@pytest.mark.parametrize("kind", [IntervalChannel, BinaryChannel])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_numbers__how_many_coins_are_drawn_depends_on_the_shape_alone(kind, epsilon):
    states = set()
    for values in (np.full(5, -1.0), np.full(5, 1.0), np.linspace(-1, 1, 5), np.zeros(5)):
        noise = SeededNoise(0)
        kind(epsilon, low=-1.0, high=1.0).privatize(values, noise)
        states.add(noise.state())
    assert len(states) == 1


def test_numbers__privacy_off_returns_the_values():
    values = np.array([0.0, 0.25, 1.0])
    for kind in (IntervalChannel, BinaryChannel):
        channel = kind(math.inf, low=0, high=1)
        assert np.allclose(channel.privatize(values), values)
        assert channel.possible(np.array([0.5, 1.5, np.nan])).tolist() == [True, False, False]
        assert channel.std == 0.0


@pytest.mark.parametrize("kind", [IntervalChannel, BinaryChannel])
@pytest.mark.parametrize("ends", [(0.0, 1.0), (1e6, 1e6 + 1), (-1e-3, 1e3)])
def test_numbers__reports_are_possible_also_after_single_precision(kind, ends):
    channel = kind(4.0, low=ends[0], high=ends[1])
    reports = channel.privatize(np.linspace(*ends, 2000), SeededNoise(0))
    assert channel.possible(reports).all()
    if ends[0] < 1:
        assert channel.possible(reports.astype(np.float32).astype(np.float64)).all()


def test_numbers__the_guarantee_states_the_claim():
    for channel in (IntervalChannel(2.0, contributions=4), BinaryChannel(2.0, contributions=4)):
        channel.privatize([0.5], SeededNoise(0))
        assert channel.guarantee.epsilon_at(0.0) == pytest.approx(2.0)
        assert channel.guarantee.epsilon_at(0.0) <= 2.0
        assert channel.guarantee.sampler == "52-bit coin, simulation only"


def test_numbers__a_tiny_epsilon_works_or_is_refused():
    for kind in (IntervalChannel, BinaryChannel):
        report = kind(1e-9).privatize([0.5], SeededNoise(0))
        assert np.isfinite(report).all()
        assert abs(report[0]) > 1e8
        with pytest.raises(ValueError, match="at least 1e-10 for each report"):
            kind(1e-16)


# -- one number ------------------------------------------------------------------------------------

EDGES = [0, 1, COINS // 2 - 1, COINS // 2, COINS - 2, COINS - 1]
WORDS = st.one_of(st.sampled_from(EDGES), st.integers(0, COINS - 1))


@given(st.floats(0.01, 25.0), st.floats(-1, 1), WORDS)
def test_report__one_number_has_the_bits_of_an_array_for_the_same_coins(epsilon, x, word):
    response = _Response.of(epsilon)
    up = int(response.coins_up(np.array(x)))
    for coin in (word, max(up - 1, 0), min(up, COINS - 1)):  # on both sides of the threshold
        sign = int(response.draw(np.array(x), np.int64(coin))) // RESPONSE
        assert response.draw_one(x, coin) == sign * response.bound


@pytest.mark.parametrize("kind", [BinaryChannel, IntervalChannel])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_report__is_privatize_of_one_number_bit_for_bit(kind, epsilon):
    channel = kind(epsilon, low=-0.3, high=1.7)
    rng = np.random.default_rng(0)
    values = [-0.3, 1.7, 0.7, *rng.uniform(-0.3, 1.7, 200)]
    alone, arrays = SeededNoise(3), SeededNoise(3)
    for value in values:
        assert channel.report(float(value), alone) == float(channel.privatize(value, arrays))
    assert alone.state() == arrays.state()  # as many coins


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_piecewise__the_last_coin_of_the_plateau_and_the_first_outside_are_where_they_are_counted(
    epsilon,
):
    piecewise = _Piecewise.of(epsilon)
    for coin, near in ((piecewise.inside - 1, True), (piecewise.inside, False)):
        coins = np.array([[0], [coin], [COINS - 1]])  # the last cell
        one = piecewise.draw(np.array([-1.0]), coins)[0]
        assert (one < piecewise.plateau - CELLS) == near


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_piecewise__no_rounding_of_the_record_leads_beyond_the_last_cell(epsilon):
    piecewise, coins = _Piecewise.of(epsilon), [0, 0, COINS - 1]
    for x in (1.0, 1 + 1e-9, 1.5):
        assert piecewise.draw(np.array([x]), np.array(coins)[:, None])[0] == CELLS


def test_odds__stay_below_the_true_ones_whatever_way_the_float_was_rounded():
    for epsilon in np.linspace(0.01, 30.0, 200):
        assert odds_below(epsilon) < odds(epsilon) < odds_below(epsilon) * (1 + Fraction(1, 2**49))


@pytest.mark.parametrize("make", [IntervalChannel, lambda epsilon: BallChannel(3, epsilon)])
def test_channel__promises_its_epsilon_and_spends_no_more(make):
    guarantee = make(0.7).guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.trust) == (0.7, 0.0, "local")
    assert 0.7 * (1 - 1e-12) <= guarantee.epsilon_at(0.0) <= 0.7


@pytest.mark.parametrize("kind", [IntervalChannel, BinaryChannel])
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_clip__a_value_that_overflows_in_half_widths_is_clipped_as_any_other(kind, epsilon):
    """An exception would tell of it."""
    channel = kind(epsilon, low=0.0, high=1e-3)
    for far, end in ((1.7e308, 1e-3), (-1.7e308, 0.0)):
        sent = [
            channel.privatize(np.array([x, 5e-4]), SeededNoise(0), clip=True) for x in (far, end)
        ]
        assert (sent[0] == sent[1]).all()
