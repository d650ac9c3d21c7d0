"""A token opens for the bandit and epoch it was made for, unchanged; nothing else opens."""

import math
import secrets
import threading

import numpy as np
import pytest

from discreet.service.tokens import NOBODY, PREFIX, Sealed, Sealer

ABOUT = b"epoch\nbandit"
MASTER = bytes(range(32))


def sealer() -> Sealer:
    return Sealer(MASTER, secrets.token_bytes(8))


def rows(n: int = 1, dim: int = 5) -> np.ndarray:
    made = np.random.default_rng(1).standard_normal((n, dim))
    return made / np.linalg.norm(made, axis=1)[:, None]


def token(of: Sealer) -> str:
    return of.seal(ABOUT, [7], rows(), [0.25], math.inf)[0]


def opened(by: Sealer, text: str, about: bytes = ABOUT) -> Sealed | None:
    return by.open(about, [text])[0]


@pytest.mark.parametrize("dim", [1, 2, 3, 20])
@pytest.mark.parametrize("people", [None, [bytes([i]) * 16 for i in range(4)]])
def test_tokens_hold_their_decisions_in_order(dim, people):
    one = sealer()
    made = rows(4, dim)
    tokens = one.seal(ABOUT, range(7, 11), made, [0.1, 0.2, 0.3, 1.0], 12.5, people)
    assert len(set(tokens)) == 4
    found = one.open(ABOUT, tokens)
    assert [each.round for each in found] == [7, 8, 9, 10]
    assert [each.probability for each in found] == [0.1, 0.2, 0.3, 1.0]
    assert {(each.deadline, each.run) for each in found} == {(12.5, one.run)}
    assert [each.person for each in found] == (people or [NOBODY] * 4)
    np.testing.assert_allclose([each.row for each in found], made, atol=1e-7)


@pytest.mark.parametrize("dim", [1, 2, 3, 20])
def test_a_token_that_is_sealed_alone_is_as_those_of_many(dim):
    one, person = sealer(), bytes(range(16))
    alone = one.seal_one(ABOUT, 7, rows(1, dim)[0], 0.25, 12.5, person)
    many = one.seal(ABOUT, [7], rows(1, dim), [0.25], 12.5, [person])[0]
    assert len(alone) == len(many)
    first, second = one.open(ABOUT, [alone, many])
    np.testing.assert_array_equal(first.row, second.row)
    for name in ("run", "round", "probability", "deadline", "person"):
        assert getattr(first, name) == getattr(second, name)


def test_no_nonce_is_used_twice_whichever_thread_seals():
    one, row = sealer(), rows()[0]
    found: list[str] = []

    def work() -> None:
        found.extend(one.seal_one(ABOUT, 7, row, 0.25, math.inf) for _ in range(700))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(found)) == len(found) == 2800


def test_one_bad_token_among_others_is_bad_alone():
    one = sealer()
    tokens = one.seal(ABOUT, range(6), rows(6, 4), [1.0] * 6, math.inf)
    short = one.seal(ABOUT, [6], rows(1, 2), [1.0], math.inf)[0]
    bad = [tokens[0][:-1] + "!", tokens[1][:-2], "dt1.", "dt1.\u00e9", tokens[2] + "=", "x"]
    found = one.open(ABOUT, [*bad[:3], tokens[3], *bad[3:], short, tokens[4]])
    assert [each and each.round for each in found] == [None] * 3 + [3] + [None] * 3 + [6, 4]


def test_another_run_of_the_same_instance_opens_it_and_another_instance_does_not():
    one = sealer()
    made = token(one)
    assert opened(Sealer(MASTER, secrets.token_bytes(8)), made) is not None
    assert opened(Sealer(secrets.token_bytes(32), one.run), made) is None


@pytest.mark.parametrize("about", [b"epoch\nother", b"later\nbandit", b""])
def test_another_bandit_or_epoch_does_not_open_it(about):
    one = sealer()
    assert opened(one, token(one), about) is None


def test_rounding_never_makes_a_row_longer_than_1():
    one = sealer()
    for found in one.open(ABOUT, one.seal(ABOUT, range(200), rows(200, 7), [1.0] * 200, math.inf)):
        assert found is not None
        assert found.row @ found.row <= 1 + 1e-15


def test_of_100_000_changed_tokens_none_is_accepted():
    one = sealer()
    made = token(one)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. \x00é"
    rng = np.random.default_rng(2)
    tried = []
    for _ in range(100_000):
        text = list(made)
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
        if changed != made:
            tried.append(changed)
    assert len(tried) > 90_000
    singly = [opened(one, each) for each in tried[:20_000]]
    assert set(singly) | set(one.open(ABOUT, tried)) == {None}


def test_two_tokens_of_one_decision_differ_and_show_nothing():
    one = sealer()
    first, second = token(one), token(one)
    assert first.startswith(PREFIX)
    assert first[40:] != second[40:]
