"""Private estimators with the scikit-learn interface."""

from discreet.regression.base import Estimate, Problem
from discreet.regression.baselines import OLS, AdaSSP
from discreet.regression.glm import PrivateGLM
from discreet.regression.held_out import PrivateScore, score_private
from discreet.regression.information import information_matrix
from discreet.regression.linear import PrivateLinearRegression
from discreet.regression.logistic import PrivateLogisticRegression
from discreet.regression.pipeline import PrivatePipeline
from discreet.regression.search import PrivateSearchCV
from discreet.regression.surroundings import NoisyFitWarning, PrivacyLeakWarning

__all__ = [
    "OLS",
    "AdaSSP",
    "Estimate",
    "NoisyFitWarning",
    "PrivacyLeakWarning",
    "PrivateGLM",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePipeline",
    "PrivateScore",
    "PrivateSearchCV",
    "Problem",
    "information_matrix",
    "score_private",
]
