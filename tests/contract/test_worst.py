"""Each release of each public class: the worst pair that we know moves it by what is booked.

No further, which would be a leak; and no less than is known of it (`worst.LESS` has the reasons),
which would be noise that people pay for. Computed, without chance.
"""

import warnings

import pytest
from worst import LESS, expects, records, searched

from discreet.audit.registry import PRIVATE

# Of policies and links that share their releases one is enough; a report is of any two records.
ALIKE = ("thompson", "elimination", "squarecb", "greedy", "half-life", "holdout 0", "probit",
         "local", "Local", "shuffled")  # fmt: skip
ENTRIES = {name: each for name, each in PRIVATE.items() if not any(a in name for a in ALIKE)}


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
def test_sensitivity__is_reached_and_not_exceeded(entry):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits to sixty rows
        found = searched(entry, records(entry), enough=0.0)
    assert found
    for what, fraction in found.items():
        least, _ = expects(f"{entry.name}: {what}")
        assert least <= fraction <= 1 + 1e-9, f"{what}: {fraction:.4g} of what is booked"


def test_reasons__are_words():
    assert all(0 <= least < 1 and why for least, why in LESS.values())
