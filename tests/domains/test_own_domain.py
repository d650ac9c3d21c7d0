"""A domain of somebody else, with its own barrier: learners ask what it can, not what it is."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from discreet.domains import Domain
from discreet.domains.barriers import Barrier
from discreet.domains.base import Described, SolidDomain
from discreet.online import FTPL, FTRL, BarrierBandit, ProjectionFreeBandit
from discreet.online.barrier import Scrible
from discreet.optimization import StreamingFrankWolfe
from discreet.privacy import SeededNoise
from discreet.state import NotInFile


class EllipsoidBarrier(Barrier):
    """-log(1 - |z/a|^2), nu = 1; everything else is what `Barrier` makes of it."""

    nu = 1.0

    def __init__(self, axes):
        self.axes = axes

    def value(self, z):
        room = 1 - float(np.sum((z / self.axes) ** 2))
        return -math.log(room) if room > 0 else math.inf

    def gradient(self, z):
        return 2 * z / self.axes**2 / (1 - np.sum((z / self.axes) ** 2))

    def hessian(self, z):
        room = 1 - np.sum((z / self.axes) ** 2)
        slope = 2 * z / self.axes**2 / room
        return np.diag(2 / self.axes**2 / room) + np.outer(slope, slope)


class Ellipsoid(SolidDomain):
    """{x : |x/a| <= 1}."""

    def __init__(self, axes):
        self.axes = np.asarray(axes, dtype=np.float64)
        self.dim = len(self.axes)
        self.barrier = EllipsoidBarrier(self.axes)

    def linear_minimizer(self, g):
        scaled = g * self.axes
        return (
            -self.axes * scaled / np.maximum(np.linalg.norm(scaled, axis=-1, keepdims=True), 1e-300)
        )

    def project(self, y):
        if y.ndim > 1:
            return np.array([self.project(row) for row in y])
        if np.sum((y / self.axes) ** 2) <= 1:
            return y.copy()
        squares = self.axes**2

        def excess(s):  # x_i = y_i a_i^2/(a_i^2 + s)
            return float(np.sum((y * self.axes / (squares + s)) ** 2)) - 1

        s = brentq(excess, 0.0, float(np.linalg.norm(y * self.axes)))
        return y * squares / (squares + s)


class Plain(Domain):
    """A domain that keeps none of its arguments."""

    def __init__(self, size):
        self.dim = 2
        self._size = size

    def linear_minimizer(self, g):
        return np.where(g > 0, -self._size, self._size)


AXES = (1.0, 0.5, 0.25)
LOSS = np.array([0.3, -0.5, 0.4])


def run(learner, rounds):
    points = []
    for _ in range(rounds):
        decision = learner.decide()
        points.append(decision.point)
        learner.learn(decision, float(LOSS @ decision.point))
    return np.array(points)


def learners():
    domain = Ellipsoid(AXES)
    common = {"seed": 0, "noise": SeededNoise(0)}
    return {
        "barrier, local": BarrierBandit(domain, 3000, 4.0, **common),
        "barrier, central": BarrierBandit(domain, 3000, 4.0, trust="central", **common),
        "projection-free": ProjectionFreeBandit(
            domain, 3000, 4.0, 1e-6, loss_range=(-1.0, 1.0), **common
        ),
    }


def test_barrier__what_it_inherits_is_what_scrible_needs():
    """The centre minimises; steps stay inside; the estimate is unbiased, exactly."""
    domain = Ellipsoid(AXES)
    plain = Scrible(domain, rate=0.3, seed=0)
    plain._total = np.array([3.0, -8.0, 5.0])
    seen = {}
    for _ in range(200):
        point = plain.decide()
        slope = plain.rate * plain._total + domain.barrier.gradient(point.centre)
        assert slope @ np.linalg.solve(domain.barrier.hessian(point.centre), slope) < 0.06**2
        assert domain.contains(point.centre + point.step)
        assert domain.contains(point.centre - point.step)
        seen[(*np.round(point.step, 6), point.sign)] = (
            float(LOSS @ point.point) * point.sign * point.weights
        )
    assert len(seen) == 6
    np.testing.assert_allclose(np.mean(list(seen.values()), axis=0), LOSS, atol=0.02)


@pytest.mark.parametrize("name", learners())
def test_bandits__learn_on_it_and_resume_from_a_file(name, tmp_path):
    learner, domain = learners()[name], Ellipsoid(AXES)
    points = run(learner, 2000)
    best = float(LOSS @ domain.linear_minimizer(LOSS))
    assert LOSS @ points[-500:].mean(axis=0) < 0.3 * best < 0
    stopped = learners()[name]
    run(stopped, 1800)
    stopped.save(tmp_path / "state")
    again = type(stopped).load(tmp_path / "state")
    assert isinstance(again.domain, Ellipsoid)
    np.testing.assert_array_equal(run(again, 200), points[1800:])


@pytest.mark.parametrize("kind", [FTRL, FTPL])
def test_leaders__learn_on_it(kind):
    domain = Ellipsoid(AXES)
    coins = {"seed": 0} if kind is FTPL else {}
    learner = kind(domain, 2000, 1.0, 1e-6, noise=SeededNoise(0), **coins)
    X = learner.run(np.tile(LOSS, (2000, 1)))
    best = float(LOSS @ domain.linear_minimizer(LOSS))
    assert LOSS @ X[-500:].mean(axis=0) < 0.8 * best
    assert all(domain.contains(x) for x in X[::100])


def test_frank_wolfe__learns_on_it():
    rng, truth = np.random.default_rng(0), np.array([0.4, -0.2, 0.1])
    learner = StreamingFrankWolfe(Ellipsoid(AXES), 4000, 4.0, 1e-6, noise=SeededNoise(0))
    for _ in range(4000):
        x = rng.normal(size=3)
        x /= np.linalg.norm(x)
        learner.learn(x, float(x @ truth))
    assert np.linalg.norm(learner.theta - truth) < 0.25


def test_state__a_class_that_the_process_does_not_know_is_asked_for(tmp_path, monkeypatch):
    whole, stopped = learners()["barrier, local"], learners()["barrier, local"]
    for each in (whole, stopped):
        run(each, 20)
    stopped.save(tmp_path / "state")
    kinds = dict(Domain._kinds)
    del kinds[f"{Ellipsoid.__module__}.Ellipsoid"]
    monkeypatch.setattr(Domain, "_kinds", kinds)
    monkeypatch.setattr(Described, "_kinds", kinds)
    with pytest.raises(NotInFile, match="import the module that defines it"):
        BarrierBandit.load(tmp_path / "state")
    again = BarrierBandit.load(tmp_path / "state", domain=Ellipsoid(AXES))
    np.testing.assert_array_equal(run(again, 50), run(whole, 50))


def test_state__a_domain_that_keeps_no_arguments_is_asked_for(tmp_path):
    learner = FTPL(Plain(2.0), 50, 1.0, 1e-6, seed=0, noise=SeededNoise(0))
    learner.run(np.full((10, 2), 0.1))
    expected = learner.decide()
    learner.save(tmp_path / "state")
    with pytest.raises(NotInFile, match="Plain is not in the file"):
        FTPL.load(tmp_path / "state")
    again = FTPL.load(tmp_path / "state", domain=Plain(2.0))
    np.testing.assert_array_equal(again.decide(), expected)


def test_names__a_class_of_somebody_else_never_passes_for_one_of_ours():
    class Ball(Plain):
        pass

    assert Domain._kinds["Ball"] is not Ball
