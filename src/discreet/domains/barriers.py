"""Self-concordant barriers: what keeps SCRiBLe inside a domain."""

import math
from typing import Protocol

import numpy as np

from discreet.privacy.checks import Array


class Barrier(Protocol):
    """A nu-self-concordant barrier; z are coordinates strictly inside."""

    nu: float

    def value(self, z: Array) -> float:
        """The barrier; infinite outside."""

    def gradient(self, z: Array) -> Array:
        """(m,) -> (m,)."""

    def hessian(self, z: Array) -> Array:
        """(m,) -> (m, m)."""


class LogBarrier:
    """-sum log(b - A z), nu = rows of A."""

    def __init__(self, A: Array, b: Array) -> None:
        self.A, self.b, self.nu = A, b, float(len(b))

    def value(self, z: Array) -> float:
        """Infinite outside."""
        slack = self.b - self.A @ z
        return float(-np.log(slack).sum()) if slack.min() > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        """(m,) -> (m,)."""
        return np.asarray((1 / (self.b - self.A @ z)) @ self.A)

    def hessian(self, z: Array) -> Array:
        """(m,) -> (m, m)."""
        rows = self.A / (self.b - self.A @ z)[:, None]
        return np.asarray(rows.T @ rows)


class CubeBarrier:
    """-sum log(1 - z_i^2); each term has nu = sup 2 z^2/(1 + z^2) = 1."""

    def __init__(self, dim: int) -> None:
        self.nu = float(dim)

    def value(self, z: Array) -> float:
        """Infinite outside."""
        room = 1 - z * z
        return float(-np.log(room).sum()) if room.min() > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        """(m,) -> (m,)."""
        return np.asarray(2 * z / (1 - z * z))

    def hessian(self, z: Array) -> Array:
        """(m,) -> (m, m)."""
        return np.diag(2 * (1 + z * z) / (1 - z * z) ** 2)


class BallBarrier:
    """-log(1 - |z|^2); nu = sup 2 |z|^2/(1 + |z|^2) = 1."""

    nu = 1.0

    def value(self, z: Array) -> float:
        """Infinite outside."""
        room = 1 - float(z @ z)
        return -math.log(room) if room > 0 else math.inf

    def gradient(self, z: Array) -> Array:
        """(m,) -> (m,)."""
        return np.asarray(2 * z / (1 - z @ z))

    def hessian(self, z: Array) -> Array:
        """(m,) -> (m, m)."""
        room = 1 - z @ z
        return np.asarray(2 * np.eye(len(z)) / room + 4 * np.outer(z, z) / room**2)
