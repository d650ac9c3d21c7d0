"""Attacks on StreamingFrankWolfe beside those on its running sums (`lives.py`).

Steps come after the release: the attacker sees the noisy sums themselves. A budget in zCDP, turned
into (epsilon, delta), is loose for a single release; where a learner has one, a release is held to
its own price: the learner gets the budget at which it costs the claim. `attainable` is 1 where one
release shows all of a move of the full sensitivity.
"""

import math
from typing import Any

import numpy as np

from discreet.arrays import Array
from discreet.audit.rows import Claim, attack
from discreet.audit.staged import staged
from discreet.audit.views import Likelihood, each, rounded, summed, whitening
from discreet.domains import Cube, Domain, LpBall, Simplex
from discreet.optimization import StreamingFrankWolfe
from discreet.optimization.windows import COUNT
from discreet.privacy import Guarantee, PrefixSum, SeededNoise
from discreet.privacy.gaussian import zcdp_epsilon
from discreet.privacy.noise import Noise
from discreet.privacy.release import observed, values
from discreet.privacy.toeplitz import Buffered

CLIP = 0.1
SMALL = 0.01
DELTA = 1e-6
ROUNDS = 24
HORIZON = 100  # in so long a stream first steps stay inside the border
RARE = 12.0  # exp(score/scale) of all other vertices together, that of the canary's being 1


def streamed(claim: Claim, horizon: int, noise: Noise, **options: Any) -> Any:
    """A learner with what the claim says, of one feature unless a domain is given."""
    own = {"domain": Cube(1), "epsilon": claim.epsilon, "delta": claim.delta, **options}
    return StreamingFrankWolfe(horizon=horizon, noise=noise, **{"gradient_bound": CLIP, **own})


def drawn_by(mechanism: str, promise: Guarantee) -> bool:
    """Whether the first release is by this mechanism."""
    return any(release.mechanism == mechanism for release in promise.releases[:1])


# The second round, in the sums of the first 24, against the most that any round costs.
SECOND = np.eye(ROUNDS)[1]
_SHOWN = math.sqrt(np.cumsum(SECOND) @ whitening("blt", SECOND, HORIZON))


