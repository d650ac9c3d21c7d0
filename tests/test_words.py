"""Numbers as people read them; doctests of `discreet.words` have the ordinary ones."""

import math

from discreet import words

MINUS = "\N{MINUS SIGN}"


def test_numbers__a_negative_one_has_a_minus_sign_and_no_hyphen():
    assert words.number(-12345.6) == f"{MINUS}12,346"
    assert words.number(-2.5e-7) == f"{MINUS}2.5·10⁻⁷"
    assert words.fixed(-1234.56, 1) == f"{MINUS}1,234.6"
    assert words.percent(-0.123, 1) == f"{MINUS}12.3%"
    assert words.plus_minus(-0.5, 0.25) == f"{MINUS}0.500 ± 0.250"


def test_numbers__what_is_unknown_or_unlimited_is_shown_too():
    assert words.number(math.nan) == words.fixed(math.nan, 2) == words.percent(math.nan) == "-"
    assert words.number(math.inf) == "inf"
    assert words.plus_minus(math.nan, math.nan) == "-"
    assert words.at_least(math.inf) == "too many"


def test_at_least__two_digits_rounded_up():
    assert [words.at_least(n) for n in (7.0, 123.0, 45_612.0)] == ["7", "130", "46,000"]
