"""Bounds and the intercept: what was not stated is said at every fit, and never read off data."""

import copy
import pickle
import warnings

import numpy as np
import pytest

from discreet.regression import (
    OLS,
    SSP,
    AdaSSP,
    DPGradientDescent,
    PrivateGLM,
    PrivateLinearRegression,
    UnstatedWarning,
)

ESTIMATORS = [PrivateLinearRegression, PrivateGLM, AdaSSP, SSP, DPGradientDescent, OLS]
STATED = {"norm_bound": 1.0, "label_bound": 1.0, "fit_intercept": False}
X = np.full((60, 2), 0.3)
INSIDE = np.linspace(0, 1, 60)


def warned(model, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(each.message) for each in caught if each.category is UnstatedWarning]


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("missing", [*STATED, "all"])
def test_fit__warns_of_what_was_not_stated_whatever_the_labels_are(make, missing):
    stated = {} if missing == "all" else {k: v for k, v in STATED.items() if k != missing}
    inside, beyond = warned(make(**stated), INSIDE), warned(make(**stated), 1e6 * INSIDE)
    assert inside == beyond  # a warning that looked at the labels would be a release
    assert len(inside) == 1
    for name in STATED:
        assert (name in inside[0]) == (missing in (name, "all"))


@pytest.mark.parametrize("make", ESTIMATORS)
def test_fit__is_silent_where_everything_is_stated(make):
    assert warned(make(**STATED), INSIDE) == []


def test_fit__a_classifier_is_told_that_labels_are_0_and_1():
    (message,) = warned(PrivateGLM(norm_bound=1.0, fit_intercept=False), 1 + INSIDE.round())
    assert "1 and 2 would all be 1" in message


def test_unstated__counts_as_1_and_no_intercept_and_survives_copies():
    plain, stated = (
        PrivateLinearRegression(random_state=0),
        PrivateLinearRegression(random_state=0, **STATED),
    )
    assert plain.get_params()["norm_bound"] is None
    for model in (plain, copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))):
        assert warned(model, INSIDE)
        assert np.array_equal(model.coef_, stated.fit(X, INSIDE).coef_)
        assert model.intercept_ == 0.0
    assert repr(plain) == "PrivateLinearRegression(random_state=0)"
