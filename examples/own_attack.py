"""A template for an attack of your own: how much does the release of own_learner.py give away?

    python examples/own_attack.py [runs]

Two neighbouring inputs, one score: an attack runs the learner many times on each of two streams
that differ in one person, at their worst, and gives back one number for each run, large where it
believes in the second. It names the class that it attacks, so that `discreet dossier --audit` finds
it; `claim` says what is promised and must be passed on.
"""

import sys

import numpy as np
from own_learner import ExploreThenCommit

from discreet.audit import ATTACKS, attack, audit
from discreet.privacy.release import observed

HORIZON = 100


@attack("explore then commit", ExploreThenCommit, room="bandits", kind="gaussian")
def explore_then_commit(claim, runs, neighbour, noise):
    """Reward -1 or 1 in the first round, 0 in all others: the released sum of its action."""
    scores = []
    for _ in range(runs):
        learner = ExploreThenCommit(2, HORIZON, claim.epsilon, claim.delta, noise=noise)
        with observed("release") as seen:
            for t in range(learner.exploring + 1):
                decision = learner.decide(np.zeros((2, 1)))
                learner.learn(decision, 0.0 if t else 2.0 * neighbour - 1.0)
        scores.append(seen[0].value[0])
    return np.array(scores)


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    report = audit(ATTACKS["explore then commit"], runs)
    print(f"{'':26}{'epsilon':>10}")
    print(f"{'promised':26}{report.claim:10.2f}")
    print(f"{'proved by the attack':26}{report.lower_bound:10.2f} {report.verdict}")
