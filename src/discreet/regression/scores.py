"""How labels depend on t = Theta' phi, and what a stage of `newton.py` releases of a row.

    u = M phi                                    a whitened row
    w = min(1, tau h/(|u| r(t)), square/|u|^2)   its weight, r(t) = max_y |y - nu(t)| >= h

t is a number (`LinkScore`: a link nu) or a vector (`SoftmaxScore`: several classes). Residuals are
never clipped (clipping biases 0/1 labels; counts are: `counts.py`); a row loses weight for the
largest residual r(t) attainable, which is h, half the range of labels, where nothing is known, and
more where a label would surprise. Weights depend on phi and the public theta alone, so g = 0 stays
unbiased.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from discreet.arrays import Array
from discreet.domains.hull import sum_zero_basis
from discreet.least_squares import Whitening, power
from discreet.links import BoundedLink
from discreet.regression.rows import Parts

GRAM_COST = 0.25  # G: (move of the information / move of the gradient)^2; at most 1/4
BLOCK = 2**12  # rows at a time: of k classes each has k (k - 1) / 2 entries of its information


@dataclass(frozen=True)
class Weighting:
    """Public coordinates u = M phi, and from which length on rows lose weight."""

    whitening: Whitening  # M
    tau: float  # the most that w |u| is, times r / h
    square: float = math.inf  # the most that w |u|^2 is

    @property
    def cap(self) -> float:
        """w |u|^2 is at most this: w |u| <= tau h/r <= tau, w |u|^2 <= square, and w <= 1."""
        longest = self.whitening.norm  # |u| <= |M|, because |phi| <= 1
        return min(self.tau * longest, self.square, longest**2)

    def transform(self, X: Array, surprise: Array) -> tuple[Array, Array]:  # (n, d), (n,)
        """u, and w for rows whose residual is at most `surprise` times h."""
        u = self.whitening.transform(X)
        squares = np.maximum(np.einsum("ij,ij->i", u, u), 1e-200)
        limits = np.minimum(self.tau / (np.sqrt(squares) * surprise), self.square / squares)
        return u, np.minimum(1.0, limits)


class Score:
    """How labels depend on t = Theta' phi of m entries; theta is Theta (d, m), row by row."""

    @property
    def entries(self) -> int:
        """m."""
        return 1

    @property
    def slope(self) -> float:
        """nu' at its largest; of a matrix, the eigenvalues where no class is preferred."""
        return 1.0

    @property
    def dispersion(self) -> float:
        """Cov(y | phi) <= dispersion nu'(t)."""
        return 1.0

    @property
    def half_range(self) -> float:
        """h: for every t some label is at least so far from its mean."""
        raise TypeError("a score must define half_range")

    @property
    def joint(self) -> float:
        """(move of g and c H together / move of g)^2, where a row adds p u to g and q u u' to H.

        A row is p moves_g / 2 long in g and q moves_H / sqrt(2) in H, 0 <= p, q <= 1; as
        c moves_H = sqrt(G) moves_g, two rows with cosine a move both, in units of moves_g / 2, by
        p^2 + p'^2 + 2 a p p' + 2 G (q^2 + q'^2 - 2 a^2 q q') in squares (replace-one). That is
        convex in the q's and grows with the p's: largest at p = p' = 1, q = 1, q' = 0 or 1. Those
        are 2 + 2 a + 2 G and, growing with a for G <= 1/4, 2 + 2 a + 4 G (1 - a^2): both at most
        4 (1 + G/2).
        """
        return 1 + GRAM_COST / 2

    @property
    def entropy(self) -> float:
        """Of a label at t = 0: no step can gain more likelihood for each row."""
        return math.inf

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g (d m,) and H (d m, d m) of a block: the only place where labels and rows are read."""
        raise TypeError("a score must define statistics")

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g (l2) and H (Frobenius)."""
        raise TypeError("a score must define sensitivities")

    def surprise(self, theta: Array) -> float:
        """The largest r(t) / h of a row in the unit ball."""
        raise TypeError("a score must define surprise")

    def gram(self, information: Array) -> Array:
        """The Gram matrix (d, d) of rows, in units of `slope`, from their information."""
        return information / self.slope

    def means(self, t: Array) -> Array:  # (n, m) -> (n, m)
        """nu(t); linear where nu' hardly changes over a step."""
        return t

    def constant(self, residual: Array, least: float) -> tuple[Array, Array, Array]:
        """t, nu(t) - nu(0), (nu'(t) / nu'(0))^(1/2), where nu(t) is nu(0) + residual.

        But no label is less likely than `least`.
        """
        raise TypeError("a score must define constant")

    def within(self, theta: Array, radius: float) -> Array:
        """The nearest theta that is allowed: |t| <= radius."""
        return np.asarray(theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300)))


