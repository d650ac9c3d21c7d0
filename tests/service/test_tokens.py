"""A token opens for the bandit and epoch it was made for, unchanged; nothing else opens."""

import math
import secrets

import numpy as np
import pytest

from discreet.service.tokens import NOBODY, PREFIX, Sealed, Sealer

ABOUT = b"epoch\nbandit"
MASTER = bytes(range(32))


def sealer() -> Sealer:
    return Sealer(MASTER, secrets.token_bytes(8))


def decision(run: bytes, dim: int = 5) -> Sealed:
    row = np.random.default_rng(1).standard_normal(dim)
    return Sealed(run, 7, row / np.linalg.norm(row), 0.25, math.inf, NOBODY)


def test_a_token_holds_its_decision():
    one = sealer()
    made = decision(one.run)
    found = one.open(ABOUT, one.seal(ABOUT, made))
    assert found is not None
    assert (found.round, found.probability, found.deadline, found.run) == (
        7,
        0.25,
        math.inf,
        one.run,
    )
    np.testing.assert_allclose(found.row, made.row, atol=1e-7)


def test_another_run_of_the_same_instance_opens_it_and_another_instance_does_not():
    one = sealer()
    token = one.seal(ABOUT, decision(one.run))
    assert Sealer(MASTER, secrets.token_bytes(8)).open(ABOUT, token) is not None
    assert Sealer(secrets.token_bytes(32), one.run).open(ABOUT, token) is None


@pytest.mark.parametrize("about", [b"epoch\nother", b"later\nbandit", b""])
def test_another_bandit_or_epoch_does_not_open_it(about):
    one = sealer()
    assert one.open(about, one.seal(ABOUT, decision(one.run))) is None


def test_rounding_never_makes_a_row_longer_than_1():
    one = sealer()
    rng = np.random.default_rng(0)
    for _ in range(200):
        row = rng.standard_normal(7)
        made = Sealed(one.run, 0, row / np.linalg.norm(row), 1.0, math.inf)
        found = one.open(ABOUT, one.seal(ABOUT, made))
        assert found is not None
        assert found.row @ found.row <= 1 + 1e-15


def test_of_100_000_changed_tokens_none_is_accepted():
    one = sealer()
    token = one.seal(ABOUT, decision(one.run))
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. \x00é"
    rng = np.random.default_rng(2)
    accepted = 0
    for _ in range(100_000):
        text = list(token)
        kind = rng.integers(4)
        place = int(rng.integers(len(text)))
        if kind == 0:
            text[place] = alphabet[rng.integers(len(alphabet))]
        elif kind == 1:
            del text[place:]
        elif kind == 2:
            text.insert(place, alphabet[rng.integers(len(alphabet))])
        else:
            other = int(rng.integers(len(text)))
            text[place], text[other] = text[other], text[place]
        changed = "".join(text)
        accepted += changed != token and one.open(ABOUT, changed) is not None
    assert accepted == 0


def test_two_tokens_of_one_decision_differ_and_show_nothing():
    one = sealer()
    made = decision(one.run)
    first, second = one.seal(ABOUT, made), one.seal(ABOUT, made)
    assert first.startswith(PREFIX)
    assert first[40:] != second[40:]
