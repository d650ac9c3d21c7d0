"""Each release of each public class: the worst pair that we know moves it by what is booked.

No further, which would be a leak; and no less than is known of it (`worst.LESS` has the reasons),
which would be noise that people pay for. Computed, without chance.
"""

import inspect
import warnings
from dataclasses import replace

import pytest
from worst import LESS, expects, kind_of, records, searched

from discreet.audit.entries import Entry, Session
from discreet.audit.families import Fitted
from discreet.audit.registry import PRIVATE
from discreet.privacy.release import Release, observed
from discreet.regression import PrivateScore

MANY = 3  # rounds of one person

# Of policies and links that share their releases one is enough; a report is of any two records.
ALIKE = ("thompson", "elimination", "squarecb", "greedy", "half-life", "holdout 0", "probit",
         "identity central newton", "4 classes", "toeplitz", "public-covariates", "intercept",
         "PrivateSearchCV", "identity central sgd", "poisson central sgd", "LinUCB blt",
         "local", "Local", "shuffled")  # fmt: skip
ENTRIES = {name: each for name, each in PRIVATE.items() if not any(a in name for a in ALIKE)}
for _name, _family, _more in (
    ("PrivateLinearRegression central information-weighted", Fitted(), {"epsilon": 60.0}),
    ("PrivateGLM poisson central newton", Fitted((0.0, 20.0)), {"label_bound": 20.0}),
):  # as for many rows; counts beyond 0 and 1
    _known = PRIVATE[_name]
    _arguments = {**_known.arguments, **_more}
    ENTRIES[f"{_name}, {_more}"] = replace(_known, family=_family, arguments=_arguments)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=list(ENTRIES))
def test_sensitivity__is_reached_and_not_exceeded(entry):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits to sixty rows
        found = searched(entry, records(entry), enough=0.0)
    assert found
    for what, fraction in found.items():
        least, _ = expects(f"{entry.name}: {what}")
        assert least <= fraction <= 1 + 1e-9, f"{what}: {fraction:.4g} of what is booked"


def several(entry: Entry) -> Entry | None:
    """The same for people of three rounds, if it can say so."""
    known = inspect.signature(entry.build or entry.of).parameters
    if "contributions" not in known and entry.of is not PrivateScore:
        return None
    return replace(entry, arguments={**entry.arguments, "contributions": MANY})


def releases(entry: Entry) -> tuple[Release, ...]:
    """Those of a run, which are booked; nothing else has left."""
    session = Session(entry.make())
    with warnings.catch_warnings(), observed("release", "choice") as seen:
        warnings.simplefilter("ignore")
        for _, _, step in entry.steps(entry.data(0)):
            step(session)
    promise = entry.promise(session)
    assert promise.contributions == entry.arguments.get("contributions", 1)
    booked = {(each.mechanism, each.sensitivity, each.scale) for each in promise.releases}
    for _, _, each in seen:
        assert (each.mechanism, each.sensitivity, each.scale) in booked, f"not booked: {each.what}"
    return promise.releases


PEOPLE = {
    name: (each, found)
    for name, each in PRIVATE.items()
    if (found := several(each)) and not any(a in name for a in ("probit", " public", "shuffled"))
}


@pytest.mark.parametrize(("one", "three"), PEOPLE.values(), ids=list(PEOPLE))
def test_contributions__are_paid_for_in_each_release(one, three):
    """Each kind of release moves as far as three rounds can, or says that there are three."""
    booked: list[dict[str, float]] = [{}, {}]
    for side, entry in zip(booked, (one, three), strict=True):
        for each in releases(entry):
            if each.norm == "any two records":
                assert each.what.startswith(f"{entry.arguments.get('contributions', 1)} report(s)")
            # Later releases are calibrated by earlier ones: the first of a kind is compared.
            side.setdefault(kind_of(each), each.sensitivity)
    for what in booked[0].keys() & booked[1].keys():
        assert booked[1][what] > 1.2 * booked[0][what] or "report" in what, what


def test_reasons__are_words():
    assert all(0 <= least < 1 and why for least, why in LESS.values())
