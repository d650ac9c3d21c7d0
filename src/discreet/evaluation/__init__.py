"""What is it worth? Experiments, logs and bandits, measured privately."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.evaluation.abtest import ABTest
    from discreet.evaluation.off_policy import evaluate

__all__ = ["ABTest", "evaluate"]


def __getattr__(name: str) -> Any:  # when it is used: a bandit needs worth.py alone
    if name == "ABTest":
        from discreet.evaluation.abtest import ABTest

        return ABTest
    if name == "evaluate":
        from discreet.evaluation.off_policy import evaluate

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
