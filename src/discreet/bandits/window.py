"""One window of a linear bandit: how its rows are whitened and clipped, and what it releases.

After Chen, Li, Rakhlin, Simchi-Levi (2025), Algorithms 5 and 6: weights that let no row count too
much in coordinates where past rows are isotropic, and normal equations solved there; released
around what is known already, so that the noise shrinks with the error that is left.

    paper   W^{1/2}      w(phi)    H       psi              theta^(j), b^(j)
    here    whitening    weight    gram    moment           Belief.mean, Belief.covariance

With residual r = reward - <phi, mean>, of standard deviation rho = sqrt(1 + phi' C phi / nu) in
units of sqrt(nu), and x = M phi / rho, a row enters the release as the symmetric matrix v v',

    v = sqrt(w) [a x; b f/R; b g/E],    w = min(1, 1/|x|^2),    r/rho = f + g
    (f/R)^2 + (g/E)^2 <= 1,    a^2 + b^2 = 2,    hence |v|^2 <= 2

f is the residual clipped at R, a few standard deviations; g is what was clipped off, released
beside it at no extra noise, to notice rewards for which clipping is wrong. E bounds every residual.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import copysign, sqrt
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.bandits.belief import Belief
from discreet.bandits.holdout import Holdout
from discreet.bandits.parts import People
from discreet.bandits.tuning import TUNING
from discreet.least_squares import Whitening, least_error_clip
from discreet.least_squares.blocks import Blocks
from discreet.least_squares.clipping import squares, weight_and_parts
from discreet.least_squares.posterior import root
from discreet.links import BoundedLink, Link
from discreet.state import value

COUNT = 0.5  # weight of the weighted count of rows in the release
VALUE = 0.25  # weight of the plain count of rows in it, and of the sum of their rewards
KEPT = 0.75  # of a held-out row, beside a hold-out: what that leaves goes to its reward
EARNED = 0.5  # weight of what other rows have earned there, in units of the range of rewards
ROW = 4 + COUNT**2 + VALUE**2  # most that a row's v v', weight and count add, squared
# Weight of what a held-out row has earned: the largest that makes no row longer.
HELD = math.sqrt(ROW * (1 - KEPT**2) + EARNED**2)


def sensitivity(holdout: Holdout | None, people: People) -> float:
    """How far one person moves the sums of all windows, or of one where they share the budget.

    A row adds v v' with |v|^2 <= 2, COUNT times its weight, VALUE times 1 and times its reward.
    Replaced: |vv' - uu'|_F^2 <= 2 |v|^4 <= 8, weights differ by at most 1, counts not at all,
    rewards in [-1, 1] by at most 2. Gone, or new: at most |v|^4 + COUNT^2 + 2 VALUE^2 (weight,
    count and reward at most 1). A row that moves to another window is gone from one sum
    and new in another; their noise is independent, so squares add up. k rows: k times as far.

    People(visits="all"): one person with at most one row in each window, all of whose rows are
    replaced. In every window one row is replaced, gone or new, whatever happens in the others; each
    window pays for that, so that nothing is counted twice for a row that moves.
    """
    if holdout is not None:
        return people.contributions * math.sqrt(_beside_holdout(people))
    replaced = 8 + COUNT**2 + 4 * VALUE**2
    gone = ROW + VALUE**2
    moved = gone if people.shares else 2 * gone
    return people.contributions * math.sqrt(max(replaced, moved))


def _beside_holdout(people: People) -> float:
    """The squared sensitivity where there is a hold-out.

    Rows of the policy add v v', weight and count as always and EARNED y, held-out ones KEPT times
    those and HELD y. Rewards y are scaled to a range [-z, 1 - z] that holds 0. Beside y, with
    SPREAD times its weight, stands q = y (1 - 2 z - y), which is free (`intervals.py`): together
    they move as far as y from end to end, by 1 at most, whether the reward is replaced, gone or
    new, because |q| <= |y| (1 - |y|). They count in the window of their own decision alone; where
    the row arrives later, the rest of it counts.

    A round stays in its group, but whoever lets k rounds of a person in, such as a
    `ContributionLimiter`, may choose them by what the person did; and with visits a person may
    come in any round. So a row may leave one group and one window for others: both rows, each with
    its y. In one window two rows of one group have been bounded, and of different groups
    |KEPT vv' - uu'|_F^2 <= 4 (1 + KEPT^2), weights differ by at most COUNT, counts by
    VALUE (1 - KEPT), and both y are gone or new.
    """
    groups = ((1.0, EARNED**2), (KEPT**2, HELD**2))
    replaced = max(part * (8 + COUNT**2) + earned for part, earned in groups)
    crossed = 4 * (1 + KEPT**2) + COUNT**2 + (VALUE * (1 - KEPT)) ** 2 + EARNED**2 + HELD**2
    if people.shares:
        return max(replaced, crossed)
    # Two rows in two windows, and two y: of a fixed round there is one y, of a chosen one two.
    moved = max(2 * (part * ROW + earned) for part, earned in groups)
    return max(replaced, crossed, moved)


TOTALS = 3  # entries after v v': weight, count, rewards
APART = 3  # beside a hold-out so many more: its rewards, and the spreads of both


def totals(weight: Array, rewards: Array) -> Array:
    """(..., TOTALS) of rows beside their v v': weight, count and reward, as they are released."""
    return np.stack([COUNT * weight, np.full_like(weight, VALUE), VALUE * rewards], axis=-1)