@attack(
    "streaming frank-wolfe blt, many rounds", StreamingFrankWolfe, room="optimization",
    kind="gaussian", attainable=_SHOWN / Buffered.fitted(HORIZON).sensitivity(1),
    fits=lambda learner, promise: any("sums (blt)" in each.what for each in promise.releases),
)  # fmt: skip
def many_rounds(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """The second row's label lies between two predictions of the path, or beyond both.

    Then g = 3 grad - 2 grad' is at one end of its range or the other, and so would be a sum of
    gradients that were cut one by one: five times as long.
    """
    out = []
    for _ in range(runs):
        learner = streamed(claim, HORIZON, noise, gradient_bound=SMALL, mechanism="blt")
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
    return summed(np.array(out).T, whitening("blt", SECOND, HORIZON), 1)


def _generalised(name: str, dim: int, kind: str, attainable: float) -> None:
    def fits(learner: Any, promise: Guarantee) -> bool:
        n = learner.dim if isinstance(learner, PrefixSum) else learner.domain.dim
        return drawn_by("generalized gaussian", promise) and (n <= 7) == (dim <= 7)

    @attack(
        f"streaming frank-wolfe generalised gaussian{name}", StreamingFrankWolfe, PrefixSum,
        room="optimization", kind=kind, fits=fits, attainable=attainable,
    )  # fmt: skip
    @each
    def generalised(claim: Claim, neighbour: int, noise: SeededNoise) -> Array:
        """Both nodes of the first of two rows, by the exact likelihood of their l_r noise."""
        epsilon = claim.epsilon
        if kind == "gaussian":  # what rho costs if the noise is Gaussian
            epsilon = zcdp_epsilon(claim.mu**2 / 2, claim.delta)
        # |x|_3 = 1 with entries alike: of all rows of that length in l_3 the longest in l_r, r < 3.
        row = np.full(dim, dim ** (-1 / 3))
        r = max(2.0, math.log(dim))
        own = {"domain": LpBall(1.5, dim), "mechanism": "generalized-gaussian"}
        learner = streamed(claim, 2, noise, epsilon=epsilon, **own)
        with observed("sum") as seen:
            for x in (row, 0 * row):
                learner.learn(x, 1.0 - 2.0 * neighbour)
        nodes = np.array(values(seen))  # one is the first row, the other both
        away, near = (
            np.sum(np.abs(nodes + sign * CLIP * row) ** r, axis=1) ** (2 / r) for sign in (1, -1)
        )
        return rounded(np.sum(away - near) / (2 * learner.guarantee.releases[0].scale ** 2))


_generalised("", 4, "gaussian", 1.0)  # l_2 noise up to seven dimensions
# l_2.3 noise: for this pair the divergence is .85 of the rho that its norm bounds, by simulation
# (variance of the log-likelihood ratio over 2 rho), which at this delta is so much of epsilon.
_generalised(", ten dimensions", 10, "zcdp", 0.92)


# -- choices of a vertex ---------------------------------------------------------------------------


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
    @each
    def vertices(claim: Claim, neighbour: int, noise: SeededNoise) -> bool:
        """Was the vertex -e_1 chosen? The canary's moment pulls towards it, and others away."""
        own: dict[str, Any] = {"domain": LpBall(1, 2), "mechanism": "vertices"}
        if choices > 1:  # each of them costs rho = epsilon^2/8, and epsilon by itself
            # Above epsilon = 8 it would make five; less is promised then than is claimed.
            rho = choices * min(claim.epsilon, 8.0) ** 2 / 8
            own |= {"epsilon": zcdp_epsilon(rho, DELTA), "delta": DELTA}
        learner = streamed(claim, rounds, noise, **own)
        # The guarantee states the scale: others are as many as make the vertex rare under it.
        others = rare_vertex(learner.guarantee.releases[0].scale)
        staged(learner, {"_direction._total": others})
        learner.learn([1.0, -1.0], 1.0 - 2.0 * neighbour)
        return bool(learner.theta[0] < 0)


_vertices("streaming frank-wolfe p=1", 1, 1)
_vertices("streaming frank-wolfe p=1, one choice of four", 5, 4)


# log P(e_1 | 1)/P(e_1 | 0) at epsilon = 1: the log-odds of e_1 move by epsilon, around RARE to 1.
_ODDS = math.log((1 + RARE * math.exp(0.5)) / (1 + RARE * math.exp(-0.5)))


@attack("streaming frank-wolfe simplex", room="optimization", kind="pure", attainable=_ODDS)
@each
def simplex(claim: Claim, neighbour: int, noise: SeededNoise) -> bool:
    """Was the vertex e_1 of a simplex chosen? The canary's moment pulls towards it, others away."""
    learner = streamed(claim, 1, noise, domain=Simplex(2))
    scale = learner.guarantee.releases[0].scale
    staged(learner, {"_direction._total": np.array([0.0, -scale * math.log(RARE)])})
    learner.learn([1.0, -1.0], 2.0 * neighbour - 1.0)
    return bool(learner.theta[0] > 0.5)


def _one_choice(name: str, mechanism: str, domain: Domain, row: tuple[float, ...]) -> None:
    def fits(learner: Any, promise: Guarantee) -> bool:
        choices = promise.releases[0].what.partition(" ")[0] if promise.releases else ""
        return (
            drawn_by("exponential", promise)
            and isinstance(learner.domain, type(domain))
            and (choices == str(learner.horizon)) == (mechanism == "every-round")
        )

    # One choice of two vertices, whose log-odds are -epsilon_1/2 or epsilon_1/2: the divergence of
    # two such coins is epsilon_1^2/8 = rho but for terms in its square.
    @attack(name, StreamingFrankWolfe, room="optimization", kind="zcdp", fits=fits, attainable=0.99)
    @each
    def one_choice(claim: Claim, neighbour: int, noise: SeededNoise) -> float:
        """Which of two vertices is chosen, as likely as not: the only row pulls to either."""
        learner = streamed(claim, 1, noise, domain=domain, mechanism=mechanism)
        learner.learn(row, 1.0 - 2.0 * neighbour)
        return float(learner.theta[0])


_one_choice("streaming frank-wolfe vertices", "vertices", LpBall(1, 1), (1.0,))
_one_choice("streaming frank-wolfe every round", "every-round", LpBall(1, 1), (1.0,))
_one_choice("streaming frank-wolfe vertices, simplex", "vertices", Simplex(2), (1.0, -1.0))


# In one dimension the curvature of a row moves by the largest, in more by sqrt(2) times that.
_ONE_WAY = math.sqrt((4 + 1 + COUNT**2) / (4 + 2 + COUNT**2))


def _windows(name: str, rows: int, p: float = math.inf) -> None:
    sparse = p == 1

    def fits(learner: Any, promise: Guarantee) -> bool:
        return learner.windowed and (learner.domain.axis_vertices is not None) == sparse

    @attack(
        name, StreamingFrankWolfe, room="optimization", kind="zcdp" if sparse else "gaussian",
        fits=fits, attainable=_ONE_WAY, contributions=rows,
    )  # fmt: skip
    @Likelihood
    def windows(claim: Claim, neighbour: int, noise: Noise) -> None:
        """All that windows release, by exact likelihood; the last rows are one person's.

        Their gradients are at one end of the bound and were shortened, or at the other and were
        not: only then they have curvature and are counted.
        """
        k = claim.contributions
        horizon = 12 * k  # the last window holds more than k rows
        about = {"domain": LpBall(p, 1), "label_bound": 2.0, "contributions": k}
        learner = streamed(claim, horizon, noise, **about)
        for _ in range(horizon - k):
            learner.learn([0.0], 0.0)
        label = float(learner.theta[0]) + 0.999 * CLIP if neighbour else -2.0
        for _ in range(k):
            learner.learn([1.0], label)
        assert learner.theta.shape == (1,)  # the last release


_windows("streaming frank-wolfe windows", 1)
_windows("streaming frank-wolfe windows, three rows of one user", 3)
_windows("streaming frank-wolfe windows, p=1", 1, p=1.0)
