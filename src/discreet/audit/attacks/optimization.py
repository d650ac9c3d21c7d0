"""Attacks on StreamingFrankWolfe and its baselines NoisySFW, NoisySGD and LocalMD.

Every theta is seen; one row changes its moment from end to end.

Steps come after the release: the attacker sees the noisy sums themselves.
A budget in zCDP, turned into (epsilon, delta), is loose for a single release. Where a learner has
one, a release is held to its own price: the learner gets the budget at which it costs the claim.
`attainable` is 1 where one release shows all of a move of the full sensitivity.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.audit.attacks.sums import views, whitening
from discreet.audit.staged import staged
from discreet.audit.transcript import likelihood_ratio
from discreet.domains import Cube, LpBall, Simplex
from discreet.optimization import StreamingFrankWolfe
from discreet.optimization.baselines import LocalMD, NoisySFW, NoisySGD
from discreet.optimization.windows import COUNT
from discreet.privacy import Noise, SeededNoise, Tree
from discreet.privacy.gaussian import zcdp_epsilon
from discreet.privacy.observation import observed, values
from discreet.privacy.toeplitz import Buffered

CLIP = 0.1
SMALL = 0.01
DELTA = 1e-6
ROUNDS = 24
HORIZON = 100  # in so long a stream first steps stay inside the border
RARE = 12.0  # exp(score/scale) of all other vertices together, that of the canary's being 1


def _one_round(name: str, mechanism: str | Tree, kind: str) -> None:
    @attack(f"streaming frank-wolfe {name}", room="optimization", kind=kind)
    def one_round(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """The only row's label is 1 or -1, so that its moment is -clip or clip."""
        scores = []
        for _ in range(runs):
            learner = StreamingFrankWolfe(
                Cube(1),
                1,
                claim.epsilon,
                claim.delta,
                gradient_bound=CLIP,
                mechanism=mechanism,
                noise=noise,
            )
            learner.learn([1.0], 2.0 * neighbour - 1.0)
            scores.append(learner.theta[0])
        return np.array(scores)


_one_round("blt", "blt", "gaussian")
_one_round("tree", Tree(2), "approximate")


# The second round, in the sums of the first 24, against the most that any round costs.
SECOND = np.eye(ROUNDS)[1]
_SHOWN = math.sqrt(np.cumsum(SECOND) @ whitening("blt", SECOND, HORIZON))


