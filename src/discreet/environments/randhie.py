"""The RAND Health Insurance Experiment (1974-1982): people were drawn by lot into insurance plans.

Actions  free (no cost sharing); 25%, 50%, 95% of each bill up to a yearly limit; a deductible for
         each person.
Reward   1 if the year's visits to a doctor fit the person's health, 0 otherwise: at least one
         visit for somebody with a health problem, at most two for somebody without. Care for those
         who need it, thrift for the others: no single plan is the best for everybody.
Problem  self-rated health is fair or poor, or there is a physical limitation.

The data ship with statsmodels (public domain): 20,190 person-years, up to five of the same person
(without an identifier, so intervals that take rows as independent are too narrow).
"""

from functools import cache
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.environments.logs import Log
from discreet.environments.packages import package
from discreet.environments.tables import FeatureTable, TableWorld
from discreet.features import FeatureMap, Number

PLANS = ("free", "25%", "50%", "95%", "deductible")
ENOUGH, PLENTY = 1, 2  # visits: at least, with a problem; at most, without
_CONTEXT = {"problem": Number(0, 1), "diseases": Number(0, 60)}  # public bounds


@cache
def randhie_log() -> Log:
    """The experiment as it was: plan, reward, and how many had that plan as its propensity.

    Plans were drawn by lot, with other probabilities at other sites and in other years, which the
    data do not tell; the fraction of all rows with a plan is an approximation of the design.

    >>> log = randhie_log()
    >>> len(log), log.n_actions, round(log.mean_reward, 2)
    (20190, 5, 0.67)
    """
    frame = _frame()
    plans = _plans(frame)
    fractions = np.bincount(plans, minlength=len(PLANS)) / len(plans)
    return Log(
        "randhie",
        _features(frame),
        plans,
        _rewards(frame),
        fractions[plans],
        len(PLANS),
        all_propensities=np.broadcast_to(fractions, (len(plans), len(PLANS))),
    )


@cache
def randhie_world() -> TableWorld:
    """A world made after the experiment: real people, and rewards by a model of what happened.

    For each plan a logistic regression tells how likely the visits of a person fit; it is fitted
    to the public data set without privacy. Rewards are 0 or 1 with that mean, so regret is
    exact in this world, and an approximation of that in the experiment. Learners see the health
    problem and the number of chronic diseases; the model knows the self-rating and the limitation.
    """
    frame = _frame()
    plans = _plans(frame)
    rewards = _rewards(frame)
    X = _design(frame)
    make = package("sklearn.linear_model").LogisticRegression
    models = [make(max_iter=1000).fit(X[plans == a], rewards[plans == a]) for a in range(5)]
    means = np.column_stack([model.predict_proba(X)[:, 1] for model in models])
    return TableWorld("randhie", _features(frame), means, distribution="zero-one")


def _frame() -> Any:
    return package("statsmodels.datasets.randhie").load_pandas().data


def _plans(frame: Any) -> Any:  # (n,), places in PLANS
    coinsurance = np.expm1(frame["lncoins"].to_numpy())  # 0, 25, 50 or 95 in a hundred
    return np.where(frame["idp"] == 1, 4, np.digitize(coinsurance, [12, 37, 72]))


def _problem(frame: Any) -> Any:
    return (frame["hlthf"] + frame["hlthp"] + (frame["physlm"] >= 0.5) > 0).to_numpy()


def _rewards(frame: Any) -> Array:
    visits = frame["mdvis"].to_numpy()
    fits = np.where(_problem(frame), visits >= ENOUGH, visits <= PLENTY)
    return np.asarray(fits, dtype=np.float64)


def _features(frame: Any) -> FeatureTable:
    columns = {"problem": _problem(frame).astype(np.float64), "diseases": frame["disea"].to_numpy()}
    return FeatureTable(FeatureMap(_CONTEXT, PLANS), columns)


def _design(frame: Any) -> Array:
    problem = _problem(frame)
    diseases = np.clip(frame["disea"].to_numpy() / 60, 0, 1)
    own = frame[["physlm", "hlthg", "hlthf", "hlthp"]].to_numpy()
    return np.column_stack([problem, diseases, problem * diseases, own])
