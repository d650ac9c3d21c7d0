"""Declared columns as a scikit-learn transformer: rows for a model, from tables."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from discreet.features import Category, Columns, Number, absent
from discreet.frames import Unread, is_unread, names_of
from discreet.refused import encoded
from discreet.state.values import decode, encode, register


class DeclaredEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """From tables to rows in the unit ball: a scikit-learn transformer that reads no data to fit.

    Every declared column adds at most 1 to the square of a row's norm, so all are divided by
    sqrt(number of columns): norm_bound=1.0 is the bound to state to the estimator behind it. There
    is no constant column: estimators have fit_intercept.

    Requires   bounds and categories that are public: stated, never read off the data.
    Guarantee  l2 norm at most 1 (up to rounding) for every input. A row depends on its own record
               alone, and on the declaration: one record replaced is one row replaced, so a pipeline
               of it and a private estimator keeps the estimator's promise.

    columns   what the columns are, by name and in order; a table may have others, which are
              ignored, a matrix has these
    sparse    whether rows are a sparse matrix (CSR), for categories of very many values

    >>> encoder = DeclaredEncoder({"age": Number(18, 98), "plan": Category("basic", "gold")})
    >>> encoder.transform({"age": [18, 58], "plan": ["gold", "basic"]}).round(3)
    array([[-0.707,  0.   ,  0.707],
           [ 0.   ,  0.707,  0.   ]])
    >>> encoder.get_feature_names_out()
    array(['age', 'plan=basic', 'plan=gold'], dtype=object)
    """

    n_features_in_: int

    def __init__(self, columns: Mapping[str, Number | Category], *, sparse: bool = False) -> None:
        self.columns = columns
        self.sparse = sparse

    def fit(self, X: Any, y: Any = None) -> "DeclaredEncoder":
        """Check the names of the columns; nothing is learned from what is in them, nor from y."""
        known = self._declared()
        found = names_of(X)
        self.__dict__.pop("feature_names_in_", None)
        if found is not None:
            for name in known.declared:
                if name not in found:
                    raise absent(name)
            self.feature_names_in_ = np.asarray(found, dtype=object)
        width = np.shape(X)[1:] if hasattr(X, "shape") else (len(known.declared),)
        self.n_features_in_ = int(width[0]) if width else 1
        return self

    def transform(self, X: Any) -> Any:  # (n, number of output columns)
        """Rows for a data frame, a mapping of columns, or a matrix in the declared order.

        A dask data frame becomes a dask array; of files, iterators and Spark data frames the
        estimator that follows encodes what it reads.
        """
        known = self._declared()
        if is_unread(X):
            return Unread(X, self.transform, known.declared)
        if hasattr(X, "__dask_graph__"):
            empty = np.empty((0, len(known.names)))
            # A block that does not fit is a `Refused` there: the task, and so a worker's log, never
            # holds an error beside the block.
            return X.map_partitions(partial(encoded, self.transform), meta=empty)
        if isinstance(X, np.ndarray) and X.shape[1:] != (len(known.declared),):
            raise ValueError(
                f"X must be a matrix of the {len(known.declared)} declared columns in their order, "
                f"or a data frame that has them; got shape {X.shape}"
            )
        scale = 1 / math.sqrt(known.squares)
        if not self.sparse:
            return known.table(X) * scale
        return known.sparse_table(X) * scale

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the output columns; those of the input are declared, `input_features` unused."""
        return np.asarray(self._declared().names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's machinery asks."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.requires_fit = False  # nothing is learned: `fit` of what follows does not warn of it
        return tags

    def _declared(self) -> Columns:
        if not self.columns:
            raise ValueError("columns must declare at least one Number or Category")
        return Columns(self.columns, constant=False)


register(
    DeclaredEncoder,
    lambda each: [[[name, encode(column)] for name, column in each.columns.items()], each.sparse],
    lambda plain: DeclaredEncoder({n: decode(column) for n, column in plain[0]}, sparse=plain[1]),
)
