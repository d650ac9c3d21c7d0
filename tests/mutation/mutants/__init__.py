"""The planted bugs of all rooms, in one table.

privacy      mechanisms, the ledger, local channels
sums         PrefixSum: trees and filtered noise
live         one copy of an object, one call at a time
regression   central and local
bandits      LinearBandit, joint and local; ContinualLinUCB
shuffled     batches, devices that count on them
online       FTRL, AdversarialBandit, BarrierBandit, Doubling
convex       ProjectionFreeBandit, StreamingFrankWolfe
sparse       SparseBandit
evaluation   ABTest, evaluate
contract     every learner, estimator and baseline: the exact value is used although noise is booked
"""

from mutants import (
    bandits,
    contract,
    convex,
    evaluation,
    live,
    local_bandits,
    online,
    privacy,
    regression,
    shuffled,
    sparse,
    sums,
)
from mutants.kit import SURE, Edit, Mutant, by_registry, words

MUTANTS: list[Mutant] = [
    *privacy.MUTANTS,
    *sums.MUTANTS,
    *live.MUTANTS,
    *regression.MUTANTS,
    *bandits.MUTANTS,
    *local_bandits.MUTANTS,
    *shuffled.MUTANTS,
    *online.MUTANTS,
    *convex.MUTANTS,
    *sparse.MUTANTS,
    *evaluation.MUTANTS,
    *contract.MUTANTS,
]

__all__ = ["MUTANTS", "SURE", "Edit", "Mutant", "by_registry", "words"]
