"""Private model selection: blocks of rows vote, and the chosen candidate is fitted once.

    here    B blocks of rows, disjoint, by public coins
            v_b = the candidate with the best score in block b
            h = sum_b e(v_b) + N(0, s^2 I),   s = sqrt(2) / mu_s      released: the votes
            one fit of argmax h on all rows, mu_f-GDP,                mu_s^2 + mu_f^2 = mu^2

Neighbours differ in one row replaced. It lies in one block, whatever that block computes with it,
so one vote moves from a candidate to another: sqrt(2) in l2 (a person of k rows: k sqrt(2)). What
goes on inside a block is never released; a candidate that fails there has the lowest score. So
the number of candidates, and how dear their fits are, cost nothing: only the votes do.

Inside a block a candidate is fitted with noise too, drawn for the trial: with mu' = mu_f n / n' on
n' of n rows its error from noise, which goes like 1/(n mu), is that of the fit to come.

Sample and aggregate (Nissim, Raskhodnikova, Smith 2007, section 4) with the noisy plurality of PATE
(Papernot et al. 2018, section 3.1). Compare Papernot and Steinke (2022), who fit at a share of the
budget that does not fall with the number of candidates either, but pays for the choice among fits
with about two thirds of epsilon; here most of it is left for the one fit that is kept.
"""

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import ParameterGrid
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from discreet.arrays import Array, integer
from discreet.privacy import Budget, Guarantee, Ledger, SeededNoise
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.ledger import purposeful
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.noise import Noise, source
from discreet.privacy.release import unpublished
from discreet.regression.base import ALONE, WITH_A_LEDGER, PrivateEstimator
from discreet.regression.classes import ToNumbers
from discreet.regression.held_out import PrivateScore, score_private
from discreet.regression.rows import is_distributed
from discreet.regression.surroundings import leaks_around
from discreet.state.fitted import Saveable

Scoring = Callable[[Any, Any, Any], float]
FOLDS = 2  # of a block: each is predicted by a fit to the other
CLEAR = 3.0  # standard deviations that tell the votes of all blocks from none
LEAST_ROWS = 60  # of a block
PLAIN_BLOCKS = 10  # without noise
LEAST_PROBABILITY = 1e-6  # of a class, in the score


