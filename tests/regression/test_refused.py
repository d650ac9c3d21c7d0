"""A refused fit leaves nothing behind: not in the estimator, and not in a file saved later."""

import numpy as np
import pytest

from discreet.privacy import Budget, BudgetSpent, Ledger
from discreet.regression import (
    OLS,
    AdaSSP,
    PrivateGLM,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
)
from discreet.regression.baselines import SSP, DPGradientDescent

LINEAR = PrivateLinearRegression(random_state=0)
MODELS = [
    LINEAR,
    PrivateLinearRegression(trust="local", random_state=0),
    PrivateLinearRegression(trust="shuffled", random_state=0),
    PrivateGLM(link="poisson", label_bound=3.0, fit_intercept=True, random_state=0),
    PrivateLogisticRegression(classes=(0, 1), random_state=0),
    PrivateLogisticRegression(classes=(0, 1, 2), coef_bound=2.0, random_state=0),
    AdaSSP(random_state=0),
    SSP(random_state=0),
    DPGradientDescent(random_state=0),
    OLS(),
    PrivateSearchCV(LINEAR, {"label_bound": [0.1, 1.0]}, blocks=2),
]


@pytest.fixture(params=MODELS, ids=str)
def model(request):
    given = request.param
    return type(given)(**given.get_params(deep=False))


def rows():
    rng = np.random.default_rng(0)
    return rng.uniform(-0.5, 0.5, (200, 2)), rng.integers(0, 2, 200)


def attributes(model):
    return dict(vars(model))


def unchanged(model, before):
    after = attributes(model)
    return after.keys() == before.keys() and all(after[name] is before[name] for name in before)


def late_failure(*_, **__):
    raise RuntimeError("after the last release")


def refuse(model, how, monkeypatch):
    """A fit that fails: at its labels, at the budget, or at the very end."""
    X, y = rows()
    if how == "labels":
        with pytest.raises(ValueError, match="rows and y has"):
            model.fit(X, y[:-1])
    elif how == "budget":
        if isinstance(model, OLS):
            pytest.skip("it spends nothing")
        # A shuffled fit has no price beside others, so that no ledger takes it.
        error = ValueError if model.get_params().get("trust") == "shuffled" else BudgetSpent
        with pytest.raises(error):
            model.fit(X, y, ledger=Ledger(Budget(0.01, 1e-9)))
    else:
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "guarantee", late_failure)
            with pytest.raises(RuntimeError):
                model.fit(X, y)


HOW = ["labels", "budget", "end"]


@pytest.mark.parametrize("how", HOW)
def test_refused_fit__leaves_nothing_but_the_arguments(model, how, monkeypatch):
    before = attributes(model)
    refuse(model, how, monkeypatch)
    assert unchanged(model, before)


@pytest.mark.parametrize("how", HOW)
def test_refused_fit__after_another_leaves_the_first_as_it_was(model, how, monkeypatch):
    model.fit(*rows())
    before = attributes(model)
    refuse(model, how, monkeypatch)
    assert unchanged(model, before)


def test_refused_fit__no_label_of_anybody_reaches_a_saved_model(tmp_path):
    X, y = rows()
    named = np.where(y == 1, "yes", "no").astype(object)
    model = PrivateLogisticRegression(classes=("no", "yes"), random_state=0).fit(X, named)
    secret = named.copy()
    secret[7] = "Ada has measles"
    with pytest.raises(ValueError, match="rows and y has"):
        model.fit(X[:-1], secret)
    model.save(tmp_path / "refused")
    model.fit(X, secret).save(tmp_path / "fitted")
    for name in ("refused", "fitted"):
        assert b"measles" not in (tmp_path / name).read_bytes()
