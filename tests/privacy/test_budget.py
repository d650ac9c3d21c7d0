import hmac
import math
import warnings

import numpy as np
import pytest

from discreet.bandits.visitors import Visitors
from discreet.privacy import Budget, ContributionLimiter, Guarantee, gaussian_mu
from discreet.privacy.people import pseudonym
from discreet.privacy.release import WeakPromiseWarning


def test_budget__knows_its_currencies():
    budget = Budget(1, 1e-6)
    assert budget.mu == gaussian_mu(1.0, 1e-6)
    assert 0 < budget.rho < budget.mu**2 / 2
    assert not budget.off
    assert not budget.pure
    assert Budget(1.0).pure
    off = Budget(math.inf)
    assert off.off
    assert off.mu == off.rho == math.inf


@pytest.mark.parametrize(
    "arguments",
    [(0.0,), (-1.0,), (math.nan,), (1.0, -0.1), (1.0, 1.0), (1.0, math.nan), (1.0, 0.0, 0),
     (1.0, 0.0, 1.5), (1.0, 0.0, True)],
)  # fmt: skip
def test_budget__refuses_nonsense(arguments):
    with pytest.raises(ValueError, match="must"):
        Budget(*arguments)


def test_budget__is_frozen():
    with pytest.raises(AttributeError):
        Budget(1.0).epsilon = 2.0  # type: ignore[misc]


def test_limiter__refuses_the_next_round_and_counts_nothing_for_it():
    limiter = ContributionLimiter(3)
    assert [limiter.admit("ada") for _ in range(5)] == [True, True, True, False, False]
    assert [limiter.admit("bob") for _ in range(4)] == [True, True, True, False]


def test_limiter__keeps_no_id_and_salts_the_hash():
    first, second = ContributionLimiter(1), ContributionLimiter(1)
    first.admit("ada@example.org")
    second.admit("ada@example.org")
    assert "ada@" not in str(first.state_dict())
    assert first.state_dict()["state"]["_seen"] != second.state_dict()["state"]["_seen"]


SAME = [
    (7, "7", b"7", np.int64(7), np.str_("7"), np.uint8(7)),
    ("a", b"a", np.bytes_(b"a")),
    ("caf\u00e9", "cafe\u0301", "cafe\u0301".encode()),
    ("\u212b", "\u00c5", "A\u030a"),
]


@pytest.mark.parametrize("ids", SAME)
def test_pseudonym__one_person_is_one_however_the_id_is_written(ids):
    assert len({pseudonym(b"key", each) for each in ids}) == 1
    for first in ids:
        limiter = ContributionLimiter(1)
        visitors = Visitors()
        assert limiter.admit(first)
        assert visitors.admit(first)
        assert not any(limiter.admit(each) or visitors.admit(each) for each in ids)


def test_pseudonym__text_in_normal_form_has_the_hash_that_stores_hold():
    stored = hmac.digest(b"key", "str:caf\u00e9".encode(), "sha256")[:16]
    assert pseudonym(b"key", "caf\u00e9") == stored


@pytest.mark.parametrize("user", [b"\xff", "\ud800", True, 7.0, None, bytearray(b"a"), ("a",)])
def test_pseudonym__what_is_no_text_is_refused_and_not_quoted(user):
    with pytest.raises(ValueError, match="user id"):
        pseudonym(b"key", user)


def test_limiter__other_ids_are_other_people():
    limiter = ContributionLimiter(1)
    assert all(limiter.admit(each) for each in (7, "07", "7 ", "a", "A"))
    with pytest.raises(ValueError, match="user id"):
        limiter.admit(7.0)  # type: ignore[arg-type]


def test_limiter__resumes():
    limiter = ContributionLimiter(2)
    limiter.admit("ada")
    state = limiter.state_dict()
    with pytest.raises(ValueError, match="other arguments of ContributionLimiter: contributions"):
        ContributionLimiter(3).load_state_dict(state)
    other = ContributionLimiter(2)
    other.load_state_dict(state)
    assert [other.admit("ada"), other.admit("ada")] == [True, False]
    with pytest.raises(ValueError, match="salt"):
        ContributionLimiter(1, salt=b"")


def admitted(limiter):
    """Rounds in which each person was."""
    users = ("ada", "bob", "eve")
    return {user: limiter._seen[limiter._key(user)] for user in users
            if limiter._key(user) in limiter._seen}  # fmt: skip


def test_limiter__an_older_state_readmits_nobody():
    limiter = ContributionLimiter(2)
    limiter.admit("ada")
    old = limiter.state_dict()
    limiter.admit("ada")
    limiter.admit("bob")
    for target in (limiter, ContributionLimiter(2)):
        with pytest.raises(ValueError, match="older"):
            target.load_state_dict(old)
    assert admitted(limiter) == {"ada": 2, "bob": 1}


def test_limiter__a_state_of_another_salt_is_refused_once_someone_was_admitted():
    limiter, other = ContributionLimiter(2), ContributionLimiter(2)
    limiter.admit("ada")
    other.admit("bob")
    with pytest.raises(ValueError, match="another ContributionLimiter"):
        limiter.load_state_dict(other.state_dict())
    assert [limiter.admit("ada") for _ in range(2)] == [True, False]
    with pytest.raises(ValueError, match="salt"):
        ContributionLimiter(2, salt=b"mine").load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    "harm",
    [
        lambda s: s["_seen"].update({"x": 3}),
        lambda s: s["_seen"].update({"x": 0}),
        lambda s: s["_seen"].update({"x": True}),
        lambda s: s.update(_salt=None),
        lambda s: s.update(_salt={"@": "bytes", "of": ""}),
    ],
)
def test_limiter__a_damaged_state_is_refused(harm):
    limiter = ContributionLimiter(2)
    limiter.admit("ada")
    state = limiter.state_dict()
    harm(state["state"])
    with pytest.raises(ValueError, match="damaged"):
        ContributionLimiter(2).load_state_dict(state)


def test_limiter__resumes_from_a_file(tmp_path):
    limiter = ContributionLimiter(1)
    limiter.admit("ada")
    limiter.save(tmp_path / "limiter")
    assert not ContributionLimiter.load(tmp_path / "limiter").admit("ada")


@pytest.mark.parametrize(
    ("epsilon", "delta", "words"),
    [(50.0, 0.0, "odds of e\\^50 to 1"), (1.0, 0.9, "come out as they are")],
)
def test_budget__a_weak_one_warns_in_words_and_the_statement_repeats_it(epsilon, delta, words):
    with pytest.warns(WeakPromiseWarning, match=words):
        Budget(epsilon, delta)
    assert "WEAK: " in Guarantee(epsilon, delta).statement()
    assert "WEAK: " not in Guarantee(1.0, 1e-6).statement()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Budget(10.0, 1e-5)
        Budget(math.inf)  # says NO PRIVACY already


@pytest.mark.parametrize("wrong", [None, "much", [1.0], {}])
@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_budget__what_is_no_number_is_named_in_a_sentence(name, wrong):
    with pytest.raises(ValueError, match=f"{name} must be a number"):
        Budget(**{"epsilon": 1.0, "delta": 1e-6, name: wrong})


def test_budget__keeps_plain_numbers_whatever_kind_they_came_in():
    budget = Budget(np.float32(1.0), np.float32(1e-6), contributions=np.int64(2))
    kinds = [type(x) for x in (budget.epsilon, budget.delta, budget.contributions)]
    assert kinds == [float, float, int]
    assert type(Budget(1.0, 0).delta) is float
