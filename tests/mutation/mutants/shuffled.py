"""Planted bugs under shuffled trust: what a relay leaves in, too small a crowd."""

from collections.abc import Callable

from discreet.audit import ATTACKS, audit
from mutants.kit import SURE, Edit, Mutant

RUNS = 2000
ORDER = 'np.argsort(noise.uniform(len(reports)), kind="stable")'


def by_attack(name: str) -> Callable[[], float]:
    """The epsilon that an attack proves of a batch that promises 1."""

    def catch() -> float:
        return audit(ATTACKS[name], RUNS, seed=1, confidence=SURE).lower_bound

    return catch


def _mutant(name: str, broken: str, attack: str, *edits: Edit) -> Mutant:
    return Mutant(name, "LinearBandit, shuffled", broken, "audit", 1.0, by_attack(attack), edits)


BITS, BANDIT = "shuffled batch, one bit each", "linear bandit shuffled"
MUTANTS = [
    _mutant(
        "a batch in the order of arrival",
        "The relay forwards reports in the order in which they came.",
        BITS,
        Edit("audit.attacks.shuffled:forwarded", ORDER, "np.arange(len(reports))"),
    ),
    _mutant(
        "a bandit's batch in the order of arrival",
        "The same, and the reports are whole vectors.",
        BANDIT,
        Edit("audit.attacks.shuffled:forwarded", ORDER, "np.arange(len(reports))"),
    ),
    _mutant(
        "the first report keeps its place",
        "Who came first shows: a trace of the time of arrival.",
        BITS,
        Edit(
            "audit.attacks.shuffled:forwarded",
            ORDER,
            "np.append(0, 1 + np.argsort(noise.uniform(len(reports) - 1)))",
        ),
    ),
    _mutant(
        "epsilon_0 for a larger crowd",
        "Reports run at the epsilon_0 of a batch ten times as large.",
        BITS,
        Edit("privacy.shuffle:PlannedBatch.report_epsilon", "self.honest,", "10 * self.honest,"),
    ),
    _mutant(
        "a device believes the server about the crowd",
        "A device sends reports of an epsilon_0 that the stated batch cannot hide.",
        "device, too small a crowd",
        Edit(
            "local.device:Promise._check_batch",
            "not mine.keeps_promise(each, k)",
            "False",
        ),
    ),
]
