"""A pipeline that can do what its private estimator can: intervals, summaries, files."""

import os
from collections.abc import Mapping
from typing import Any, Self

from sklearn.pipeline import Pipeline

from discreet.arrays import Array
from discreet.encoder import DeclaredEncoder
from discreet.privacy import Guarantee
from discreet.regression.base import PrivateEstimator
from discreet.regression.inference import Summary
from discreet.state.fitted import Saveable


class PrivatePipeline(Saveable, Pipeline):  # type: ignore[misc]
    """scikit-learn's pipeline, from tables to a private fit, its intervals and its file.

    Requires   a private estimator as the last step; steps before it that learn nothing from rows
               (`DeclaredEncoder`) keep its promise.
    Guarantee  that of the last step, `guarantee_`.

    Parameters
    steps            names and steps; of the estimator its fit's argument `ledger` is
                     NAME__ledger here
    transform_input  as scikit-learn has it
    memory           as scikit-learn has it
    verbose          as scikit-learn has it

    >>> import numpy as np
    >>> from discreet.features import Category, DeclaredEncoder, Number
    >>> from discreet.regression import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> table = {"age": rng.uniform(20, 60, 5000), "sex": rng.choice(["F", "M"], 5000)}
    >>> y = 100 + table["age"] + 5 * (table["sex"] == "M") + 3 * rng.standard_normal(5000)
    >>> model = PrivatePipeline([
    ...     ("encode", DeclaredEncoder({"age": Number(18, 98), "sex": Category("F", "M")})),
    ...     ("fit", PrivateLinearRegression(1.0, label_range=(60, 220), fit_intercept=True,
    ...                                     random_state=0)),
    ... ]).fit(table, y)
    >>> sex = model.contrast({"sex": ("M", "F")}).effects[0]
    >>> sex.low < 5 < sex.high
    True
    >>> model.predict_interval({"age": [40], "sex": ["F"]}).round(-1)
    array([[130., 150.]])
    """

    @property
    def guarantee_(self) -> Guarantee:
        """The promise of the last step."""
        promise: Guarantee = self._final_estimator.guarantee_
        return promise

    def predict_interval(self, X: Any, coverage: float = 0.95) -> Array:
        """Where the label of a row lies, as the last step says."""
        found: Array = self._final_estimator.predict_interval(self._rows(X), coverage)
        return found

    def confidence_width(self, X: Any, coverage: float = 0.95) -> Array:
        """Half widths around predicted means, as the last step says."""
        found: Array = self._final_estimator.confidence_width(self._rows(X), coverage)
        return found

    def predict_proba_interval(self, X: Any, coverage: float = 0.95) -> Array:
        """Ends of intervals for probabilities, as the last step says."""
        found: Array = self._final_estimator.predict_proba_interval(self._rows(X), coverage)
        return found

    def summary(self, *, coverage: float = 0.95) -> Summary:
        """Effects in the units of the table."""
        found: Summary = self._final_estimator.summary(self._encoder(), coverage=coverage)
        return found

    def contrast(
        self, changes: Mapping[str, tuple[Any, Any]], *, coverage: float = 0.95
    ) -> Summary:
        """The effect of changes between two records: {"sex": ("M", "F")}."""
        estimator = self._final_estimator
        found: Summary = estimator.contrast(changes, self._encoder(), coverage=coverage)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write declarations, coefficients and promise to a file that only its owner may read."""
        for _, step in self.steps:
            if not isinstance(step, str | DeclaredEncoder | PrivateEstimator | None):
                raise ValueError(
                    f"no file can hold a {type(step).__name__}: save the last step alone, or "
                    "declare the columns with a DeclaredEncoder"
                )
        super().save(path)

    # -- inside -----------------------------------------------------------------------------------

    @classmethod
    def _resumed(cls, state: dict[str, Any], given: dict[str, Any]) -> Self:
        made = super()._resumed(state, given)
        made.steps = [tuple(each) for each in made.steps]
        return made

    def _rows(self, X: Any) -> Any:
        """What the last step is given."""
        for _, step in self.steps[:-1]:
            X = X if step is None or isinstance(step, str) else step.transform(X)
        return X

    def _encoder(self) -> Any:
        """The one step before the last, or all of them."""
        before = [step for _, step in self.steps[:-1] if not isinstance(step, str | None)]
        return before[0] if len(before) == 1 else self[:-1] if before else None
