"""The information matrices of a public distribution of covariates, and what they forecast.

Chen, Li, Rakhlin, Simchi-Levi (2025): equations (2) and (6), the spectral iterations (14) and (20),
Theorems 4.5 and 5.5, the price of privacy (23).

    paper   W, U    F_(gamma, lam)(W)   p   T   alpha     Sigma         PoP
    here    W, U    balance             X   n   epsilon   X' X / rows   price_of_privacy

Everything here looks at X without noise, so X must be **public**: another sample, a simulation, or
just a dimension d, which stands for the uniform distribution on the unit sphere.

The forecasts are of what this library's estimators do at real sizes, not of the papers' bounds:
CLIP, NOISE, REPORT and JOINT were fitted to simulated fits (benchmarks/forecast.py).
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.arrays import Array, finite, integer, one_of, positive, row_norms, within
from discreet.local.questions import Question
from discreet.privacy import BallChannel, Shuffled, gaussian_mu
from discreet.regression.central import EARLY_FRACTION
from discreet.regression.local_server import CLIP as LOCAL_CLIP
from discreet.regression.local_server import PHASES, SCALE, SHUFFLED_PHASES
from discreet.regression.sample import EARLY_ROWS, MANY_ROWS

CLIP = 2.0  # residuals are cut at about this many standard deviations
FRACTIONS = (0.2, 0.15, 0.27, 0.38)  # of mu^2: a fit is forecast as four steps
NOISE = 3.0  # std of a released moment: 2 for the moment, the rest for Gram and sketches
REPORT = 1.0  # the same for local reports, in units of the channel's std
GRAM = 0.3  # of the people of a phase, about, tell the Gram matrix
PEOPLE = tuple((1 - GRAM) * phase for phase in PHASES)  # moments
JOINT = 1.15  # the same for joint reports
TRUSTS = ("central", "shuffled", "local")

STEPS = 100  # of the iteration; about 15 are enough
POWERS = 1 / (1.5 + 0.5 * np.cos(np.pi * np.array([1, 7, 3, 5]) / 8))  # Chebyshev's, for [1, 2]
TOO_MANY = 10**12  # rows; nobody has them


def information_matrix(
    X: ArrayLike, *, gamma: float, lam: float, tol: float = 1e-8
) -> Array:  # (rows, d) -> (d, d)
    """W(gamma, lam), or U(lam) with gamma = inf, of the empirical distribution of public rows.

    W > 0 solves  E[W phi phi^T W w(phi)] + lam W = I  with w = 1/(1 + gamma |W phi|), and U with
    w = 1/|U phi| (0 at phi = 0), up to `tol` in operator norm. |W phi| / sqrt(n) is the scale
    of the error that a private fit to n rows has at phi.

    X must be public: this is no private release. With lam = 0 the rows must span the space.

    Reference: Chen et al. (2025), equations (2), (6), (14) and (20).

    >>> W = information_matrix(np.eye(3), gamma=2.0, lam=0.0)   # w^2 / 3 = 1 + 2 w
    >>> W.round(6)
    array([[6.464102, 0.      , 0.      ],
           [0.      , 6.464102, 0.      ],
           [0.      , 0.      , 6.464102]])
    """
    rows = _rows(X)
    if not gamma >= 0:
        raise ValueError(f"gamma must be at least 0, got {gamma!r}")
    if not 0 <= lam < math.inf:
        raise ValueError(f"lam must be at least 0 and finite, got {lam!r}")
    if lam == 0 and np.linalg.matrix_rank(rows) < rows.shape[1]:
        raise ValueError("lam must be positive where the rows of X do not span the space")
    return _solve(Covariates(rows, rows.shape[1]), gamma, lam, positive("tol", tol))


def price_of_privacy(
    X: ArrayLike | int,
    n: int,
    epsilon: float,
    delta: float = 1e-6,
    *,
    trust: str = "central",
    label_noise: float = 0.1,
) -> float:
    """Squared error of a private fit to n rows, relative to least squares: tr(Sigma W^2)/d.

    At gamma = 3/(mu sqrt(n)) under central trust, and at a gamma that no n brings down under local
    trust; under shuffled trust at that of the epsilon_0 which the last batch hides. d counts
    the directions that lam = label_noise/sqrt(n) leaves. 1 means privacy for free.

    >>> [round(price_of_privacy(8, n, epsilon=1.0), 2) for n in (1000, 10_000, 100_000)]
    [2.91, 1.43, 1.12]
    >>> round(price_of_privacy(8, 10_000, epsilon=1.0, trust="local"))
    487
    """
    covariates = _public(X)
    n = integer("n", n)
    one_of("trust", trust, TRUSTS)
    if math.isinf(positive("epsilon", epsilon, allow_inf=True)):
        return 1.0
    if trust == "central":
        gamma = NOISE / (gaussian_mu(epsilon, delta) * math.sqrt(n))
    else:
        gamma = CLIP * _moment_stds(covariates.d, n, epsilon, delta, trust)[-1] * math.sqrt(n)
    lam = positive("label_noise", label_noise) / math.sqrt(n)
    W, plain = (_solve(covariates, each, lam, 1e-4) for each in (gamma, 0.0))
    return float(np.sum((covariates.rows @ W) ** 2) / np.sum((covariates.rows @ plain) ** 2))


def expected_error(
    X: ArrayLike | int,
    n: int,
    epsilon: float = math.inf,
    delta: float = 1e-6,
    *,
    trust: str = "central",
    label_noise: float = 0.1,
    norm: str = "l1",
) -> float:
    """What E|<phi, theta^ - theta>| (or its root mean square, "l2") will be after n rows.

    Units: features in the unit ball, labels in [-1, 1] with std `label_noise` around their mean,
    theta of length about 1. epsilon = inf is least squares. Central and shuffled trust at (epsilon,
    delta), the latter with the default `Shuffled`; local trust at epsilon and delta = 0.

    A fit is taken for four steps. With rows whitened by W each adds noise to the moment of the
    clipped residuals,

        Cov = W (E[w^2 W phi phi^T W] label_noise^2 / n + I / precision) W,
        precision = sum over steps of (n mu sqrt(fraction) / (3 R kappa))^2

    with R = 2 standard deviations of the residuals after the step before, kappa = max |W phi|
    w(phi), and n and fraction the rows and the part of mu^2 of the step; a report has the
    channel's standard deviation instead. Nothing is worse than knowing nothing, which is
    theta ~ N(0, I/d).

    >>> round(expected_error(8, 20_000), 4), round(expected_error(8, 20_000, epsilon=1.0), 4)
    (0.0016, 0.0018)
    """
    covariates = _public(X)
    positive("label_noise", label_noise)
    one_of("norm", norm, ("l1", "l2"))
    one_of("trust", trust, TRUSTS)
    covariance = _forecast(covariates, integer("n", n), epsilon, delta, trust, label_noise)
    return _errors(covariates, covariance)[norm]


def error_limit(
    X: ArrayLike | int,
    n: int,
    epsilon: float,
    *,
    trust: str = "central",
    label_noise: float = 0.1,
    norm: str = "l1",
) -> float:
    """The scale below which no private estimator gets, even one that knows X (its constant is 1).

    Central: label_noise sqrt(tr(Sigma W^2)/n), gamma = 1/(alpha sqrt(d n)), for any delta <= alpha;
    local: label_noise sqrt(tr(Sigma U^2)/(d n))/alpha, and at least what is lost without privacy;
    alpha = e^epsilon - 1. Shuffled: both, the latter with the most that a report may cost.
    In "l1" the same covariance is measured. The order of magnitude of the
    best, not a bound to the digit: the theorems' constants are not known.

    Reference: Chen et al. (2025), Theorems 4.5 (b) and 5.5 (b).

    >>> error_limit(8, 20_000, epsilon=1.0) < expected_error(8, 20_000, epsilon=1.0)
    True
    """
    covariates = _public(X)
    n = integer("n", n)
    sigma = positive("label_noise", label_noise)
    one_of("norm", norm, ("l1", "l2"))
    one_of("trust", trust, TRUSTS)
    d = covariates.d
    # beyond e^20 privacy is no constraint
    alpha = math.expm1(min(positive("epsilon", epsilon, allow_inf=True), 20.0))
    gamma = 0.0 if trust == "local" else 1 / (alpha * math.sqrt(d * n))
    W = _solve(covariates, gamma, sigma * math.sqrt(d / n), 1e-4)
    limit = _errors(covariates, _with_prior(sigma**2 / n * W @ W, d))[norm]
    if trust == "central":
        return limit
    if trust == "shuffled":  # what holds for central trust, and for reports of the largest cost
        alpha = math.expm1(Shuffled().local_epsilon)
    U = _solve(covariates, math.inf, min(1.0, sigma / (alpha * math.sqrt(n))), 1e-4)
    covariance = _with_prior(sigma**2 / (d * alpha**2 * n) * U @ U, d)
    return max(limit, _errors(covariates, covariance)[norm])


def rows_for_classes(d: int, epsilon: float, delta: float = 1e-6, *, base_rate: float = 0.5) -> int:
    """Rows below which a private classifier of d features warns that it may know nothing.

    There the error of log-odds has a variance of 1, if log-odds do: 1/x from sampling and (g/x)^2
    from the noise g = 2 max(p, 1 - p) / mu of a gradient, where x = n p (1 - p) / (2 d), p is the
    fraction of rows of the rarer class, and the 2 stands for the noise of the information.

    >>> rows_for_classes(30, 1.0), rows_for_classes(30, 1.0, base_rate=0.01)
    (1141, 53817)
    """
    mu = gaussian_mu(epsilon, delta)
    p = base_rate
    noise = 2 * max(p, 1 - p) / mu
    n = d / (p * (1 - p)) * (1 + math.sqrt(1 + 4 * noise**2))
    return math.ceil(n) if math.isfinite(n) else TOO_MANY


def rows_needed(
    X: ArrayLike | int,
    target: float,
    epsilon: float = math.inf,
    delta: float = 1e-6,
    *,
    trust: str = "central",
    label_noise: float = 0.1,
    norm: str = "l1",
) -> float:
    """The least n with `expected_error` at most `target`, to 2%; inf beyond 10^12 rows.

    >>> round(rows_needed(8, target=0.005) / 100), round(rows_needed(8, 0.005, epsilon=1.0) / 100)
    (21, 48)
    """
    goal = positive("target", target)
    covariates = _public(X)

    def error(n: float) -> float:
        covariance = _forecast(covariates, round(n), epsilon, delta, trust, label_noise)
        return _errors(covariates, covariance)[norm]

    one_of("norm", norm, ("l1", "l2"))
    one_of("trust", trust, TRUSTS)
    positive("label_noise", label_noise)
    low, high = 1.0, 1024.0
    while error(high) > goal:
        low, high = high, 8 * high
        if high > TOO_MANY:
            return math.inf
    while high > max(1.02 * low, low + 1):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if error(middle) > goal else (low, middle)
    return float(math.ceil(high))


# -- inside ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Covariates:
    """A public distribution of rows in d features.

    On the sphere every direction is like every other: all matrices are multiples of I, and one
    number stands for them, `rows` being [[1]]. Then E[phi phi^T] is 1/d, that of `rows` is 1.
    """

    rows: Array  # (m, d), or (1, 1) for the sphere
    d: int  # features

    @property
    def fraction(self) -> float:
        """E[phi phi^T] in units of the mean of `rows`' own."""
        return 1.0 if self.rows.shape[1] == self.d else 1 / self.d