@attack(
    "streaming frank-wolfe blt, many rounds",
    room="optimization",
    kind="gaussian",
    attainable=_SHOWN / Buffered.fitted(HORIZON).sensitivity(1),
)
def many_rounds(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The second row's label lies between two predictions of the path, or beyond both.

    Then g = 3 grad - 2 grad' is at one end of its range or the other, and so would be a sum of
    gradients that were cut one by one: five times as long.
    """
    out = []
    for _ in range(runs):
        learner: Any = StreamingFrankWolfe(
            Cube(1),
            HORIZON,
            claim.epsilon,
            claim.delta,
            gradient_bound=SMALL,
            mechanism="blt",
            noise=noise,
        )
        with observed("sum") as seen:
            for t in range(ROUNDS):
                x, y = 0.0, 0.0
                if t == 1:
                    # theta is 4/5 of the first step: predictions were 0 and are step/2.
                    step = learner.theta[0] * 5 / 4
                    ends = (1.0, step / 4) if step > 0 else (step / 4, -1.0)
                    x, y = 1.0, ends[neighbour]
                learner.learn([x], y)
        out.append([total[0] for total in values(seen)])
    return views(np.array(out).T, whitening("blt", SECOND, HORIZON), 1)


PERSON = np.array([1.0, 1.0, 0.0, 0.0])  # the rounds of one person


@attack("streaming frank-wolfe blt, two rows of one user", room="optimization", kind="gaussian")
def two_rows(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """contributions=2: both moments are -clip or clip, and four noisy sums are seen.

    The second label lies so far out that its moment is at the same end, whatever the first step.
    """
    out = []
    for _ in range(runs):
        learner = StreamingFrankWolfe(
            Cube(1),
            len(PERSON),
            claim.epsilon,
            claim.delta,
            gradient_bound=SMALL,
            contributions=2,
            label_bound=4.0,
            mechanism="blt",
            noise=noise,
        )
        with observed("sum") as seen:
            for row in PERSON:
                learner.learn([row], 4.0 * (1.0 - 2.0 * neighbour))
        out.append([total[0] for total in values(seen)])
    return views(np.array(out).T, whitening("blt", PERSON), 0)


def _generalised(name: str, dim: int, kind: str, attainable: float) -> None:
    @attack(
        f"streaming frank-wolfe generalised gaussian{name}",
        room="optimization",
        kind=kind,
        attainable=attainable,
    )
    def generalised(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Both nodes of the first of two rows, by the exact likelihood of their l_r noise."""
        rounds = 2
        epsilon = claim.epsilon
        if kind == "gaussian":  # what rho costs if the noise is Gaussian
            epsilon = zcdp_epsilon(claim.mu**2 / 2, claim.delta)
        # |x|_3 = 1 with entries alike: of all rows of that length in l_3 the longest in l_r, r < 3.
        row = np.full(dim, dim ** (-1 / 3))
        scores = []
        r = max(2.0, math.log(dim))
        for _ in range(runs):
            learner = StreamingFrankWolfe(
                LpBall(1.5, dim),
                rounds,
                epsilon,
                claim.delta,
                gradient_bound=CLIP,
                mechanism="generalized-gaussian",
                noise=noise,
            )
            with observed("sum") as seen:
                for x in (row, 0 * row):
                    learner.learn(x, 1.0 - 2.0 * neighbour)
            nodes = np.array(values(seen))  # one is the first row, the other both
            release = seen[0].release
            assert release is not None
            away, close = (
                np.sum(np.abs(nodes + sign * CLIP * row) ** r, axis=1) ** (2 / r)
                for sign in (1, -1)
            )
            scores.append(float(np.sum(away - close)) / (2 * release.scale**2))
        return np.round(scores, 9)


_generalised("", 4, "gaussian", 1.0)  # l_2 noise up to seven dimensions
# l_2.3 noise: for this pair the divergence is .85 of the rho that its norm bounds, by simulation
# (variance of the log-likelihood ratio over 2 rho), which at this delta is so much of epsilon.
_generalised(", ten dimensions", 10, "zcdp", 0.92)


def rare_vertex(scale: float) -> Array:
    """Sums of others after which the vertex -e_1 is rare, and rivals are +e_1 and -e_2."""
    return np.array([0.0, scale * math.log(RARE - 1)])


def rare_share() -> float:
    """log P(-e_1 | 1)/P(-e_1 | 0) at epsilon = 1: entries move by epsilon/2 scales."""
    chances = []
    for move in (-0.25, 0.25):
        other = math.log(RARE - 1) - move
        weights = np.exp([move, -move, other, -other])
        chances.append(float(weights[0] / weights.sum()))
    return math.log(chances[1] / chances[0])


def _vertices(name: str, rounds: int, choices: int) -> None:
    @attack(name, room="optimization", kind="pure", attainable=rare_share())
    def vertices(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """Was the vertex -e_1 chosen? The canary's moment pulls towards it, and others away."""
        budget = (claim.epsilon, 0.0)
        if choices > 1:  # each of them costs rho = epsilon^2/8, and epsilon by itself
            # Above epsilon = 8 it would make five; less is promised then than is claimed.
            rho = choices * min(claim.epsilon, 8.0) ** 2 / 8
            budget = (zcdp_epsilon(rho, DELTA), DELTA)
        seen = []
        for _ in range(runs):
            learner = StreamingFrankWolfe(
                LpBall(1, 2),
                rounds,
                *budget,
                gradient_bound=CLIP,
                mechanism="vertices",
                noise=noise,
            )
            # The guarantee states the scale: others are as many as make the vertex rare under it.
            others = rare_vertex(learner.guarantee.releases[0].scale)
            staged(learner, {"_direction._total": others})
            learner.learn([1.0, -1.0], 1.0 - 2.0 * neighbour)
            seen.append(learner.theta[0] < 0)
        return np.array(seen, dtype=np.float64)


# log P(e_1 | 1)/P(e_1 | 0) at epsilon = 1: the log-odds of e_1 move by epsilon, around RARE to 1.
@attack(
    "streaming frank-wolfe simplex",
    room="optimization",
    kind="pure",
    attainable=math.log((1 + RARE * math.exp(0.5)) / (1 + RARE * math.exp(-0.5))),
)
def simplex(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Was the vertex e_1 of a simplex chosen? The canary's moment pulls towards it, others away."""
    seen = []
    for _ in range(runs):
        learner = StreamingFrankWolfe(
            Simplex(2), 1, claim.epsilon, 0.0, gradient_bound=CLIP, noise=noise
        )
        scale = learner.guarantee.releases[0].scale
        staged(learner, {"_direction._total": np.array([0.0, -scale * math.log(RARE)])})
        learner.learn([1.0, -1.0], 2.0 * neighbour - 1.0)
        seen.append(learner.theta[0] > 0.5)
    return np.array(seen, dtype=np.float64)


_vertices("streaming frank-wolfe p=1", 1, 1)
_vertices("streaming frank-wolfe p=1, one choice of four", 5, 4)


# In one dimension the curvature of a row moves by the largest, in more by sqrt(2) times that.
_ONE_WAY = math.sqrt((4 + 1 + COUNT**2) / (4 + 2 + COUNT**2))


def _windows(name: str, rows: int) -> None:
    @attack(
        name,
        room="optimization",
        kind="gaussian",
        attainable=_ONE_WAY,
        effort=0.3,
        contributions=rows,
    )
    def windows(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """All that windows release, by exact likelihood; the last rows are one person's.

        Their gradients are at one end of the bound and were shortened, or at the other and were
        not: only then they have curvature and are counted.
        """
        k = claim.contributions
        horizon = 12 * k  # the last window holds more than k rows

        def run(which: int, source: Noise) -> None:
            learner = StreamingFrankWolfe(
                Cube(1),
                horizon,
                claim.epsilon,
                claim.delta,
                label_bound=2.0,
                gradient_bound=CLIP,
                contributions=k,
                noise=source,
            )
            for _ in range(horizon - k):
                learner.learn([0.0], 0.0)
            label = float(learner.theta[0]) + 0.999 * CLIP if which else -2.0
            for _ in range(k):
                learner.learn([1.0], label)
            assert learner.theta.shape == (1,)  # the last release

        return np.array([likelihood_ratio(run, neighbour, noise) for _ in range(runs)])


_windows("streaming frank-wolfe windows", 1)
_windows("streaming frank-wolfe windows, three rows of one user", 3)


@attack("noisy sfw", room="optimization", kind="gaussian")
def noisy_sfw(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The first batch's mean gradient, by exact likelihood; the label is 1 or -1."""

    def run(which: int, source: Noise) -> None:
        X, y = np.zeros((4, 2)), np.zeros(4)
        X[0], y[0] = [1.0, 0.0], 2.0 * which - 1.0
        NoisySFW(LpBall(2, 2), claim.epsilon, claim.delta, gradient_bound=CLIP, noise=source).fit(
            X, y
        )

    # Later batches hold other rows.
    return np.array([likelihood_ratio(run, neighbour, noise, limit=1) for _ in range(runs)])


@attack("noisy sgd", room="optimization", kind="gaussian")
def noisy_sgd(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """All noisy gradients of five passes, by exact likelihood; the label is 1 or -1."""

    def run(which: int, source: Noise) -> None:
        X, y = np.zeros((4, 2)), np.zeros(4)
        X[0], y[0] = [1.0, 0.0], 2.0 * which - 1.0
        learner = NoisySGD(
            LpBall(2, 2),
            claim.epsilon,
            claim.delta,
            gradient_bound=CLIP,
            passes=5,
            step=1e-3,
            noise=source,
        )
        learner.fit(X, y)

    return np.array([likelihood_ratio(run, neighbour, noise) for _ in range(runs)])


@attack("local mirror descent", room="optimization", kind="pure")
def local_md(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """One report of a clipped gradient, from the wire; the label is 1 or -1."""
    learner = LocalMD(
        LpBall(2, 2), runs, claim.epsilon, gradient_bound=CLIP, step=1e-3, noise=noise
    )
    with observed("report") as heard:
        for _ in range(runs):
            learner.learn([1.0, 0.0], 1.0 - 2.0 * neighbour)
    return np.array([sent[0] for sent in values(heard)])
