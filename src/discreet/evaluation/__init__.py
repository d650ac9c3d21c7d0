"""What is it worth? Experiments, logs and bandits, measured privately."""

from discreet.evaluation.abtest import ABTest
from discreet.evaluation.off_policy import evaluate

__all__ = ["ABTest", "evaluate"]