def _public(X: ArrayLike | int) -> Covariates:
    """A public sample of rows, or d for the sphere in d dimensions."""
    if isinstance(X, (int, np.integer)):
        return Covariates(np.ones((1, 1)), integer("d", X))
    rows = within("X", _rows(X), 1.0, norm="l2", clip=False)
    return Covariates(rows, rows.shape[1])


def _rows(X: ArrayLike) -> Array:
    rows = finite("X", X)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"X must be a matrix (rows, d), got shape {rows.shape}")
    return rows


def _solve(covariates: Covariates, gamma: float, lam: float, tol: float) -> Array:
    """W <- sym(F^-power W) until F = I, where sym(A) = (A^T A)^(1/2).

    With the paper's power 1/2 the next W is (E[w phi phi^T] + lam W^-1)^(-1/2): monotone in W, and
    for c W at most sqrt(c) times as large, so each step halves the distance to the solution. Close
    to it log F moves between once and twice as fast as log W; powers 1/t, with t Chebyshev's nodes
    of [1, 2], then gain up to a factor 6 a step.
    """
    X = covariates.rows
    if gamma == 0:  # W commutes with Sigma: s w^2 + lam w = 1 in each of its directions
        s, V = np.linalg.eigh(covariates.fraction * (X.T @ X / len(X)))
        w = 2 / (lam + np.sqrt(lam**2 + 4 * np.maximum(s, 0.0)))
        return np.asarray((V * w) @ V.T)
    W = np.eye(X.shape[1]) / max(lam, float(np.mean(row_norms(X, "l2"))))
    for k in range(STEPS):
        Z = X @ W
        balance = covariates.fraction * _weighted(Z, gamma) + lam * W
        f, V = np.linalg.eigh(balance)
        if np.max(np.abs(f - 1)) <= tol:
            return W
        if not f[0] > 0:
            break
        _, s, Q = np.linalg.svd(((V * f ** -POWERS[k % 4]) @ V.T) @ W)
        W = (Q.T * s) @ Q
    raise ValueError(
        f"no information matrix to tolerance {tol:g} after {STEPS} steps; raise lam "
        "(directions without data need it) or tol"
    )


