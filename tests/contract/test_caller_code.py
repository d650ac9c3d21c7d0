"""Code of the caller that fails at its n-th call, for every n: nothing is drawn or booked again."""

from typing import Any

import numpy as np
import pytest

from discreet.domains import Ball, LpBall, Simplex
from discreet.online import FTPL, FTRL, BarrierBandit, Doubling, PrivateReduction
from discreet.online import ProjectionFreeBandit as ProjectionFree
from discreet.online.adversarial import Exp2
from discreet.optimization import StreamingFrankWolfe
from discreet.privacy import SeededNoise


class Failure(Exception):  # noqa: N818 - it is the caller's
    """What the caller's code raises."""


class Caller:
    """Counts the calls of the caller's code, and fails at one of them."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise Failure

    def domain(self, base: type, *arguments: Any) -> Any:
        """A decision set of the caller's, each of whose oracles may fail."""
        caller = self

        class Mine(base):
            def project(self, y: Any) -> Any:
                caller()
                return super().project(y)

            def leader(self, total: Any, rate: Any) -> Any:
                caller()
                return super().leader(total, rate)

            def linear_minimizer(self, cost: Any) -> Any:
                caller()
                return super().linear_minimizer(cost)

        return Mine(*arguments)

    def loss(self) -> Any:
        """A loss of the caller's."""
        caller = self

        class Mine:
            lipschitz, smoothness = 2.0, 1.0

            def gradient(self, theta: Any, x: Any, y: float) -> Any:
                caller()
                return (float(x @ theta) - y) * x

        return Mine()


ROWS = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 2))
LABELS = np.sign(ROWS[:, 0])
LOSSES = np.random.default_rng(1).uniform(0, 1, (40, 2))


def again(step: Any) -> Any:
    """A step, tried until it does not fail."""
    while True:
        try:
            return step()
        except Failure:
            continue


def stream(learner: Any) -> Any:
    for x, y in zip(ROWS, LABELS, strict=True):
        again(lambda x=x, y=y: learner.learn(x, y))
    return again(lambda: learner.theta)


def frank_wolfe(caller: Caller, base: type, *arguments: Any, **more: Any) -> Any:
    learner = StreamingFrankWolfe(
        caller.domain(base, *arguments), 40, 4.0, 1e-6, noise=SeededNoise(0), **more
    )
    return learner, stream(learner)


def leader(caller: Caller, kind: type, how: str) -> Any:
    def make(horizon: int) -> Any:
        return kind(caller.domain(Simplex, 2), horizon, 4.0, 1e-6, noise=noise, **coins)

    noise = SeededNoise(0)
    coins = {"seed": 0} if kind is FTPL else {}
    learner = Doubling(make, first=16) if how == "doubling" else make(60)
    if how == "run":
        return learner, again(lambda: learner.run(LOSSES))
    shown = []
    for loss in LOSSES:
        shown.append(again(learner.decide))
        again(lambda loss=loss: learner.learn(loss))
    return learner, np.array(shown)


def points(caller: Caller, kind: type, **more: Any) -> Any:
    if kind is BarrierBandit:
        domain = Ball(2)
        inner = domain.barrier

        class Mine:
            def __getattr__(self, name: str) -> Any:
                return getattr(inner, name)

            def minimizer(self, *about: Any) -> Any:
                caller()
                return inner.minimizer(*about)

        domain.barrier = Mine()
        learner = kind(domain, 80, 4.0, seed=0, noise=SeededNoise(0), **more)
    else:
        learner = kind(caller.domain(Ball, 2), 80, 4.0, 1e-6, seed=0, noise=SeededNoise(0), **more)
    shown = []
    for _ in range(60):
        decision = again(learner.decide)
        shown.append(decision.point)
        again(lambda d=decision: learner.learn(d, 0.5 + 0.3 * float(d.point[0])))
    return learner, np.array(shown)


def reduction(caller: Caller) -> Any:
    class Mine(Exp2):
        def learn(self, arm: Any, loss: float) -> None:
            caller()
            super().learn(arm, loss)

    learner = PrivateReduction(Mine(2, rate=0.1, explore=0.1, seed=0), 1.0, noise=SeededNoise(0))
    shown = []
    for _ in range(30):
        decision = again(learner.decide)
        shown.append(decision.choice.probabilities)
        again(lambda d=decision: learner.learn(d, 0.25))
    return learner, np.array(shown)


CASES = {
    "sparse windows": lambda c: frank_wolfe(c, LpBall, 1, 2),
    "dense windows": lambda c: frank_wolfe(c, Ball, 2),
    "own loss": lambda c: frank_wolfe(c, Ball, 2, loss=c.loss()),
    "tree": lambda c: frank_wolfe(c, Ball, 2, loss=c.loss(), mechanism="tree"),
    "vertices": lambda c: frank_wolfe(c, LpBall, 1, 2, loss=c.loss(), mechanism="vertices"),
    "FTRL": lambda c: leader(c, FTRL, "steps"),
    "FTRL run": lambda c: leader(c, FTRL, "run"),
    "FTPL": lambda c: leader(c, FTPL, "steps"),
    "FTPL run": lambda c: leader(c, FTPL, "run"),
    "Doubling FTRL": lambda c: leader(c, FTRL, "doubling"),
    "ProjectionFreeBandit": lambda c: points(c, ProjectionFree),
    "BarrierBandit central": lambda c: points(c, BarrierBandit, trust="central"),
    "BarrierBandit local": lambda c: points(c, BarrierBandit, trust="local"),
    "PrivateReduction": reduction,
}


@pytest.mark.parametrize("run", CASES.values(), ids=CASES)
def test_caller__that_fails_at_any_call_makes_nothing_be_drawn_or_booked_again(run, monkeypatch):
    draws: list[Any] = []
    for name in ("normal", "uniform"):
        kept = getattr(SeededNoise, name)
        monkeypatch.setattr(
            SeededNoise,
            name,
            lambda self, size, kept=kept, name=name: draws.append((name, size)) or kept(self, size),
        )

    def played(at: int) -> Any:
        draws.clear()
        caller = Caller(at)
        learner, shown = run(caller)
        return caller.calls, list(draws), learner.guarantee.releases, shown

    calls, drawn, releases, shown = played(0)
    assert calls > 0, "the caller's code was never asked"
    assert drawn
    for at in sorted({round(n) for n in np.linspace(1, calls, min(calls, 60))}):
        _, others, booked, same = played(at)
        assert others == drawn, f"call {at} of {calls} failed: noise was drawn again"
        assert booked == releases, f"call {at} of {calls} failed: bookings differ"
        assert np.array_equal(same, shown), f"call {at} of {calls} failed: another release"
