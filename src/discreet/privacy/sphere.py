"""The local channel for vectors: reports on a sphere.

    paper   v    p                 gamma  q                 1/m
    here    V    self._inside_p    cap    self._inside_q    self.radius

A symmetric matrix goes through it as its isometric vector (`mechanisms.symmetric_to_vector`).
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.arrays import Array, finite, integer, within
from discreet.privacy.channels import Channel
from discreet.privacy.noise import Noise
from discreet.privacy.portable import COINS, dot, draw_coins, exp, normals, sphere, tanh
from discreet.privacy.release import observe

# The last bits of a float report show how it was computed, and so whose it is. Reports are rounded
# to a public grid, far finer than their noise and far coarser than those bits.
GRID = 2.0**-20  # of the sphere's radius

# What the rounding of the coin and of the table of a sphere may cost is below this much of epsilon,
# which is not spent (or half of it).
CHECKED = 1e-9


class BallChannel(Channel):
    """Unbiased, pure epsilon-LDP reports of vectors in the unit l2 ball.

    A vector v becomes a random direction with mean v: +v/|v| with probability (1 + |v|)/2, else
    -v/|v| (uniform at v = 0). The report lies on a sphere of radius 1/m: with probability p it is
    uniform on the cap {u: <u, direction> >= cap}, else on the rest of the sphere. With q the part
    of the sphere in the cap, p (1 - q) / ((1 - p) q) = e^epsilon exactly. cap = 0 is the half
    sphere of Duchi, Jordan and Wainwright (2018); a larger cap is PrivUnit (Bhowmick et al. 2018).
    The cap is chosen for the least variance, 1/m^2 - |v|^2 in total.

    Guarantee  each report is epsilon-DP by itself; with contributions=k each of a person's k
    reports runs at epsilon/k.

    dim             length of a vector
    epsilon         the privacy loss of all reports of one person; inf switches privacy off
    contributions   the most reports of one person; each is made at epsilon/contributions

    >>> from discreet.privacy import SeededNoise
    >>> channel = BallChannel(3, epsilon=2.0)
    >>> reports = channel.privatize(np.tile([0.6, 0.0, 0.0], (50_000, 1)), SeededNoise(0))
    >>> bool(np.abs(reports.mean(axis=0) - [0.6, 0.0, 0.0]).max() < 0.05)
    True
    """

    mechanism = "sphere channel"
    reference = "Duchi, Jordan and Wainwright (2018); Bhowmick et al. (2018)"

    def __init__(self, dim: int, epsilon: float, *, contributions: int = 1) -> None:
        super().__init__(epsilon, contributions)
        self.dim = integer("dim", dim)
        if self.off:
            self.cap, self.radius = 0.0, 1.0
            return
        self.cap, self._inside_q, partial = 0.0, 0.5, 0.5
        if self.dim > 1:
            # m = (p/q - (1-p)/(1-q)) E[u; u >= cap] with p = q / (q + (1-q) e^-epsilon), and
            # E[u; u >= cap] is the density of artanh u over d - 1.
            table = sphere(self.dim)
            other = float(exp(-self.report_epsilon))
            means = table.density / (table.tail + (1.0 - table.tail) * other)
            self._node = int(np.argmax(means))
            self.cap = float(tanh(table.r[self._node : self._node + 1])[0])
            self._inside_q = float(table.tail[self._node])
            partial = float(table.density[self._node]) / (self.dim - 1)
        # p (1 - q) / ((1 - p) q) <= e^epsilon: p is rounded down to coins.
        spent = self.report_epsilon - min(CHECKED, self.report_epsilon / 2)
        q = self._inside_q
        self._likely = COINS - math.ceil(COINS / (1.0 + float(exp(spent)) * (q / (1.0 - q))))
        p = self._inside_p = self._likely / COINS
        self.radius = 1 / ((p / q - (1 - p) / (1 - q)) * partial)

    @property
    def std(self) -> float:
        """The largest root-mean-square error of a report, per coordinate."""
        return 0.0 if self.off else self.radius / math.sqrt(self.dim)

    def privatize(
        self, V: ArrayLike, noise: Noise | None = None, *, clip: bool = False
    ) -> Array:  # (n, dim) -> (n, dim)
        """One report for each row; a single vector gives a single report."""
        rows = self._rows("V", V, clip)
        return self.send(rows, self.draws_from(noise)).reshape(np.shape(V))

    def send(self, rows: Array, noise: Noise) -> Array:  # (n, dim) -> (n, dim)
        """`privatize`, for rows that are known to be no longer than 1, up to rounding."""
        sent = rows.copy() if self.off else self.decode(self._drawn(rows, self.draws_from(noise)))
        observe("report", sent)
        return sent

    @property
    def thresholds(self) -> dict[str, float]:
        """What a device in another language needs to draw the same reports."""
        return {"cap": self.cap, "likely": self._likely}

    def decode(self, codes: NDArray[np.int64]) -> Array:
        """Reports from integers: steps of the grid."""
        return np.asarray(self.radius * (codes * GRID))

    def encode(self, reports: Array) -> NDArray[np.int64]:
        """The integers that `decode` makes these reports of."""
        return np.rint(reports / self.radius / GRID).astype(np.int64)

    def _drawn(self, rows: Array, noise: Noise) -> NDArray[np.int64]:  # (n, dim) -> (n, dim)
        """In steps of the grid. Only arithmetic that is the same in every language: portable.py."""
        sign, inside = draw_coins(noise, (len(rows), 2)).T
        # Scaled by the largest entry first: squares of tiny numbers would lose their digits, and
        # a report off the sphere would betray them.
        largest = np.abs(rows).max(axis=1)
        zero = largest == 0
        direction = rows / np.where(zero, 1.0, largest)[:, None]
        norms = np.sqrt(dot(direction, direction))
        away = np.where(sign < (1.0 + largest * norms) * (COINS / 2), 1.0, -1.0)
        direction *= (away / np.where(zero, 1.0, norms))[:, None]
        units = normals(noise, len(rows), self.dim)
        if self.dim == 1:  # in one dimension there are two values
            along = np.where(inside < self._likely, 1.0, -1.0)
            ends = np.where(zero[:, None], np.where(units < 0, -1.0, 1.0), along[:, None])
            return _on_grid(np.where(zero[:, None], ends, ends * direction))
        along, across = sphere(self.dim).draw(inside < self._likely, self._node, noise)
        # No direction: the normalised normal vector is the uniform report.
        along[zero], across[zero] = 0.0, 1.0
        # Complete a unit vector by the normal vector's part across the direction.
        for _ in range(2):  # again, for the digits of a vector that is nearly along it
            units = units - dot(units, direction)[:, None] * direction
        length = np.sqrt(dot(units, units))
        units = units * (across / np.where(length == 0, 1.0, length))[:, None]
        return _on_grid(units + along[:, None] * direction)

    def possible(self, reports: Array) -> NDArray[np.bool_]:  # (n, ...) -> (n,)
        """Which of these a device could have sent: on the sphere, up to the grid.

        A bare record is shorter. Without privacy it is a report, if it is not longer.
        """
        norms = np.sqrt(np.sum(reports.reshape(len(reports), -1) ** 2, axis=1)) / self.radius
        slack = GRID * math.sqrt(self.dim)  # a comparison with NaN is false
        return np.asarray((norms <= 1 + slack) & (self.off | (norms >= 1 - slack)))

    def log_density(self, reports: ArrayLike, v: ArrayLike) -> Array:  # (n, dim), (dim,) -> (n,)
        """log density of reports given v, against the uniform distribution on the sphere.

        Between any two inputs it differs by at most epsilon: privacy by computation.
        """
        units = np.atleast_2d(finite("reports", reports)) / self.radius
        vector = self._rows("v", v, False)[0]
        norm = float(np.linalg.norm(vector))
        if norm == 0:
            return np.zeros(len(units))
        along = units @ (vector / norm)
        inside = self._inside_p / self._inside_q
        outside = (1 - self._inside_p) / (1 - self._inside_q)
        towards = np.where(along >= self.cap, inside, outside)
        # For cap = 0 both half spheres hold their edge; it has no mass, but count it once.
        away = np.where((along <= -self.cap) & (along < 0), inside, outside)
        return np.asarray(np.log((1 + norm) / 2 * towards + (1 - norm) / 2 * away))

    def _rows(self, name: str, V: ArrayLike, clip: bool) -> Array:
        rows = finite(name, V)
        if rows.ndim == 0 or rows.shape[-1] != self.dim:
            raise ValueError(f"{name} must have rows of length {self.dim}, got shape {rows.shape}")
        return within(name, rows.reshape(-1, self.dim), 1.0, norm="l2", clip=clip)


def _on_grid(units: Array) -> NDArray[np.int64]:
    """Steps of the public grid, to the nearest: all that is sent of a float."""
    return np.rint(units / GRID).astype(np.int64)
