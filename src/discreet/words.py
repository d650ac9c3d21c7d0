"""Numbers as people read them: on pages, in pictures, in tables of a terminal."""

import math
from collections.abc import Sequence
from decimal import Decimal

_MINUS = "\N{MINUS SIGN}"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 3) -> str:
    """Whole numbers with commas, others with so many digits that count; powers where tiny or vast.

    >>> number(20120), number(12345.6), number(0.23671), number(1e-6), number(2.5e-7), number(3e43)
    ('20,120', '12,346', '0.237', '10⁻⁶', '2.5·10⁻⁷', '3·10⁴³')
    """
    vast = math.isfinite(value) and abs(value) >= 1e15
    if not vast and (not math.isfinite(value) or value == int(value)):
        return fixed(value, 0)
    if vast or abs(value) < 1e-3:
        mantissa, exponent = f"{value:.1e}".split("e")
        power = "10" + str(int(exponent)).translate(_RAISED)
        mantissa = mantissa.removesuffix(".0").replace("-", _MINUS)
        return power if mantissa == "1" else f"{mantissa}·{power}"
    text = f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
    return text.replace("-", _MINUS)


def rough(value: float) -> str:
    """Two digits that count, and zeros.

    >>> rough(12345.6), rough(0.0012345), rough(2.0)
    ('12,000', '0.0012', '2')
    """
    return f"{Decimal(f'{value:.2g}'):,f}"


def at_least(value: float) -> str:
    """Two digits that count, rounded up.

    >>> at_least(7.0), at_least(45_612.0), at_least(math.inf)
    ('7', '46,000', 'too many')
    """
    if math.isinf(value):
        return "too many"
    unit = 10 ** max(math.floor(math.log10(value)) - 1, 0)
    return f"{math.ceil(value / unit) * unit:,.0f}"


def places(value: float) -> int:
    """Digits after the point, so that three or so are shown.

    >>> places(1234.5), places(2.5), places(0.012345)
    (0, 2, 4)
    """
    if not value or not math.isfinite(value):
        return 0
    return min(max(2 - math.floor(math.log10(abs(value))), 0), 6)


def fixed(value: float, digits: int, sign: str = "") -> str:
    """So many digits after the point; with the sign "+", it is always shown.

    >>> fixed(1234.56, 1), fixed(0.5, 2, "+"), fixed(math.nan, 1)
    ('1,234.6', '+0.50', '-')
    """
    return "-" if math.isnan(value) else f"{value:{sign},.{digits}f}".replace("-", _MINUS)


def percent(fraction: float, digits: int = 0, sign: str = "") -> str:
    """A fraction as a percentage.

    >>> percent(0.5), percent(0.123, 1), percent(math.nan)
    ('50%', '12.3%', '-')
    """
    return "-" if math.isnan(fraction) else fixed(100 * fraction, digits, sign) + "%"


def plus_minus(mean: float, half: float, size: float | None = None, sign: str = "") -> str:
    """A mean and half of its interval, if that is known, as finely as a value of this size.

    >>> plus_minus(12.345, 0.5), plus_minus(0.5, math.nan, 200.0, "+")
    ('12.3 ± 0.5', '+0')
    """
    digits = places(mean if size is None else size)
    return fixed(mean, digits, sign) + ("" if math.isnan(half) else f" ± {fixed(half, digits)}")


def budget(epsilon: float) -> str:
    """A budget in words.

    >>> budget(0.5), budget(math.inf)
    ('epsilon = 0.5', 'no noise')
    """
    return "no noise" if math.isinf(epsilon) else f"epsilon = {epsilon:g}"


def observer(epsilon: float) -> str:
    """How often an observer's best guess is right.

    >>> observer(1.0), observer(20.0), observer(math.inf)
    ('at most 73.2%', 'nearly always', 'sees everything')
    """
    if math.isinf(epsilon):
        return "sees everything"
    right = math.ceil(1000 / (1 + math.exp(-min(epsilon, 700.0)))) / 10
    return f"at most {right:g}%" if right < 99.9 else "nearly always"


def listed(words: Sequence[str]) -> str:
    """With commas and "and".

    >>> listed(["one", "two", "three"])
    'one, two and three'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def count(n: int, what: str) -> str:
    """How many there are of something.

    >>> count(1, "seed"), count(2, "seed")
    ('1 seed', '2 seeds')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
