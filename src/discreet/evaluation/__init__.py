"""What is it worth? Experiments, logs and bandits, measured privately."""

from discreet.evaluation.abtest import ABTest

__all__ = ["ABTest"]
