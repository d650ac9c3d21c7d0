"""The forecast of an A/B test as a table and a picture."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.evaluation.forecast import Trial
from discreet.experiments.sheet import Setting, Sheet

POINTS = 13  # of a curve
BESIDE = 3.0  # times as much privacy and a third of it, where a single budget is asked for


@dataclass(frozen=True)
class Needed:
    """One line of the table."""

    epsilon: float  # inf without privacy
    people: int | None  # in all arms together; None: more than an experiment may have
    plain: int | None  # without privacy
    half_width: float | None  # of the interval with so many people

    @property
    def price(self) -> float | None:
        """So many times as many people as without privacy."""
        return self.people / self.plain if self.people and self.plain else None

    @property
    def row(self) -> tuple[str, ...]:
        """As a table shows it."""
        return (
            "without privacy" if math.isinf(self.epsilon) else f"{self.epsilon:g}",
            "too many" if self.people is None else f"{self.people:,}",
            "-" if self.price is None else f"{self.price:.2f}",
            "-" if self.half_width is None else f"{100 * self.half_width:.2f}%",
        )


@dataclass(frozen=True)
class TrialQuestion:
    """An experiment to come, asked about."""

    trial: Trial  # what is known

    @property
    def trusts(self) -> tuple[str, ...]:
        """Somebody counts, and knows everybody's values."""
        return ("central",)

    @property
    def axes(self) -> tuple[str, str]:
        """What the picture shows."""
        return "people in all arms", "half width of the interval of the difference"

    def work(self, settings: Sequence[Setting]) -> int:
        """One for each budget."""
        return len(settings)

    def answers(
        self, settings: Sequence[Setting], tick: Callable[[int], object]
    ) -> Sequence[Needed]:
        """The first setting is without privacy."""
        found: list[Needed] = []
        for _, epsilon in settings:
            people = self.trial.people_needed(epsilon)
            half = None if people is None else self.trial.interval(people, epsilon).half_width
            found.append(Needed(epsilon, people, found[0].people if found else people, half))
            tick(1)
        return found

    def sheet(self, answers: Sequence[Needed]) -> Sheet:
        """The answers in a table."""
        trial = self.trial
        return Sheet(
            title=f"An experiment with {trial.arms} arms: {trial.baseline:.4g} against "
            f"{trial.baseline + trial.lift:.4g}",
            columns=("epsilon", "people needed", "price of privacy", "half width then"),
            rows=[each.row for each in answers],
            lines=[0],
            note=f"people needed: in all arms together, so that the difference is proved with "
            f"probability {trial.power:g} by the last of {trial.looks} looks. price of privacy: so "
            f"many times as many as without. Intervals hold at all looks together; "
            f"delta = {trial.delta:g}.",
            caption="Half width of the interval against the number of people. Both axes are "
            "logarithmic.",
            question=vars(trial),
            answers=[{**vars(each), "price": each.price} for each in answers],
        )

    def draw(
        self, axis: Any, trust: str, answers: Sequence[Needed], tick: Callable[[int], object]
    ) -> None:
        """Width against people: without privacy, at the budgets, and beside a single one."""
        from discreet.experiments.figures import colour_of

        known = [each.people for each in answers if each.people is not None]
        middle = float(np.median(known)) if known else 1e5
        people = np.geomspace(middle / 30, 10 * middle, POINTS).astype(int)
        budgets = [each.epsilon for each in answers[1:]]
        if len(budgets) == 1:
            budgets = [budgets[0] / BESIDE, budgets[0], budgets[0] * BESIDE]
        for epsilon in (math.inf, *budgets):
            half = [self.trial.interval(int(n), epsilon).half_width for n in people]
            name = "without privacy" if math.isinf(epsilon) else f"epsilon = {epsilon:.3g}"
            axis.plot(people, half, color=colour_of(epsilon), label=name)
        axis.axhline(abs(self.trial.lift), color="grey", linewidth=0.6)