LONGEST = 16.0  # |theta|, in units of the largest reward or of the link's argument: never more
LARGEST = 1e100  # of the numbers in a transform: their squares, summed, stay finite
NARROWEST = 1e-6  # R, as a fraction of E
BESIDE = 3  # entries after v of one row: weight, reward, 1


@value
@dataclass(frozen=True)
class Transform:
    """From a rewarded row to v. Public: computed from earlier releases."""

    mean: Array  # (d,)
    spread: Array  # (d, d), rho^2 = 1 + |phi spread|^2
    whitening: Array  # M, (d, d)
    clip: float  # R
    residual_bound: float  # E
    link: BoundedLink | None  # None for the identity
    middle: float = 0.0  # of the rewards, where they have an intercept
    half: float = 1.0  # of their range, in the same case
    constant: float = 0.0  # the last entry of every row, where there is an intercept
    balance: float = 1.0  # q = b^2 / a^2

    @property
    def sides(self) -> tuple[float, float]:
        """a and b, with a^2 + b^2 = 2 and b^2 = q a^2."""
        a = math.sqrt(2 / (1 + self.balance))
        return a, a * math.sqrt(self.balance)

    @property
    def units(self) -> tuple[float, float]:
        """R and E over sqrt(q): of residuals in the released sums, over a^2."""
        root = math.sqrt(self.balance)
        return self.clip / root, self.residual_bound / root

    @property
    def steepness(self) -> float:
        """Of rewards before anything is known: how far theta moves a residual."""
        if self.link is None:
            return 1.0
        return float(linear(self.link, 0.0, self.middle, self.half)[1])

    @cached_property
    def isotropic(self) -> Whitening:
        """`whitening`, as a map of rows and parameters."""
        return Whitening(self.whitening)

    @cached_property
    def _products(self) -> tuple[int, Array, Array | None]:  # (features, k + d + 2), as wide
        """k and [spread (k), whitening (d), mean, 0] for rows without the constant; what it adds.

        k is 0 where nothing is spread (public). The 0 is room: one array holds [x, <phi, mean>, 0],
        then v.
        """
        d = len(self.mean)
        spread = self.spread if self.spread.any() else self.spread[:, :0]
        columns = np.column_stack([spread, self.whitening, self.mean, np.zeros(d)])
        matrix = np.asfortranarray(columns)  # the faster order for one row
        k = spread.shape[1]
        if not self.constant:
            return k, matrix, None
        return k, math.sqrt(1 - self.constant**2) * matrix[:-1], self.constant * matrix[-1]

    def rows(self, rows: Array, rewards: Any) -> tuple[Array, Any]:
        """v (n, d + 2) and weights (n,) of rows (n, features) and rewards (n,)."""
        d = len(self.mean)
        k, factors, constants = self._products
        v = rows @ factors[:, k:]
        spread = rows @ factors[:, :k]
        if constants is not None:
            v += constants[k:]
            spread += constants[:k]
        expected = v[:, d]
        scale: Any = 1.0
        link = self.link
        if link is None:
            residual = (rewards - self.middle) / self.half - expected
        else:  # one Gauss-Newton step: slope times phi replaces phi
            mean, scale, largest = linear(link, expected, self.middle, self.half)
            residual = (rewards - mean) / largest
        if k:
            rho = np.sqrt(1 + scale * scale * squares(spread))
            scale = scale / rho
            residual = residual / rho
        square = scale * scale * squares(v[:, :d])
        weights, kept, rest = weight_and_parts(square, residual, self.clip, self.residual_bound)
        # |v|^2 <= a^2 + b^2 = 2, and v is finite, whatever the belief, the row and the reward are.
        a, b = self.sides
        root = np.sqrt(weights)
        v *= (a * scale * root)[:, None]
        v[:, d] = b * root * kept
        v[:, d + 1] = b * root * rest
        return v, weights

    def one_by_one(self, zero: float) -> tuple[Array, int, Callable[[Array, float], None]]:
        """An array, and a function that writes [v; weight; reward; 1] of a row to it, from a place.

        The reward is written from `zero` on. The same as `rows`; for one row numpy takes longer to
        begin than to compute, so all that does not depend on the row is looked up here, once.
        """
        d = len(self.mean)
        k, factors, constants = self._products
        entries = np.ones(k + d + 2 + BESIDE)
        products = entries[: k + d + 2]
        spread = entries[:k]
        x = entries[k : k + d]
        after = k + d
        scales = np.empty(d)
        link = self.link
        middle = self.middle
        half = self.half
        clip = self.clip
        limit = self.residual_bound
        limit2 = limit * limit
        curve = 1 / (clip * clip) + 1 / limit2
        a, b = self.sides

        def write(row: Array, reward: float) -> None:
            row.dot(factors, products)
            if constants is not None:
                np.add(products, constants, products)
            expected: Any = products.item(after)
            scale = 1.0
            if link is None:
                residual = (reward - middle) / half - expected
            else:
                mean, scale, largest = map(float, linear(link, expected, middle, half))
                residual = (reward - mean) / largest
            if k:
                rho = sqrt(1 + scale * scale * float(spread.dot(spread)))
                residual /= rho
                scale /= rho
            # `weight_and_parts`, in floats: no branch on private values.
            square = scale * scale * float(x.dot(x))
            weight = 1 / ((square <= 1) + (square > 1) * square)
            size = abs(residual)
            size = (size <= limit) * size + (size > limit) * limit
            near = size / limit2
            far = (near + sqrt(abs(near * near + curve * (1 - near * size)))) / curve
            kept = (size <= clip) * size + (size > clip) * far
            root = sqrt(weight)
            signed = b * copysign(root, residual)
            scales.fill(a * scale * root)
            np.multiply(x, scales, x)
            entries[after] = signed * kept / clip
            entries[after + 1] = signed * (size - kept) / limit
            entries[after + 2] = weight
            entries[after + 3] = reward - zero

        return entries, k, write


