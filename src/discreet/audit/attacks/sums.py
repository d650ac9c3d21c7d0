"""Attacks on running sums: the attacker sees every sum and knows every round but the canary's.

The canary is +1/2 or -1/2, the full sensitivity. Coordinates carry independent noise of one scale,
so each coordinate of one wide stream is a run of its own.

Several views of the same run: the best linear score against the noise that is promised (sums
whitened by it), and plain ones that notice noise which is not what was promised. The choosing part
of the audit decides between them.
"""

import numpy as np

from discreet.arrays import Array
from discreet.audit.attack import Claim, attack
from discreet.privacy import Budget, PrefixSum, SeededNoise, Tree
from discreet.privacy.toeplitz import Buffered, SquareRoot, noise_matrix
from discreet.privacy.tree import TreeSum

T = 24


def whitening(mechanism: str | Tree, move: Array, horizon: int | None = None) -> Array:
    """The weights of the best linear score for a change `move` of the inputs, by round.

    `move` is as long as the horizon, or as the rounds that are seen of it. A direction without any
    noise, which only a bug can leave, gets a huge weight.
    """
    rounds = len(move)
    horizon = horizon or rounds
    if isinstance(mechanism, Tree):
        design = mechanism.fitted(horizon, pure=False)
        columns = 6 * rounds  # more than there are nodes
        fresh = iter(np.eye(columns))

        def node(level: int, count: int) -> Array:
            return np.array([next(fresh) for _ in range(count)])

        tree = TreeSum(design, horizon, columns, node)
        mixing = np.array([tree.add(np.zeros(columns)) for _ in range(rounds)])
    else:
        filtered = Buffered.fitted(horizon) if mechanism == "blt" else SquareRoot(horizon)
        mixing = noise_matrix(filtered, rounds)
    return best_weights(mixing, np.cumsum(move))


def best_weights(mixing: Array, move: Array) -> Array:  # (outputs, noises), (outputs,)
    """The best linear score of outputs = data + mixing z, for a change `move` of the data."""
    covariance = mixing @ mixing.T + 1e-9 * np.eye(len(mixing))
    return np.asarray(np.linalg.solve(covariance, move))


def views(sums: Array, weights: Array, first: int) -> Array:  # (rounds, runs) -> (runs, 4)
    """The whitened score; the canary's first sum, all sums since, and their last step."""
    since = sums[first:]
    before = sums[first - 1] if first else 0.0
    return np.stack([weights @ sums, since[0] - before, since.mean(axis=0), since[-1]], axis=1)


def _running(
    mechanism: str | Tree, name: str, canary: tuple[int, ...], when: str, attainable: float
) -> None:
    @attack(
        f"prefix sum {name}, {when}",
        room="sums",
        kind="gaussian",
        attainable=attainable,
        contributions=len(canary),
    )
    def running(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
        """The whole sequence of 24 sums, or more, against one person's rounds: +1/2 or -1/2."""
        own = claim.contributions
        move = np.zeros(max(T, own))
        move[canary[0] : canary[0] + own] = 1.0
        sums = PrefixSum(
            len(move),
            runs,
            Budget(claim.epsilon, claim.delta, own),
            sensitivity=1.0,
            bound=runs,
            mechanism=mechanism,
            noise=noise,
        )
        sign = neighbour - 0.5
        out = np.array([sums.add(np.full(runs, sign * x)) for x in move])
        return views(out, whitening(mechanism, move), canary[0])


# How much of mu the best attack reaches, sqrt(move . weights) / reach: a round late in the stream
# is in fewer sums and nodes.
_ATTAINABLE = {"blt": (1.0, 0.95, 0.67, 1.0), "toeplitz": (1.0, 0.95, 0.69, 1.0),
         "tree": (1.0, 0.63, 0.45, 0.97)}  # fmt: skip
_WHEN = {"first round": (0,), "middle round": (11,), "last round": (23,),
         "three rounds of one user": (0, 1, 2)}  # fmt: skip
for _name, _shares in _ATTAINABLE.items():
    for (_when, _rounds), _attainable in zip(_WHEN.items(), _shares, strict=True):
        _running(Tree(2) if _name == "tree" else _name, _name, _rounds, _when, _attainable)
_running(Tree(5), "wide tree", _WHEN["first round"], "first round", 0.94)


@attack("prefix sum pure tree", room="sums", kind="pure")
def pure_tree(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Two sums of a binary tree with Laplace noise: the log-likelihood ratio of its two nodes."""
    sums = PrefixSum(
        2,
        runs,
        Budget(claim.epsilon),
        sensitivity=1.0,
        norm="l1",
        bound=runs,
        mechanism=Tree(2),
        noise=noise,
    )
    sign = neighbour - 0.5
    leaf = sums.add(np.full(runs, sign))
    root = sums.add(np.zeros(runs))
    ratio = sum(np.abs(node + 0.5) - np.abs(node - 0.5) for node in (leaf, root))
    # Rounded: float noise betrays its input by its last bits, and that is another attack.
    return np.round(np.stack([ratio, leaf, root, leaf + root], axis=1), 9)


@attack("prefix sum pure cube", room="sums", kind="pure")
def pure_cube(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """One sum of losses in [0, 1]^3 with K-norm noise: the log-likelihood ratio, zeros or ones."""
    seen = []
    for _ in range(runs):
        sums = PrefixSum(
            1, 3, Budget(claim.epsilon), sensitivity=1.0, norm="linf", bound=1.0, noise=noise
        )
        seen.append(sums.add(np.full(3, float(neighbour))))
    out = np.array(seen)
    return np.asarray(np.round(np.abs(out).max(axis=1) - np.abs(out - 1).max(axis=1), 9))


# In nine sums of this tree every node of the first round shows: sqrt(move . weights) is the reach.
@attack("prefix sum adaptive", room="sums", kind="gaussian")
def adaptive(claim: Claim, runs: int, neighbour: int, noise: SeededNoise) -> Array:
    """Later inputs copy the sign of the last sum of a tree that runs ahead of the data."""
    rounds = 9
    tree = Tree(3)
    budget = Budget(claim.epsilon, claim.delta)
    sums = PrefixSum(rounds, runs, budget, sensitivity=1.0, bound=runs, mechanism=tree, noise=noise)
    known = np.zeros(runs)
    out = []
    x = np.full(runs, neighbour - 0.5)
    for t in range(rounds):
        estimate = sums.add(x)
        known = known + (x if t else 0.0)  # the attacker knows the rule, hence all but the canary
        out.append(estimate - known)
        x = 0.5 * np.sign(estimate)
    move = np.eye(rounds)[0]
    return views(np.array(out), whitening(tree, move), 0)
