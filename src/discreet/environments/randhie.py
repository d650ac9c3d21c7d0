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

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from discreet.arrays import Array
from discreet.environments.logs import Log
from discreet.environments.tables import FeatureTable, TableWorld, data_file
from discreet.features import FeatureMap, Number

PLANS = ("free", "25%", "50%", "95%", "deductible")
ENOUGH, PLENTY = 1, 2  # visits: at least, with a problem; at most, without
_CONTEXT = {"problem": Number(0, 1), "diseases": Number(0, 60)}  # public bounds
# For each plan: the intercept, then problem, diseases, problem * diseases, limitation, and health
# rated good, fair, poor. Fitted once by scikit-learn's LogisticRegression, whose versions stop
# at points that differ in the third digit of a probability: the world must not.
_MODELS = np.array([
    (0.6999211596162961, -0.023813205795994736, -2.7594267412851425, 4.3297942903298505,
     0.6982661325109804, 0.09784099929672649, -0.16904364007316253, 0.2732401719126059),
    (1.1242504009242615, -0.739916220696508, -2.2278303862940794, 5.146892980756911,
     0.40499062052302914, -0.008606339073098546, -0.7113148841910356, -0.4754341083241765),
    (1.144126562462404, 0.1951217115159093, -2.3716879555015744, 1.7205481976603034,
     -0.9096328313988423, 0.10863701707510634, -0.4333775372983908, 0.12220711154669069),
    (1.4038221919050435, -2.450871276770216, -1.7152627361886892, 2.885922450357299,
     1.2279814697672604, 0.3225566428016034, 1.2378167388685757, 0.9318052673826863),
    (1.294551494040734, -1.3659822304267328, -2.04176501005484, 3.7525314972783526,
     0.613529938002863, -0.07606927938881217, 0.04667482693188769, -0.03558605835797685),
])  # fmt: skip

_Columns = dict[str, Array]


@cache
def randhie_log() -> Log:
    """The experiment as it was: plan, reward, and how many had that plan as its propensity.

    Plans were drawn by lot, with other probabilities at other sites and in other years, which the
    data do not tell; the fraction of all rows with a plan is an approximation of the design.

    >>> log = randhie_log()
    >>> len(log), log.n_actions, round(log.mean_reward, 2)
    (20190, 5, 0.67)
    """
    columns = randhie_columns()
    plans = _plans(columns)
    fractions = np.bincount(plans, minlength=len(PLANS)) / len(plans)
    return Log(
        "randhie",
        _features(columns),
        plans,
        _rewards(columns),
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
    columns = randhie_columns()
    X = _design(columns)
    means = np.column_stack([expit(X @ model[1:] + model[0]) for model in _MODELS])
    return TableWorld("randhie", _features(columns), means, distribution="zero-one")


def randhie_columns() -> dict[str, Array]:
    """The RAND Health Insurance Experiment of statsmodels: columns by name, 20,190 rows each."""
    with data_file("statsmodels", "datasets/randhie/randhie.csv").open(encoding="utf-8") as file:
        names = file.readline().strip().split(",")
        return dict(zip(names, np.loadtxt(file, delimiter=",").T, strict=True))


def _plans(columns: _Columns) -> NDArray[np.intp]:  # (n,), places in PLANS
    coinsurance = np.expm1(columns["lncoins"])  # 0, 25, 50 or 95 in a hundred
    return np.where(columns["idp"] == 1, 4, np.digitize(coinsurance, [12, 37, 72]))


def _problem(columns: _Columns) -> Array:  # 0 or 1
    rated = columns["hlthf"] + columns["hlthp"]
    return ((rated > 0) | (columns["physlm"] >= 0.5)).astype(np.float64)


def _rewards(columns: _Columns) -> Array:
    visits = columns["mdvis"]
    fits = np.where(_problem(columns), visits >= ENOUGH, visits <= PLENTY)
    return np.asarray(fits, dtype=np.float64)


def _features(columns: _Columns) -> FeatureTable:
    context = {"problem": _problem(columns), "diseases": columns["disea"]}
    return FeatureTable(FeatureMap(_CONTEXT, PLANS), context)


def _design(columns: _Columns) -> Array:
    problem = _problem(columns)
    diseases = np.clip(columns["disea"] / 60, 0, 1)
    own = [columns[name] for name in ("physlm", "hlthg", "hlthf", "hlthp")]
    return np.column_stack([problem, diseases, problem * diseases, *own])