def linear(link: BoundedLink, argument: Any, middle: float, half: float) -> tuple[Any, Any, Any]:
    """The link's mean, and its slope and the largest residual there, by which a row is divided.

    So a residual is at most 1, and a row counts as much as its reward can tell.
    """
    mean = link.mean(argument)
    largest = half + abs(mean - middle)
    return mean, link.slope(argument) / largest, largest


def transform(
    belief: Belief,
    size: int,
    noise_std: float,
    limits: tuple[float, float],
    link: BoundedLink | None,
    blocks: Blocks | None = None,
    typical: float | None = None,
) -> Transform:
    """The transform of a window of so many decisions, whose release has this noise."""
    d = len(belief.mean)
    balance = TUNING.balance if belief.effective_rows > 0 and noise_std > 0 else 1.0
    low, high = limits
    middle = 0.0
    half = 1.0
    if belief.constant or link is not None:  # rewards become (y - middle) / half
        middle = expected(limits, typical)
        half = (high - low) / 2
        low, high = (low - middle) / half, (high - middle) / half
    steepness = 1.0 if link is None else float(linear(link, 0.0, middle, half)[1])
    centre = _within(belief.mean, LONGEST)
    largest = max(abs(low), abs(high))
    bound = largest + _longest(centre, belief.constant) if link is None else 1.0
    nu = max(belief.reward_variance, 1e-30)
    if not belief.may_clip:
        if link is None:  # the Gram matrix's noise acts on all of theta then, but E is least
            centre, bound = np.zeros(d), largest
        clip = bound
    else:
        clip = min(least_error_clip(noise_std / math.sqrt(2), size / d) * math.sqrt(nu), bound)
    # rho = 1 in the first window: nothing is known about theta, and residuals show as they are
    first = belief.effective_rows == 0
    plain = clip >= bound or first
    careful = _finite(belief.covariance)
    return Transform(
        centre,
        (0.0 if plain else 1.0) * _finite(root(careful) / math.sqrt(nu)),
        _finite(_whitening(belief, careful, nu, plain, blocks) / (steepness if first else 1.0)),
        max(clip, NARROWEST * bound),
        bound,
        link,
        middle,
        half,
        belief.constant,
        balance,
    )