def _weighted(Z: Array, gamma: float, power: int = 1) -> Array:
    """E[z z^T w(z)^power] over the rows z = W phi."""
    size = row_norms(Z, "l2")
    w = 1 / np.where(size > 0, size, np.inf) if math.isinf(gamma) else 1 / (1 + gamma * size)
    half = Z * np.sqrt(w**power / len(Z))[:, None]
    return np.asarray(half.T @ half)


def _forecast(
    covariates: Covariates, n: int, epsilon: float, delta: float, trust: str, sigma: float
) -> Array:  # the covariance of theta's error
    X = covariates.rows
    d = covariates.d
    lam = sigma / math.sqrt(n)
    if math.isinf(positive("epsilon", epsilon, allow_inf=True)):
        W = _solve(covariates, 0.0, 1e-3 * lam, 1e-4)
        return _with_prior(sigma**2 / n * W @ W, d)
    if trust == "central":
        mu = gaussian_mu(epsilon, delta)
        # 1/gamma bounds the moment, so here its noise is as large as the labels'
        steps = [(fraction, n) for fraction in FRACTIONS]
        if n > MANY_ROWS:
            scale = EARLY_FRACTION / sum(FRACTIONS[:-1])
            steps = [(scale * fraction, EARLY_ROWS) for fraction in FRACTIONS[:-1]]
            steps.append((1.0, n))
        gamma = CLIP * NOISE / (mu * math.sqrt(steps[-1][0] * n))
        W = _solve(covariates, gamma, lam, 1e-3)
        kappa = 1 / (gamma + 1 / float(np.linalg.norm(W, 2)))
        stds = [NOISE * kappa / (mu * math.sqrt(fraction) * rows) for fraction, rows in steps]
    else:
        gamma = math.inf
        W = _solve(covariates, gamma, lam, 1e-3)
        stds = _moment_stds(d, n, epsilon, delta, trust)
    labels = sigma**2 / n * covariates.fraction * _weighted(X @ W, gamma, power=2)
    identity = np.eye(X.shape[1])
    covariance: Array = identity / d
    precision = 0.0
    for std in stds:
        residual = math.hypot(sigma, _errors(covariates, covariance)["l2"])
        precision += (std * min(1.0, CLIP * residual)) ** -2
        covariance = _with_prior(W @ (labels + identity / precision) @ W, d)
    return covariance


