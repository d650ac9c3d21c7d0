"""What attacks say, in words; of those without power, how many runs would give it."""

import math

from scipy.special import ndtr

from discreet.audit.bounds import CURVES, NO_POWER
from discreet.audit.counted import Curve, refuted_below
from discreet.audit.run import Audited
from discreet.words import at_least

MOST = 2**26  # runs that are counted on each side
COUNTED = 3 / 4  # of the runs; the others choose the test


def verdict(audited: Audited) -> str:
    """BROKEN, not refuted, or no power, and then how many runs it takes."""
    if audited.verdict != "no power":
        return audited.verdict
    runs = runs_for_power(audited)
    if runs is None:
        return "no power, whatever the runs"
    if runs <= audited.close.runs:
        return "no power: far from what is attainable"
    return f"no power; {at_least(runs)} runs may have it"


def runs_for_power(audited: Audited) -> int | None:
    """Runs, on both sides, with which an attack that reaches what is attainable would have power.

    As it is expected: with the counts of an ideal test. None: not with MOST runs.
    """
    n = 250
    while _fraction(audited, n) < NO_POWER:
        n *= 2
        if n > MOST:
            return None
    # To a twentieth: the counts of so few runs are rounded.
    low, high = n // 2, n
    while high > 1.05 * low:
        middle = (low + high) // 2
        low, high = (low, middle) if _fraction(audited, middle) >= NO_POWER else (middle, high)
    return 2 * math.ceil(high / COUNTED)


def _fraction(audited: Audited, n: int) -> float:
    """How much of the claim the ideal test proves with n counted runs on each side."""
    claim, attainable = audited.attack.claim, audited.attack.attainable
    curve = CURVES[claim.method](claim.delta)
    if claim.method == "gdp":
        whole = curve.theta(claim.epsilon)
        hits = float(ndtr(attainable * whole / 2))
        return _bound(hits, n, curve, audited) / whole
    hits = 1 / (1 + math.exp(-attainable * claim.epsilon))
    if claim.method == "zcdp":
        hits = float(ndtr(math.sqrt(curve.theta(attainable * claim.epsilon) / 2)))
    return curve.epsilon(_bound(hits, n, curve, audited)) / claim.epsilon


def _bound(hits: float, n: int, curve: Curve, audited: Audited) -> float:
    """Of two coins, as far from 1/2 on either side."""
    alarms = round((1 - hits) * n)
    return refuted_below(alarms, round(hits * n), n, curve, audited.close.confidence)