def _longest(centre: Array, constant: float) -> float:
    """The most that |<row, centre>| can be: the last entry of a row is the constant, if any."""
    if not constant:
        return float(np.linalg.norm(centre))
    features = math.sqrt(1 - constant**2) * float(np.linalg.norm(centre[:-1]))
    return features + constant * abs(float(centre[-1]))


def expected(limits: tuple[float, float], typical: float | None) -> float:
    """A reward, before anything is known: of this size, or in the middle of the range."""
    low, high = limits
    if typical is None:
        return (low + high) / 2
    return min(max(typical if high > 0 else -typical, low), high)


def bounded(link: Link, scale: float) -> BoundedLink | None:
    """The link on arguments where no overflow and no impossible mean is; None for the identity.

    Means of rewards in units of `scale` lie in [0, 1]: beyond nu^-1(scale) no argument is right.
    """
    if link.name == "identity":
        return None
    top = link.inverse(scale)
    return link.within(link.predictor_bound + (abs(top) if math.isfinite(top) else 0.0), scale)


def _whitening(
    belief: Belief, careful: Array, nu: float, plain: bool, blocks: Blocks | None
) -> Array:
    """Recent rows become isotropic and of length about 1, no finer than the noise."""
    d = len(belief.mean)
    if belief.effective_rows == 0:  # rows may have length 1, and nothing is known
        return np.eye(d)
    gram = _finite(belief.gram / belief.effective_rows)
    if blocks is not None:  # features that are never together stay so
        gram = gram * blocks.within
    noise = min(belief.gram_noise_std / belief.effective_rows, LARGEST) + 1e-12
    even = TUNING.even if plain else TUNING.isotropy
    whitening = Whitening.from_gram(gram, ridge=noise, even=even)
    rho2 = 1.0 if plain else 1 + max(float(np.sum(careful * gram)) / nu, 0.0)
    shorter = max(whitening.mean_square(gram), 1e-9)
    return whitening.scaled(math.sqrt(min(rho2 / shorter, LARGEST))).matrix


def _within(vector: Array, length: float) -> Array:
    """`vector`, shortened to this length if it is longer; for any finite vector."""
    largest = float(np.abs(vector).max(initial=0.0))
    if largest <= length / math.sqrt(max(len(vector), 1)):
        return vector
    unit = vector / largest
    norm = float(np.linalg.norm(unit))
    return np.asarray(unit * min(largest, length / norm))


def _finite(matrix: Array) -> Array:
    """Entries of at most LARGEST, and no NaN: no row can overflow (public, before any row)."""
    if np.abs(matrix).max(initial=0.0) <= LARGEST:  # not with NaN
        return matrix
    return np.clip(np.where(np.isnan(matrix), 0.0, matrix), -LARGEST, LARGEST)