def _moment_stds(d: int, n: int, epsilon: float, delta: float, trust: str) -> list[float]:
    """Of the mean of each phase's reports, where people report; with its Gram's part of the error.

    Under shuffled trust epsilon_0 follows from the phase's batch, and the moment is a part of a
    joint report.
    """
    if trust == "local":
        channel = REPORT * BallChannel(d, epsilon).std
        return [channel / math.sqrt(fraction * n) for fraction in PEOPLE]
    question = Question("joint", "joint", 1.0, 1.0)
    stds = []
    for phase, fraction in enumerate(SHUFFLED_PHASES):
        size = max(1, round(fraction * n * (1 - (SCALE if phase else 0.0))))
        each = Shuffled().batch(size, epsilon, delta).report_epsilon(1)
        joint = question.channel(d, each, 1)
        assert isinstance(joint, BallChannel)
        cut = LOCAL_CLIP / CLIP if phase else 1.0  # the first one cuts at the label bound
        part = math.sqrt(question.totals["moment"])
        stds.append(JOINT * cut / part * joint.std / math.sqrt(size))
    return stds


def _with_prior(covariance: Array, d: int) -> Array:
    """The posterior covariance if before the fit theta ~ N(0, I/d)."""
    c, V = np.linalg.eigh(covariance)
    return np.asarray((V * (c / (1 + d * c))) @ V.T)


def _errors(covariates: Covariates, covariance: Array) -> dict[str, float]:
    """E|<phi, e>| and E[<phi, e>^2]^(1/2) for an error e ~ N(0, covariance)."""
    variance = np.einsum("ij,ij->i", covariates.rows @ covariance, covariates.rows)
    return {
        "l1": math.sqrt(2 / math.pi) * float(np.mean(np.sqrt(np.maximum(variance, 0.0)))),
        "l2": math.sqrt(max(float(np.mean(variance)), 0.0)),
    }
