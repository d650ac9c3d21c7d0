"""What a fit says of its coefficients in the units of tables: errors, contrasts, pictures.

All of it is a linear form of the parameters b = (coef, intercept), whose covariance is known from
the noise's distribution and the released scale of labels:  a'b +- z (a' Cov(b) a)^(1/2).
Nothing is released again.
"""

import html
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy
from sklearn.utils.validation import check_is_fitted

from discreet.arrays import Array
from discreet.features import Category, Number
from discreet.words import number


@dataclass(frozen=True)
class Effect:
    """One line of a `Summary`: an effect, its standard error, and an interval that holds it."""

    term: str  # a column, a level against another, a metric
    of: str  # the class whose log-odds it is of; "" where there is but one answer
    estimate: float  # the effect
    std_error: float  # of its error, noise and sampling together
    low: float  # end of the interval
    high: float  # end of the interval


@dataclass(frozen=True)
class Summary:
    """A table of effects: it prints, notebooks show it, `to_frame` and `plot` give it away.

    >>> Summary("fit", (Effect("age", "", 0.5, 0.1, 0.3, 0.7),), "95% intervals", "change")
    fit
    term  change  std error  low  high
    age      0.5        0.1  0.3   0.7
    95% intervals
    """

    title: str  # what it is of
    effects: tuple[Effect, ...]  # its lines
    note: str  # below the table
    unit: str  # what an estimate is

    COLUMNS: ClassVar[tuple[str, ...]] = ("std error", "low", "high")

    def exp(self) -> "Summary":
        """exp of effects and of their ends: odds ratios, or ratios of counts."""
        effects = tuple(
            replace(each, estimate=np.exp(each.estimate), std_error=np.nan,
                    low=np.exp(each.low), high=np.exp(each.high))
            for each in self.effects
        )  # fmt: skip
        return replace(self, effects=effects, unit="ratio")

    def to_frame(self) -> Any:
        """A pandas data frame, a row for each effect."""
        import pandas

        return pandas.DataFrame([vars(each) for each in self.effects])

    def plot(self, ax: Any = None) -> Any:
        """A forest plot on a matplotlib axis, this one or a new one; the axis."""
        if ax is None:
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6, 1 + 0.3 * len(self.effects)), layout="constrained").subplots()
        places = np.arange(len(self.effects))[::-1]
        middle = np.array([each.estimate for each in self.effects])
        low, high = (np.array([getattr(e, end) for e in self.effects]) for end in ("low", "high"))
        ax.errorbar(middle, places, xerr=[middle - low, high - middle], fmt="o", capsize=3)
        ax.axvline(1.0 if self.unit == "ratio" else 0.0, color="grey", linewidth=0.8)
        ax.set_yticks(places, [_named(each) for each in self.effects])
        ax.set(title=self.title, xlabel=self.unit)
        return ax

    def __repr__(self) -> str:
        head, *rows = self._cells()
        widths = [max(len(row[j]) for row in (head, *rows)) for j in range(len(head))]
        words = len(head) - len(self.COLUMNS) - 1  # columns that are no numbers
        lines = [
            "  ".join(
                cell.ljust(w) if j < words else cell.rjust(w)
                for j, (cell, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (head, *rows)
        ]
        return "\n".join([self.title, *lines, self.note])

    def _repr_html_(self) -> str:
        head, *rows = ([html.escape(cell) for cell in row] for row in self._cells())
        lines = [f"<tr><th>{'</th><th>'.join(head)}</th></tr>"]
        lines += [f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows]
        return (
            f"<table><caption>{html.escape(self.title)}</caption>{''.join(lines)}</table>"
            f"<p>{html.escape(self.note)}</p>"
        )

    def _cells(self) -> list[list[str]]:
        several = any(each.of for each in self.effects)
        head = ["term", *(["class"] if several else []), self.unit, *self.COLUMNS]
        return [head] + [
            [each.term, *([each.of] if several else []),
             *(number(x) for x in (each.estimate, each.std_error, each.low, each.high))]
            for each in self.effects
        ]  # fmt: skip


class Inference:
    """Covariance, intervals, summary and contrasts, of what an estimator has as parameters.

    Parameters stand one after the other: the coefficients of `coef_`, then the intercept if there
    is one; of several classes first all of the first class.
    """

    coef_: Array
    intercept_: Any
    fit_intercept: bool
    method_: str
    n_features_in_: int
    guarantee_: Any
    _estimate: Any

    def _from_theta(self) -> Array:
        """What makes parameters of the estimate's theta."""
        raise TypeError("an estimator must define _from_theta")

    @property
    def covariance_(self) -> Array:
        """Of the errors of all parameters: coefficients, then the intercept."""
        check_is_fitted(self)
        covariance = self._estimate.covariance
        if covariance is None:
            raise AttributeError(
                f"method={self.method_!r} has a bias of unknown size, hence no covariance_; use "
                "the default method"
            )
        A = self._from_theta()
        return np.asarray(A @ covariance @ A.T)

    def conf_int(self, coverage: float = 0.95) -> Array:  # (parameters, 2)
        """Intervals that hold each parameter so often: coefficients, then the intercept."""
        size = len(self._vector)
        effects = self._effects([""] * size, np.eye(size), coverage)
        return np.array([[each.low, each.high] for each in effects])

    def summary(self, encoder: Any = None, *, coverage: float = 0.95) -> Summary:
        """Effects with standard errors and intervals, at no privacy cost.

        With the fitted `encoder` before the estimator (a `DeclaredEncoder`) in the units of the
        table: a number's effect is that of one unit more, a category's that of a level against the
        one declared first, and "(reference)" is where all numbers are 0 and all categories at
        their first. Of several classes each is compared with the first.
        """
        check_is_fitted(self)
        names, forms = _terms(self, encoder)
        return self._summary(names, forms, coverage)

    def contrast(
        self, changes: Mapping[str, tuple[Any, Any]], encoder: Any = None, *, coverage: float = 0.95
    ) -> Summary:
        """The effect of changes between two records that are otherwise alike: {"sex": ("M", "F")}.

        Of the first value against the second, all changes together, with the standard error of
        their difference. Without an `encoder` the columns are those of X, all of them numbers.
        """
        check_is_fitted(self)
        form = np.zeros(self.n_features_in_)
        for column, (to, base) in changes.items():
            form += _change(self, encoder, column, to, base)
        name = ", ".join(f"{column}: {to} - {base}" for column, (to, base) in changes.items())
        return self._summary([name], form[None, :], coverage)

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _vector(self) -> Array:
        coef = np.atleast_2d(self.coef_)
        if self.fit_intercept:
            coef = np.column_stack([coef, np.atleast_1d(self.intercept_)])
        return np.asarray(coef.ravel(), dtype=np.float64)

    def _summary(self, names: list[str], forms: Array, coverage: float) -> Summary:
        """Of linear forms (terms, features), or (terms, features + 1) with the intercept."""
        if self.fit_intercept and forms.shape[1] == self.n_features_in_:
            forms = np.column_stack([forms, np.zeros(len(forms))])
        k = len(np.atleast_2d(self.coef_))
        classes = [""]
        if k > 1:  # each class against the first
            against = np.column_stack([-np.ones(k - 1), np.eye(k - 1)])
            forms = np.asarray(np.kron(against, forms), dtype=np.float64)
            first, *classes = (str(each) for each in getattr(self, "classes_", range(k)))
            classes = [f"{each} / {first}" for each in classes]
        effects = self._effects(names * len(classes), forms, coverage)
        effects = [replace(each, of=classes[i // len(names)]) for i, each in enumerate(effects)]
        promise = self.guarantee_
        note = (
            f"{coverage:.0%} intervals, from privacy noise and sampling; ({promise.epsilon:g}, "
            f"{promise.delta:g})-DP, {promise.trust} trust"
        )
        return Summary(type(self).__name__, tuple(effects), note, self._unit_of_effects())

    def _unit_of_effects(self) -> str:
        kind = getattr(self, "link", "logistic" if hasattr(self, "classes_") else "identity")
        return {"logistic": "log odds", "poisson": "log mean", "probit": "probit"}.get(
            kind, "change"
        )

    def _effects(self, names: list[str], forms: Array, coverage: float) -> list[Effect]:
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage!r}")
        z = float(scipy.special.ndtri((1 + coverage) / 2))
        variances = np.einsum("ij,jk,ik->i", forms, self.covariance_, forms)
        found = forms @ self._vector
        errors = np.sqrt(np.maximum(variances, 0.0))
        return [
            Effect(name, "", float(b), float(se), float(b - z * se), float(b + z * se))
            for name, b, se in zip(names, found, errors, strict=True)
        ]


# -- linear forms ----------------------------------------------------------------------------------


def _terms(model: Any, encoder: Any) -> tuple[list[str], Array]:
    """Names of effects, and what of the parameters they are."""
    d = model.n_features_in_
    declared = getattr(encoder, "columns", None)
    if not isinstance(declared, Mapping):
        forms = np.eye(d + bool(model.fit_intercept))
        return [*_columns(model, encoder), *["(intercept)"] * bool(model.fit_intercept)], forms
    origin = {name: _least(each) for name, each in declared.items()}
    reference = _row(encoder, origin, d)
    zero = reference.copy()
    names = list[str]()
    rows = list[Array]()
    for column, feature in declared.items():
        if isinstance(feature, Number):
            slope = _row(encoder, origin | {column: feature.high}, d) - reference
            slope /= feature.high - feature.low
            zero -= slope * feature.low
            names.append(column)
            rows.append(slope)
            if feature.missing == "indicator":
                names.append(f"{column}: (missing) - {number((feature.low + feature.high) / 2)}")
                middle = reference + slope * (feature.high - feature.low) / 2
                rows.append(_row(encoder, origin | {column: None}, d) - middle)
        else:
            for name, level in _levels(column, feature):
                names.append(name)
                rows.append(_row(encoder, origin | {column: level}, d) - reference)
    names.append("(reference)")
    if not model.fit_intercept:
        return names, np.array([*rows, zero])
    constants = [*[0.0] * len(rows), 1.0]
    return names, np.column_stack([np.array([*rows, zero]), constants])


def _least(feature: Number | Category) -> Any:
    return feature.low if isinstance(feature, Number) else feature.categories[0]


def _levels(column: str, feature: Category) -> list[tuple[str, Any]]:
    """The levels beside the first, and a value of each."""
    first, *others = feature.categories
    levels = [(str(each), each) for each in others]
    if feature.other:
        levels.append(("(other)", object()))  # no declared value equals it
    if feature.missing:
        levels.append(("(missing)", None))
    return [(f"{column}: {name} - {first}", value) for name, value in levels]


def _change(model: Any, encoder: Any, column: str, to: Any, base: Any) -> Array:
    """What of the parameters a change in one column is."""
    d = model.n_features_in_
    declared = getattr(encoder, "columns", None)
    if isinstance(declared, Mapping):
        if column not in declared or any(each not in declared[column] for each in (to, base)):
            raise ValueError(
                "a contrast is between two declared values of a declared column, and "
                + (
                    f"{column!r} is {declared[column]!r}"
                    if column in declared
                    else f"there is no {column!r}; there are {', '.join(map(str, declared))}"
                )
            )
        origin = {name: _least(each) for name, each in declared.items()}
        ends = [_row(encoder, origin | {column: each}, d) for each in (to, base)]
        return np.asarray(ends[0] - ends[1])
    names = _columns(model, encoder)
    if column not in names:
        raise ValueError(
            f"X has no column {column!r}, and how levels become numbers is what the encoder knows: "
            "pass it"
        )
    return np.asarray((float(to) - float(base)) * np.eye(d)[names.index(column)])


def _columns(model: Any, encoder: Any) -> list[str]:
    """The names of the columns that the model was fitted to."""
    if encoder is not None:
        names = encoder.get_feature_names_out()
    else:
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(model.n_features_in_)]
    _assert_columns(len(names), model.n_features_in_)
    return [str(each) for each in names]


def _assert_columns(made: int, fitted: int) -> None:
    if made != fitted:
        raise ValueError(
            f"the encoder makes {made} columns and the model was fitted to {fitted}: pass the one "
            "that was before it"
        )


def _row(encoder: Any, record: Mapping[str, Any], columns: int) -> Array:
    row = encoder.transform({name: [value] for name, value in record.items()})
    row = row.toarray() if hasattr(row, "toarray") else row
    _assert_columns(row.shape[1], columns)
    return np.asarray(row[0], dtype=np.float64)


def _named(effect: Effect) -> str:
    return f"{effect.of}: {effect.term}" if effect.of else effect.term
