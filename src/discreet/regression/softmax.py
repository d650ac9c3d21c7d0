"""Fisher scoring (`fisher.py`) for k classes: multinomial logistic regression in one release.

    here    V (k, k - 1)        an orthonormal basis of what is orthogonal to (1, ..., 1)
            p = softmax(V t)    probabilities of the classes, t = Theta' phi with k - 1 entries
            r = V' (e_y - p)    the residual of a row of class y; |r| = |e_y - p|
            S = V' (diag p - p p') V          the information of a row, a covariance matrix
            h = sqrt(1 - 1/k)   the circumradius of the simplex: max_y |e_y - p| >= h for all p

For two classes t is the log-odds over sqrt(2).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from discreet.arrays import Array
from discreet.least_squares import shrink
from discreet.regression.base import Estimate, Problem
from discreet.regression.fisher import Weighting, scoring
from discreet.regression.rows import Parts

GRAM_COST = 0.25  # (move of the information / move of the gradient)^2
LONGEST_STEP = 2.0  # of t: Newton's method overshoots where probabilities are near 0 and 1
BLOCK = 2**12  # rows at a time: each has k (k - 1) / 2 entries of its information


def multinomial(problem: Problem, classes: int, radius: float) -> Estimate:
    """Theta (d, k - 1) row by row; log-odds of two classes are within +-radius.

    Labels are class numbers 0 .. k - 1. A row of zeros adds nothing to any sum.
    """
    # Log-odds are <e_a - e_b, V t>, at most sqrt(2) |t|.
    return scoring(problem, SoftmaxScore(classes), radius / math.sqrt(2))


@dataclass(frozen=True)
class SoftmaxScore:
    """The score of multinomial logistic regression."""

    classes: int  # k

    # A row is at most tau h long in g and sqrt(2 G) tau h in c H. Two rows: (1 + 1)^2 in squares
    # from g, and 2 (2 G) from H, whose terms are PSD: 4 (1 + G) in all, against 4 of g alone.
    gram_cost = GRAM_COST
    joint = 1 + GRAM_COST
    longest_step = LONGEST_STEP

    @property
    def entries(self) -> int:
        """m = k - 1."""
        return self.classes - 1

    @property
    def half_range(self) -> float:
        """h: the mean over y of |e_y - p|^2 is 1 + |p|^2 - 2/k >= 1 - 1/k, as |p|^2 >= 1/k."""
        return math.sqrt(1 - 1 / self.classes)

    @property
    def slope(self) -> float:
        """S = I/k where all classes have the same probability."""
        return 1 / self.classes

    @property
    def dispersion(self) -> float:
        """Cov(e_y) is S itself."""
        return 1.0

    @cached_property
    def basis(self) -> Array:  # (k, k - 1)
        """V: Helmert's contrasts, each class against the mean of those before it."""
        k = self.classes
        contrasts = np.zeros((k, k - 1))
        for j in range(1, k):
            contrasts[:j, j - 1] = -1.0
            contrasts[j, j - 1] = j
        return np.asarray(contrasts / np.linalg.norm(contrasts, axis=0))

    def probabilities(self, t: Array) -> Array:  # (n, k - 1) -> (n, k)
        """softmax(V t)."""
        return np.asarray(scipy.special.softmax(t @ self.basis.T, axis=1))

    def surprise(self, theta: Array) -> float:
        """The largest r(t) / h: |t| <= |Theta|, so log-odds of two classes are within a bound.

        r^2 = 1 + |p|^2 - 2 min p, and |p|^2 <= max p.
        """
        singular = np.linalg.norm(theta.reshape(-1, self.entries), 2)
        odds = math.exp(min(math.sqrt(2) * float(singular), 700.0))
        least, largest = (1 / (1 + (self.classes - 1) * each) for each in (odds, 1 / odds))
        return math.sqrt(min(1 + largest - 2 * least, 2.0)) / self.half_range

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g = sum w u x r and H = sum w (u u') x S."""
        d = X.shape[1]
        m = self.entries
        g = np.zeros((d, m))
        H = np.zeros((d, m, d, m))
        for start in range(0, len(X), BLOCK):
            block = slice(start, start + BLOCK)
            p = self.probabilities(X[block] @ theta.reshape(d, m))
            labels = np.clip(y[block], 0, self.classes - 1).astype(np.intp)
            # max_y |e_y - p|^2 = 1 + |p|^2 - 2 min p
            farthest = np.sqrt(1 + np.einsum("ij,ij->i", p, p) - 2 * p.min(axis=1))
            u, w = weighting.transform(X[block], np.maximum(farthest / self.half_range, 1.0))
            q = p @ self.basis
            g += u.T @ (w[:, None] * (self.basis[labels] - q))
            for a in range(m):
                for b in range(a + 1):
                    S = p @ (self.basis[:, a] * self.basis[:, b]) - q[:, a] * q[:, b]
                    part = (u * (w * S)[:, None]).T @ u
                    H[:, a, :, b] += part
                    H[:, b, :, a] += part * (a != b)
        return g.ravel(), H.reshape(d * m, d * m)

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g (l2) and H (Frobenius)."""
        # |w u r'|_F = w |u| |e_y - p| <= tau h; two such rows differ by 2 tau h (replace-one).
        gradient = 2 * weighting.tau * self.half_range
        # |S|_F^2 = a - 2 b + a^2 with a = sum p^2, b = sum p^3, and a^2 <= b by Cauchy and Schwarz:
        # at most a - a^2 <= 1/4. So |w u u' x S|_F <= cap / 2; sqrt(2) of it (replace-one, PSD).
        return gradient, math.sqrt(2) * weighting.cap / 2

    def gram(self, information: Array) -> Array:
        """The blocks of the diagonal added up, over tr S = 1 - 1/k where classes are equal."""
        m = self.entries
        d = len(information) // m
        traces = np.einsum("iaja->ij", information.reshape(d, m, d, m))
        return np.asarray(traces / (1 - 1 / self.classes))

    def target(self, noisy: Array, noise_std: float) -> Array:
        """Gram matrix x mean information of a row: of H, both are sums, with less noise."""
        m = self.entries
        d = len(noisy) // m
        parts = noisy.reshape(d, m, d, m)
        rows = shrink(np.einsum("iaja->ij", parts), math.sqrt(m) * noise_std)
        classes = shrink(np.einsum("iaib->ab", parts), math.sqrt(d) * noise_std)
        return np.asarray(np.kron(rows, classes) / max(float(np.trace(rows)), 1e-300))

    def within(self, theta: Array, radius: float) -> Array:
        """Singular values of Theta are cut at the radius, so that |t| is."""
        left, values, right = np.linalg.svd(theta.reshape(-1, self.entries), full_matrices=False)
        return np.asarray((left * np.minimum(values, radius)) @ right).ravel()
