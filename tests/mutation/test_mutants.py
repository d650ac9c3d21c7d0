"""Attacks on ourselves: every planted bug is caught, and the library as it stands is not.

An alarm of an audit is wrong with probability 1e-4 at most; every other detector computes, and is
never wrong. Seeds are fixed. `pytest -v` prints the number that catches each bug, and
benchmarks/mutations.py the whole table.
"""

import pytest
from mutants import MUTANTS, Edit, by_registry, words

ROOMS = (
    "mechanisms",
    "ledger",
    "local channels",
    "PrefixSum, tree",
    "PrefixSum, blt",
    "regression, central",
    "regression, local",
    "LinearBandit, joint",
    "LinearBandit, local",
    "LinearBandit, shuffled",
    "ContinualLinUCB",
    "FTRL",
    "AdversarialBandit, central",
    "AdversarialBandit, local",
    "BarrierBandit, central",
    "BarrierBandit, local",
    "Doubling",
    "ProjectionFreeBandit",
    "StreamingFrankWolfe, p > 1",
    "StreamingFrankWolfe, p = 1",
    "SparseBandit",
    "ABTest",
    "evaluate",
)


def each(mutant):
    return pytest.param(mutant, id=words(f"{mutant.room} {mutant.name}"))


# Those whose detector is an attack of the library; that it raises no alarm: tests/audit.
AUDITED = [mutant for mutant in MUTANTS if mutant.kind == "audit" and mutant.attack]


@pytest.mark.parametrize("mutant", [each(m) for m in MUTANTS if m not in AUDITED])
def test_library__raises_no_alarm(mutant):
    found = mutant.catch()
    assert not mutant.caught(found), f"{found:.4g} {mutant.unit}, claim {mutant.claim:g}"


@pytest.mark.parametrize("mutant", [each(m) for m in MUTANTS])
def test_planted_bug__is_caught(mutant, note):
    with mutant.plant():
        found = mutant.catch()
    note(f"{mutant.room}: {mutant.name}: {found:.4g} > {mutant.claim:g} {mutant.unit}")
    assert mutant.caught(found), f"{found:.4g} {mutant.unit}, claim {mutant.claim:g}"


@pytest.mark.thorough
@pytest.mark.parametrize("mutant", [each(m) for m in MUTANTS if m.attack and m not in AUDITED])
def test_planted_bug__is_caught_by_an_attack_of_the_library(mutant, note):
    """Pairs that were seen to work; `Mutant.tried` names those that were tried and do not."""
    with mutant.plant():
        bound, claim = by_registry(mutant.attack)
    note(f"{mutant.attack}: {mutant.name}: {bound:.4g} > {claim:g} epsilon")
    assert bound > claim


def test_table__has_every_room_and_names_each_bug_once():
    assert {mutant.room for mutant in MUTANTS} >= set(ROOMS)
    names = [(mutant.room, mutant.name) for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 15
    assert {mutant.kind for mutant in MUTANTS} <= {
        "audit",
        "sensitivity",
        "ledger",
        "state",
        "law",
        "trace",
        "contract",
    }


def test_plant__changes_the_library_and_takes_it_back():
    from discreet.privacy.noise import Noise, SeededNoise

    kept, honest = Noise.gaussian, SeededNoise(0).gaussian(1.0, 3)
    with Edit("privacy.noise:Noise.gaussian", "std * self", "std / 2 * self").planted():
        assert (SeededNoise(0).gaussian(1.0, 3) == honest / 2).all()
    assert Noise.gaussian is kept


def test_plant__a_target_that_was_rewritten_fails_aloud():
    gone = Edit("privacy.noise:Noise.gaussian", "no such text", "")
    with pytest.raises(LookupError, match="rewrite the mutant"), gone.planted():
        pass