@dataclass(eq=False, repr=False)
class PrivateSearchCV(Saveable, BaseEstimator):  # type: ignore[misc]
    """A search over parameters with one budget: that of the estimator it is given.

    Requires   an estimator of this package under central trust, or a pipeline that ends in one; the
               steps before it must learn nothing from rows (`DeclaredEncoder`). Candidates are
               public.
    Guarantee  (epsilon, delta), central, for all that can be read off the search: the choice, its
               fit and the noisy votes. `best_estimator_.guarantee_` is that of the last fit alone.

    Parameters
    estimator    what is fitted; its epsilon, delta, contributions and noise are those of the search
    param_grid   values to try for each parameter, as scikit-learn has it; or a list of such grids
    selection    the fraction of mu^2 for the votes; the fit has the rest
    blocks       how many blocks vote; None: enough to see a clear majority, of 60 rows at least
    test         the fraction of the rows that are held out, and of mu^2 that `score_private` has to
                 score the chosen fit on them: `score_`; None: no score
    scoring      a function of (fitted estimator, X, y), large where it is good; None: the mean
                 log-likelihood of a classifier, the negative mean squared error of a regressor

    >>> from discreet.regression import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 3))
    >>> y = X @ [0.5, -0.2, 0.1] + 0.1 * rng.standard_normal(20_000)
    >>> model = PrivateLinearRegression(1.0, norm_bound=2.0, label_bound=1.0, fit_intercept=False,
    ...                                 random_state=0)
    >>> search = PrivateSearchCV(model, {"label_bound": [0.1, 1.0]}, blocks=40).fit(X, y)
    >>> search.best_params_, round(search.guarantee_.epsilon_at(1e-6), 6)
    ({'label_bound': 1.0}, 1.0)
    """

    _fitted = (
        "best_estimator_",
        "best_params_",
        "best_index_",
        "candidates_",
        "votes_",
        "guarantee_",
    )

    estimator: Any
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    selection: float = 0.15
    blocks: int | None = None
    test: float | None = None
    scoring: Scoring | None = None
    best_estimator_: Any = field(init=False)
    best_params_: dict[str, Any] = field(init=False)
    best_index_: int = field(init=False)
    candidates_: list[dict[str, Any]] = field(init=False)
    votes_: Array = field(init=False)
    guarantee_: Guarantee = field(init=False)
    score_: PrivateScore = field(init=False)

    def fit(
        self, X: Any, y: Any, *, ledger: Ledger | None = None, purpose: str | None = None
    ) -> Self:
        """Choose by the votes of blocks, then fit the chosen candidate to all rows.

        `ledger` counts the whole search together with other fits, under the name of its `purpose`,
        or refuses it before X and y are looked at.
        """
        last = _last(self.estimator)[1]
        if not isinstance(last, PrivateEstimator) or last.trust != "central":
            raise ValueError(
                "estimator must be a private one under central trust, or a pipeline that ends in "
                f"one; got {type(last).__name__}"
            )
        leaks = leaks_around(stacklevel=2)
        candidates = grid(self.param_grid)
        for candidate in candidates:  # unknown parameters are an error before the data are read
            copied(self.estimator).set_params(**candidate)
        budget = Budget(last.epsilon, last._delta(), last.contributions)
        if ledger is None:
            if purpose is not None:
                raise ValueError("purpose names a search in a ledger: pass the ledger too")
            return self._fit(X, y, candidates, Ledger(budget), (ALONE, *leaks))
        what = purposeful(purpose, f"a search over fits of {type(last).__name__}")
        with ledger.part(budget, what=what) as part:
            return self._fit(X, y, candidates, part, (WITH_A_LEDGER, *leaks))

    def predict(self, X: Any) -> Any:
        """What the chosen estimator predicts."""
        return self._best().predict(X)

    def predict_proba(self, X: Any) -> Array:
        """The chosen classifier's probabilities."""
        probabilities: Array = self._best().predict_proba(X)
        return probabilities

    def score(self, X: Any, y: Any) -> float:
        """The chosen estimator's own score on X, y: on raw data, not a private release."""
        return float(self._best().score(X, y))

    @property
    def coef_(self) -> Array:
        """The coefficients of the chosen estimator."""
        coefficients: Array = _last(self._best())[1].coef_
        return coefficients

    @property
    def intercept_(self) -> Any:
        """The intercept of the chosen estimator."""
        return _last(self._best())[1].intercept_

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of the chosen classifier."""
        return np.asarray(self._best().classes_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """As estimators save; only where the chosen one is no pipeline, which no file can hold."""
        if not isinstance(self._best(), Saveable):
            raise ValueError(
                "no file can hold a pipeline: save the last step of best_estimator_, and keep the "
                "promise of the search with it (guarantee_.to_dict())"
            )
        super().save(path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")

    def __sklearn_tags__(self) -> Any:
        """Those of the estimator."""
        return getattr(self, "best_estimator_", self.estimator).__sklearn_tags__()

    # -- inside -----------------------------------------------------------------------------------

    def _fit(
        self,
        X: Any,
        y: Any,
        candidates: list[dict[str, Any]],
        ledger: Ledger,
        around: tuple[str, ...],
    ) -> Self:
        if is_distributed(X) or is_distributed(y):
            raise ValueError("a search needs rows in memory; choose on a sample, then fit to all")
        prefix, last = _last(self.estimator)
        budget = ledger.budget
        if not 0 < self.selection < 1:
            raise ValueError(f"selection must lie between 0 and 1, got {self.selection!r}")
        if self.test is not None and not 0 < self.test < 1 - self.selection:
            raise ValueError(f"test must lie between 0 and 1 - selection, got {self.test!r}")
        scoring, epsilon, mu_s, mu_f = _split(budget, self.selection, self.test or 0.0)
        noise, rng = _randomness(last)
        n = _length(X)
        if n != _length(y):
            raise ValueError(f"X has {n} rows and y has {_length(y)} labels")
        if self.test is not None:  # public coins say which rows are held out
            places = rng.permutation(n)
            held_out, others = np.split(places, [math.ceil(self.test * n)])
            unseen = _safe_indexing(X, held_out), _safe_indexing(y, held_out)
            X, y, n = _safe_indexing(X, others), _safe_indexing(y, others), len(others)
        parts = np.array_split(rng.permutation(n), self._blocks(n, mu_s, budget.contributions))
        with unpublished():
            chosen = [self._vote(X, y, part, candidates, mu_f * n, rng) for part in parts]
        # A replaced row is in one block, whose vote leaves one candidate and reaches another:
        # sqrt(2) in l2; k rows of a person are in at most k blocks.
        votes, _ = Mechanisms(noise, ledger).gaussian(
            np.bincount(chosen, minlength=len(candidates)).astype(np.float64),
            sensitivity=budget.contributions * math.sqrt(2),
            mu=mu_s,
            what=f"votes of {len(parts)} blocks",
        )
        best = int(np.argmax(votes))
        model = copied(self.estimator).set_params(**candidates[best])
        model.set_params(**{f"{prefix}epsilon": epsilon, f"{prefix}delta": budget.delta})
        model.fit(X, y, **{f"{prefix}ledger": ledger})
        self.__dict__.pop("score_", None)
        if self.test is not None:
            self.score_ = score_private(
                model, *unseen, scoring, budget.delta, contributions=budget.contributions,
                ledger=ledger, noise=noise,
            )  # fmt: skip
        promise = ledger.guarantee(
            unprotected=(
                "the candidates, which must be public",
                *(each for each in _last(model)[1].guarantee_.unprotected if each != WITH_A_LEDGER),
                *around,
            ),
            reference=(
                "sample and aggregate (Nissim, Raskhodnikova and Smith 2007), noisy plurality of "
                "blocks; then " + _last(model)[1].guarantee_.reference
            ),
            record="row",
        )
        self.__dict__.update(
            best_estimator_=model,
            best_params_=candidates[best],
            best_index_=best,
            candidates_=candidates,
            votes_=votes,
            guarantee_=promise,
        )
        return self

    def _blocks(self, n: int, mu: float, k: int) -> int:
        """From public quantities: votes of all blocks differ from none by CLEAR noise stds."""
        if self.blocks is not None:
            return integer("blocks", self.blocks)
        enough = PLAIN_BLOCKS if math.isinf(mu) else math.ceil(CLEAR * 2 * k / mu)
        return max(1, min(enough, n // LEAST_ROWS))

    def _vote(
        self,
        X: Any,
        y: Any,
        places: NDArray[np.int64],
        candidates: list[dict[str, Any]],
        precision: float,
        rng: np.random.Generator,
    ) -> int:
        """The candidate with the best score in a block; total, and never released itself."""
        folds = np.array_split(places, FOLDS)
        seeds = rng.integers(2**31, size=FOLDS)  # the same noise for every candidate
        totals = np.zeros(len(candidates))
        for i, test in enumerate(folds):
            train = np.concatenate([fold for j, fold in enumerate(folds) if j != i])
            data = (
                _safe_indexing(X, train),
                _safe_indexing(y, train),
                _safe_indexing(X, test),
                _safe_indexing(y, test),
            )
            for c, candidate in enumerate(candidates):
                totals[c] += self._trial(candidate, data, precision, int(seeds[i]))
        return int(np.argmax(np.nan_to_num(totals, nan=-np.inf, posinf=0.0, neginf=-np.inf)))

    def _trial(
        self, candidate: dict[str, Any], data: tuple[Any, ...], precision: float, seed: int
    ) -> float:
        """The score of a candidate, fitted to some rows with noise as strong as on all rows."""
        X, y, test_X, test_y = data
        prefix, last = _last(self.estimator)
        mu = precision / max(int(X.shape[0]) if hasattr(X, "shape") else len(X), 1)
        epsilon = math.inf if math.isinf(mu) else gaussian_epsilon(mu, last._delta())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = copied(self.estimator).set_params(**candidate)
                trial = {"epsilon": epsilon, "noise": None, "random_state": seed}
                model.set_params(**{f"{prefix}{name}": each for name, each in trial.items()})
                return float((self.scoring or default_score)(model.fit(X, y), test_X, test_y))
        except Exception:  # an exception is an output; here it is a low score
            return -math.inf

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_


def _split(budget: Budget, selection: float, test: float) -> tuple[float, float, float, float]:
    """epsilon of the score and of the fit, mu of the votes and of the fit: squares add up to mu^2.

    The fit is charged what its epsilon costs, which is not exactly the mu that it was computed
    from; the votes have what that leaves, so that all together are never refused.
    """
    if budget.off:
        return math.inf, math.inf, math.inf, math.inf
    shares = (test, 1 - selection - test)
    scoring, epsilon = (
        gaussian_epsilon(budget.mu * math.sqrt(share), budget.delta) if share else 0.0
        for share in shares
    )
    mu_t, mu_f = (Budget(each, budget.delta).mu if each else 0.0 for each in (scoring, epsilon))
    rest = budget.mu**2 - mu_f**2 - mu_t**2
    if not rest > 0:
        raise ValueError(f"selection = {selection!r} leaves nothing for the votes; take more")
    return scoring, epsilon, math.sqrt(rest), mu_f


def grid(
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
) -> list[dict[str, Any]]:
    """All candidates of a grid, or of several.

    >>> grid({"a": [1, 2], "b": ["x"]})
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    """
    try:
        found: list[dict[str, Any]] = list(ParameterGrid(param_grid))
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not found:
        raise ValueError("param_grid must have at least one candidate")
    tried = {name.split("__")[-1] for candidate in found for name in candidate}
    if tried & {"epsilon", "delta", "contributions", "trust", "noise", "random_state"}:
        raise ValueError(
            "a search has the budget, trust and noise of its estimator: try other parameters"
        )
    return found


def default_score(model: Any, X: Any, y: Any) -> float:
    """Mean log-likelihood of labels, or negative mean squared error."""
    if not hasattr(model, "predict_proba"):
        return -float(np.mean((np.asarray(y, dtype=np.float64) - model.predict(X)) ** 2))
    numbers = ToNumbers(np.asarray(model.classes_))(y)
    same = numbers[:, None] == np.arange(len(model.classes_))
    likelihood = np.where(same, model.predict_proba(X), 0.0).sum(axis=1)
    return float(np.mean(np.log(np.maximum(likelihood, LEAST_PROBABILITY))))


def copied(estimator: Any) -> Any:
    """The same estimator, or pipeline, not fitted; noise and public rows are shared."""
    parameters = estimator.get_params(deep=False)
    if hasattr(estimator, "steps"):
        steps = [
            (n, each if isinstance(each, str) else copied(each)) for n, each in estimator.steps
        ]
        parameters = {**parameters, "steps": steps}
    return type(estimator)(**parameters)


def _length(data: Any) -> int:
    return int(data.shape[0]) if hasattr(data, "shape") else len(data)


def _last(estimator: Any) -> tuple[str, Any]:
    """The private estimator of a pipeline, and how its parameters begin."""
    if hasattr(estimator, "steps"):
        name, last = estimator.steps[-1]
        return f"{name}__", last
    return "", estimator


def _randomness(last: PrivateEstimator) -> tuple[Noise, np.random.Generator]:
    """Noise for the votes, and coins for the blocks: not those that the last fit will draw."""
    noise, rng = last._randomness()
    seed = [int(each) for each in rng.integers(2**31, size=4)]
    coins = np.random.default_rng(seed)
    if last.noise is None and last.random_state is not None:
        return SeededNoise(int(coins.integers(2**62))), coins
    return source(noise), coins
