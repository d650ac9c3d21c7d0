"""Private estimators with the scikit-learn interface."""

from discreet.regression.base import Estimate, Problem
from discreet.regression.baselines import OLS, SSP, AdaSSP, DPGradientDescent
from discreet.regression.glm import PrivateGLM
from discreet.regression.information import (
    error_limit,
    expected_error,
    information_matrix,
    price_of_privacy,
    rows_needed,
)
from discreet.regression.linear import PrivateLinearRegression
from discreet.regression.logistic import PrivateLogisticRegression
from discreet.regression.search import PrivateSearchCV
from discreet.regression.surroundings import PrivacyLeakWarning

__all__ = [
    "OLS",
    "SSP",
    "AdaSSP",
    "DPGradientDescent",
    "Estimate",
    "PrivacyLeakWarning",
    "PrivateGLM",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateSearchCV",
    "Problem",
    "error_limit",
    "expected_error",
    "information_matrix",
    "price_of_privacy",
    "rows_needed",
]
