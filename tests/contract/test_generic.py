"""What every private learner, estimator, baseline and running sum must pass: `REGISTRY`.

Only the release speaks   with mechanisms that hear nothing, two data sets give the same decisions,
                          parameters, policies, guarantees and states
Within the budget         a replaced person moves what enters all releases by what was booked
All or nothing            a call of noise, ledger or linear algebra fails; after a second try, or a
                          resume, no round counts twice and no noise is used twice
Coins                     the number of coins of a round does not depend on data
Copies                    a live private object cannot be copied
"""

import checks
import pytest

from discreet.audit.families import Fitted, Sums
from discreet.audit.registry import PRIVATE


def every(entries=PRIVATE):
    """One test for each entry."""
    return pytest.mark.parametrize("entry", entries.values(), ids=list(entries))


SUMS = {name: entry for name, entry in PRIVATE.items() if isinstance(entry.family, Sums)}
DECIDING = {name: entry for name, entry in PRIVATE.items() if entry.family.contexts()}
# A fitted estimator holds nothing that is still to be released, and scikit-learn copies it.
LIVE = {name: entry for name, entry in PRIVATE.items() if not isinstance(entry.family, Fitted)}


@every()
def test_only_the_release_speaks(entry):
    assert checks.only_the_release_speaks(entry) == []


@every()
def test_a_replaced_person_costs_what_was_booked(entry):
    assert checks.within_the_budget(entry) == []


@every()
def test_all_or_nothing(entry):
    """Of each entry other calls fail: configurations of one class share most of their code."""
    shift = list(PRIVATE).index(entry.name)
    assert checks.all_or_nothing(entry, most=16, shift=shift) == []


@every(SUMS)
def test_running_sum__a_row_counts_once_whatever_fails(entry):
    assert checks.running_sum_counts_once(entry) == []


@every(DECIDING)
def test_coins__their_number_does_not_depend_on_the_context(entry):
    assert checks.coins_do_not_depend_on_data(entry) == []


@every(LIVE)
def test_copies__are_refused(entry):
    assert checks.copies_are_refused(entry) == []
