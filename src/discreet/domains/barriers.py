"""Self-concordant barriers: what keeps SCRiBLe inside a domain, and how far it may step.

    paper (Abernethy, Hazan, Rakhlin 2008)   R               x_t          lambda_i^(-1/2) e_i
    here                                     a `Barrier`     `minimizer`  `exploration`

Coordinates z are those of the domain's affine hull.
"""

import math
from abc import ABC, abstractmethod

import numpy as np

from discreet.arrays import Array

_DECREMENT = 0.05  # Newton decrement at which a centre is good enough
_STEPS = 1000  # of Newton's method, at most
_CLEARANCE = 1e-6  # of its slack at the interior point: what a centre keeps from each side
_INSIDE = 1 - 1e-9  # the same for closed forms: a step is never zero, and its length keeps digits


class Barrier(ABC):
    """A nu-self-concordant barrier; z are coordinates strictly inside.

    A subclass sets `nu` and writes `value`, `gradient` and `hessian`; the rest follows from them
    (Newton's method, eigenvectors, Dikin's ellipsoid). Closed forms replace it where they exist.
    """

    nu: float

    @abstractmethod
    def value(self, z: Array) -> float:
        """The barrier; infinite outside."""

    @abstractmethod
    def gradient(self, z: Array) -> Array:  # (m,) -> (m,)
        """Of `value`."""

    @abstractmethod
    def hessian(self, z: Array) -> Array:  # (m,) -> (m, m)
        """Of `value`."""

    def minimizer(self, pull: Array, near: Array) -> Array:  # (m,), (m,) -> (m,)
        """argmin <pull, z> + value(z), up to a Newton decrement of 0.05, from a point inside."""
        z = near
        for _ in range(_STEPS):
            gradient = pull + self.gradient(z)
            step = np.linalg.solve(self.hessian(z), gradient)
            decrement = math.sqrt(max(0.0, float(step @ gradient)))
            nearer = z - step / (1 + decrement)  # damped: it stays in Dikin's ellipsoid
            if decrement <= _DECREMENT or not self.clear(nearer):
                break
            z = nearer
        return z

    def clear(self, z: Array) -> bool:
        """Whether z is far enough from the border for its steps to keep their digits."""
        size = float(np.trace(self.hessian(z))) if math.isfinite(self.value(z)) else math.inf
        return size < 1e14

    def room(self, z: Array, direction: Array) -> float:
        """s such that z + s direction and z - s direction are inside: here Dikin's ellipsoid."""
        return 1 / math.sqrt(float(direction @ self.hessian(z) @ direction))

    def coins(self, m: int) -> int:
        """How many uniform coins `exploration` takes in m dimensions, whatever z is."""
        return 1

    def exploration(self, z: Array, coins: Array) -> tuple[Array, Array]:
        """A random step and its weights: E[<loss, step> weights] = loss, and z +- step is inside.

        Here an eigenvector of the Hessian, drawn by one coin, as long as there is room.
        """
        i = int(coins[0] * len(z))
        direction = np.linalg.eigh(self.hessian(z))[1][:, i]
        room = self.room(z, direction)
        return room * direction, (len(z) / room) * direction

    def variance(self, m: int) -> float:
        """At least E |weights|^2 in the dual of the local norm: m^2 for steps of Dikin's length."""
        return float(m * m)


class LogBarrier(Barrier):
    """-sum log(b - A z), nu = rows of A; `inside` is a point well inside.

    A, b     the inequalities A z <= b
    inside   a point well inside them
    """

    def __init__(self, A: Array, b: Array, inside: Array) -> None:
        self.A = A
        self.b = b
        self.nu = float(len(b))
        self._least = _CLEARANCE * (b - A @ inside)

    def value(self, z: Array) -> float:
        slack = self.b - self.A @ z
        return float(-np.log(slack).sum()) if slack.min() > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        """The sum of the rows, each over its slack."""
        return np.asarray(self._rows(z).sum(axis=0))

    def hessian(self, z: Array) -> Array:
        rows = self._rows(z)
        return np.asarray(rows.T @ rows)

    def clear(self, z: Array) -> bool:
        """A millionth of the slack at the interior point is left on every side."""
        return bool((self.b - self.A @ z >= self._least).all())

    def room(self, z: Array, direction: Array) -> float:
        """To the nearest side, on either side: further than Dikin's ellipsoid."""
        return 1 / float(np.abs(self._rows(z) @ direction).max())

    def _rows(self, z: Array) -> Array:
        return np.asarray(self.A / (self.b - self.A @ z)[:, None])


class CubeBarrier(Barrier):
    """-sum log(1 - z_i^2); each term has nu = sup 2 z^2/(1 + z^2) = 1.

    A product: every coordinate takes its step at once, each with its own sign, which saves a
    factor m of variance.
    """

    def __init__(self, m: int) -> None:
        self.nu = float(m)

    def value(self, z: Array) -> float:
        room = 1 - z * z
        return float(-np.log(room).sum()) if room.min() > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        return np.asarray(2 * z / (1 - z * z))

    def hessian(self, z: Array) -> Array:
        return np.diag(2 * (1 + z * z) / (1 - z * z) ** 2)

    def minimizer(self, pull: Array, near: Array) -> Array:
        """pull + 2 z/(1 - z^2) = 0 in each coordinate."""
        return np.asarray((pull * _INSIDE) / (-1 - np.sqrt(1 + pull * pull)))

    def coins(self, m: int) -> int:
        return m

    def exploration(self, z: Array, coins: Array) -> tuple[Array, Array]:
        """1 - |z_i| to the border in every coordinate, with random signs."""
        step = np.copysign(1 - np.abs(z), coins - 0.5)
        return step, 1 / step

    def variance(self, m: int) -> float:
        """m: coordinates do not disturb each other."""
        return float(m)


class BallBarrier(Barrier):
    """-log(1 - |z|^2); nu = sup 2 |z|^2/(1 + |z|^2) = 1."""

    nu = 1.0

    def value(self, z: Array) -> float:
        room = 1 - float(z @ z)
        return -math.log(room) if room > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        return np.asarray(2 * z / (1 - z @ z))

    def hessian(self, z: Array) -> Array:
        room = 1 - z @ z
        return np.asarray(2 * np.eye(len(z)) / room + 4 * np.outer(z, z) / room**2)

    def minimizer(self, pull: Array, near: Array) -> Array:
        """Against the pull; the radius solves |pull| = 2 r/(1 - r^2)."""
        length = math.sqrt(pull.dot(pull))
        return np.asarray(pull * (-_INSIDE / (1 + math.sqrt(1 + length * length))))

    def exploration(self, z: Array, coins: Array) -> tuple[Array, Array]:
        """Along z, or across it in one direction of an orthonormal basis, up to the border."""
        m = len(z)
        i = int(coins[0] * m)
        radius = math.sqrt(z.dot(z))
        axis = z / -radius if radius else np.eye(m)[0]
        if i == 0:
            room = 1 - radius
            direction = axis
        else:  # column i of the reflection that takes the first axis to +-`axis`
            room = math.sqrt(1 - radius * radius)
            axis[0] += math.copysign(1.0, axis[0])
            direction = axis * (-2 * axis[i] / axis.dot(axis))
            direction[i] += 1.0
        return room * direction, (m / room) * direction

    def variance(self, m: int) -> float:
        """m (m + 1)/2: steps across are sqrt(2) times Dikin's."""
        return m * (m + 1) / 2