@dataclass(frozen=True)
class LinkScore(Score):
    """The score of a generalised linear model: t is a number."""

    model: BoundedLink  # nu

    @property
    def half_range(self) -> float:
        """h, half the range of labels."""
        least, most = self.model.labels
        return (most - least) / 2

    @property
    def slope(self) -> float:
        """The largest nu'."""
        return self.model.largest

    @property
    def dispersion(self) -> float:
        """Var(y | phi) <= dispersion nu'."""
        return self.model.dispersion

    @property
    def entropy(self) -> float:
        """log 2 for 0/1 labels; counts have no limit."""
        return math.log(2) if self.model.link.inverse(1.0) == math.inf else math.inf

    def constant(self, residual: Array, least: float) -> tuple[Array, Array, Array]:
        """Of a mean that is at least `least` away from the ends of the labels' range."""
        model = self.model
        zero = np.zeros(1)
        low, high = model.labels
        least = min(least, (high - low) / 2)
        mean = float(np.clip(model.mean(zero) + residual, low + least, high - least)[0])
        t = np.clip([model.link.inverse(mean * model.unit)], model.low, model.high)
        slopes = model.slope(t) / model.slope(zero)
        return t, model.mean(t) - model.mean(zero), np.sqrt(slopes)[:, None]

    def means(self, t: Array) -> Array:
        """nu(t)."""
        return self.model.mean(t)

    def surprise(self, theta: Array) -> float:
        """|t| <= |theta|, because |phi| <= 1."""
        return self.model.residual(float(np.linalg.norm(theta))) / self.half_range

    def statistics(self, weighting: Weighting, theta: Array, X: Array, y: Array) -> Parts:
        """g = sum w u (y - nu) and H = sum w u u' nu', labels clipped to what the link allows."""
        t = X @ theta
        u, w = weighting.transform(X, self.model.residuals(t) / self.half_range)
        g = u.T @ (w * (np.clip(y, *self.model.labels) - self.model.mean(t)))
        return g, (u * (w * self.model.slope(t))[:, None]).T @ u

    def sensitivities(self, weighting: Weighting) -> tuple[float, float]:
        """How far one replaced row moves g and H."""
        # |w u (y - nu(t))| <= w |u| r(t) <= tau h; two such rows differ by 2 tau h (replace-one).
        gradient = 2 * weighting.tau * self.half_range
        # H sums a a^T with |a|^2 = w nu' |u|^2 <= L cap: sqrt(2) L cap (replace-one, PSD terms).
        return gradient, math.sqrt(2) * self.model.largest * weighting.cap


@dataclass(frozen=True)
class SoftmaxScore(Score):
    """The score of k classes: multinomial logistic regression in one release.

    V (k, k - 1)        an orthonormal basis of what is orthogonal to (1, ..., 1)
    p = softmax(V t)    probabilities of the classes; of two, t is the log-odds over sqrt(2)
    r = V' (e_y - p)    the residual of a row of class y; |r| = |e_y - p|
    S = V' (diag p - p p') V          the information of a row, a covariance matrix
    h = sqrt(1 - 1/k)   the circumradius of the simplex: max_y |e_y - p| >= h for all p
    """

    classes: int  # k

    @property
    def entries(self) -> int:
        """m = k - 1."""
        return self.classes - 1

    @property
    def joint(self) -> float:
        """(move of g and c H together / move of g)^2."""
        # A row is at most tau h long in g and sqrt(2 G) tau h in c H. Two rows: (1 + 1)^2 in
        # squares from g, 2 (2 G) from H, whose terms are PSD: 4 (1 + G), against 4 of g alone.
        return 1 + GRAM_COST

    @property
    def entropy(self) -> float:
        """log k."""
        return math.log(self.classes)

    @property
    def half_range(self) -> float:
        """h: the mean over y of |e_y - p|^2 is 1 + |p|^2 - 2/k >= 1 - 1/k, as |p|^2 >= 1/k."""
        return math.sqrt(1 - 1 / self.classes)

    @property
    def slope(self) -> float:
        """S = I/k where all classes have the same probability."""
        return 1 / self.classes

    @cached_property
    def basis(self) -> Array:  # (k, k - 1)
        """V: Helmert's contrasts, each class against the mean of those before it."""
        return -sum_zero_basis(self.classes)

    def probabilities(self, t: Array) -> Array:  # (n, k - 1) -> (n, k)
        """softmax(V t)."""
        return np.asarray(scipy.special.softmax(t @ self.basis.T, axis=1))

    def means(self, t: Array) -> Array:
        """V' p."""
        return np.asarray(self.probabilities(t) @ self.basis)

    def surprise(self, theta: Array) -> float:
        """|t| <= |Theta| bounds log-odds; r^2 = 1 + |p|^2 - 2 min p, and |p|^2 <= max p."""
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
        """How far one replaced row moves g and H."""
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

    def constant(self, residual: Array, least: float) -> tuple[Array, Array, Array]:
        """Of p = 1/k + V residual, every probability at least `least`."""
        k = self.classes
        p = np.maximum(1 / k + self.basis @ residual, min(least, 1 / k))
        p = p / p.sum()
        S = self.basis.T @ (np.diag(p) - np.outer(p, p)) @ self.basis
        return self.basis.T @ np.log(p), self.basis.T @ p, power(k * S, 0.5)

    def within(self, theta: Array, radius: float) -> Array:
        """Singular values of Theta are cut at the radius, so that |t| is."""
        left, values, right = np.linalg.svd(theta.reshape(-1, self.entries), full_matrices=False)
        return np.asarray((left * np.minimum(values, radius)) @ right).ravel()
