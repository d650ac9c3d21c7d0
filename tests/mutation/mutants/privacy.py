"""Planted bugs in mechanisms, the ledger and local channels."""

import math

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant

from discreet.audit.lattice import channel_attack
from discreet.privacy import (
    BallChannel,
    Budget,
    IntervalChannel,
    Ledger,
    Release,
    SecureNoise,
    SeededNoise,
    mechanisms,
    prefix,
)
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.ledger import BudgetSpent
from discreet.privacy.mechanisms import gaussian, gaussian_symmetric, select
from mutants.kit import DELTA, EPSILON, MU, Edit, Mutant, both, gaussian_proved, proved

RUNS = 4000


def one_number() -> float:
    """Every coordinate has its own noise, so that each is one run."""
    sides = [
        gaussian(np.full(RUNS, x), sensitivity=2.0, mu=MU, noise=SeededNoise(seed)).value
        for seed, x in ((1, -1.0), (2, 1.0))
    ]
    return gaussian_proved(*sides)


def one_matrix() -> float:
    """Rows e1 and e2, turned by 45 degrees: they differ off the diagonal only, by sqrt(2)."""
    a, b = np.array([1.0, 1.0]) / math.sqrt(2), np.array([1.0, -1.0]) / math.sqrt(2)
    terms, noise = (np.outer(a, a), np.outer(b, b)), SeededNoise(3)

    def run(neighbour: int, _: int) -> float:
        out = gaussian_symmetric(terms[neighbour], sensitivity=math.sqrt(2), mu=MU, noise=noise)
        return float(out.value[0, 1])

    return gaussian_proved(*both(run, 1500))


def lost_length() -> float:
    """How much of the Frobenius norm the vector of a matrix misses, at the worst of these."""
    matrices = np.array([np.eye(2), [[0.0, 1.0], [1.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]])
    lengths = np.linalg.norm(mechanisms.symmetric_to_vector(matrices), axis=1)
    return float(np.max(np.abs(lengths / np.linalg.norm(matrices, axis=(1, 2)) - 1)))


def a_minimum() -> float:
    """Twenty scores that all move by 2: one falls below the others, or rises above them."""
    noise, scores = SeededNoise(4), (np.ones(20), -np.ones(20))
    for each, first in zip(scores, (-1.0, 1.0), strict=True):
        each[0] = first

    def run(neighbour: int, _: int) -> float:
        chosen = select(scores[neighbour], sensitivity=2.0, epsilon=1.0, minimize=True, noise=noise)
        return float(chosen.value == 0)

    return proved(*both(run, 4000))


def all_that_is_admitted() -> float:
    """What a person loses who is in everything that one scope of the ledger lets through."""
    ledger = Ledger(Budget(EPSILON, DELTA))
    half = Release.gaussian(
        sensitivity=1.0, scale=math.sqrt(2) / MU, what="half", sampler="float", scope="window 1"
    )
    try:
        for _ in range(6):
            ledger.spend(half)
    except BudgetSpent:
        pass
    return gaussian_epsilon(math.sqrt(sum(each.mu**2 for each in ledger.releases)), DELTA)


def by_another_accountant() -> float:
    """dp-accounting's epsilon for the noise that a budget of epsilon = 16 gives."""
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(1 / Budget(16.0, DELTA).mu))
    return float(accountant.get_epsilon(DELTA)) * (1 - 1e-3)  # its grid


def off_the_sphere() -> float:
    """All reports lie on one sphere; one that does not shows that the vector was tiny."""
    channel = BallChannel(3, 1.0)
    tiny = np.tile([3e-162, 4e-162, 1e-162], (64, 1))
    with np.errstate(all="ignore"):
        reports = channel.privatize(tiny, SeededNoise(5))
    return float(np.max(np.abs(np.linalg.norm(reports, axis=1) / channel.radius - 1)))


def off_the_lattice() -> float:
    """The fraction of exact noisy values that are no multiples of the lattice: their bits tell."""
    noise = SecureNoise()
    spacing = noise.spacing("gaussian", 1 / MU)
    out = gaussian(np.full(40, 0.1), sensitivity=1.0, mu=MU, noise=noise).value
    return float(np.mean(out % spacing != 0))


def words_of_a_refusal() -> float:
    """How many different messages two rows that are too long bring about, beyond one."""
    messages = set()
    for size in (2.0, 3.0):
        try:
            prefix.PrefixSum(4, 2, Budget(1.0, DELTA), sensitivity=1.0, noise=SeededNoise(0)).add(
                [size, 0.0]
            )
        except ValueError as error:
            messages.add(str(error))
    return float(len(messages) - 1)


def reports_of_one_person() -> float:
    """Four reports of one person, of the number -1 or 1; claim 1 for all four together."""
    channel = IntervalChannel(1.0, contributions=4)
    sides = []
    for seed, x in ((6, -1.0), (7, 1.0)):
        sides.append(channel.privatize(np.full((2000, 4), x), SeededNoise(seed)).sum(axis=1))
    return proved(*sides)


def one_direction() -> float:
    """One report of e1 or -e1 through the channel of the ball."""
    channel, e1 = BallChannel(3, 1.0), np.eye(3)[0]
    sides = [
        channel.privatize(np.tile(sign * e1, (RUNS, 1)), SeededNoise(seed))[:, 0]
        for seed, sign in ((8, -1.0), (9, 1.0))
    ]
    return proved(*sides)


MUTANTS = [
    Mutant(
        "halved noise",
        "mechanisms",
        "Gaussian noise has half the std that was booked.",
        "audit",
        EPSILON,
        one_number,
        (Edit("privacy.noise:Noise.gaussian", "std * self", "std / 2 * self"),),
        attack="gaussian",
    ),
    Mutant(
        "isometry with factor 2",
        "mechanisms",
        "Off-diagonal entries are counted twice, not sqrt(2) times: moves are sqrt(2) longer.",
        "audit",
        EPSILON,
        one_matrix,
        (
            Edit("privacy.mechanisms:symmetric_to_vector", "* isometry", "* isometry**2"),
            Edit("privacy.mechanisms:vector_to_symmetric", "/ isometry", "/ isometry**2"),
        ),
        attack="gaussian symmetric",
    ),
    Mutant(
        "isometry without sqrt 2",
        "mechanisms",
        "The off-diagonal sqrt(2) is missing: the vector is shorter than the matrix. Wrong sums, "
        "not a leak: no attack finds it.",
        "sensitivity",
        1e-12,
        lost_length,
        (Edit("privacy.mechanisms:symmetric_to_vector", "* isometry", "* 1.0"),),
        unit="relative length",
    ),
    Mutant(
        "report with its last bits",
        "local channels",
        "Reports are not rounded: how they were computed shows whose they are.",
        "audit",
        1.0,
        lambda: channel_attack("ball channel", SeededNoise(2)).report.lower_bound,
        (Edit("privacy.local:_on_grid", "np.rint(units / GRID).astype(np.int64)", "units / GRID"),),
    ),
    Mutant(
        "argmin(score + Gumbel)",
        "mechanisms",
        "A minimum is taken of scores plus Gumbel noise, which is not symmetric.",
        "audit",
        1.0,
        a_minimum,
        (Edit("privacy.noise:Noise.select", "scores - scale", "scores + scale"),),
        attack="selection",
    ),
    Mutant(
        "budget spent twice",
        "ledger",
        "The ledger forgets what a scope has spent already.",
        "ledger",
        EPSILON,
        all_that_is_admitted,
        (
            Edit(
                "privacy.ledger:Account.plus",
                "here = self.cost_in(release.scope) + cost",
                "here = cost",
            ),
        ),
    ),
    Mutant(
        "a paper's constant",
        "mechanisms",
        "sigma = sqrt(2 log(1.25/delta))/epsilon, used beyond epsilon = 1 where it is too small.",
        "ledger",
        16.0,
        by_another_accountant,
        (
            Edit(
                "privacy.budget:gaussian_mu",
                "return mu * (1 - _ROUNDING)",
                "return epsilon / math.sqrt(2 * math.log(1.25 / delta))",
            ),
        ),
    ),
    Mutant(
        "value not rounded to the lattice",
        "mechanisms",
        "Exact noise is added to a float: the last bits of the sum are those of the value.",
        "law",
        0.0,
        off_the_lattice,
        (
            Edit(
                "privacy.mechanisms:to_lattice",
                "return np.rint(value / spacing) * spacing if spacing else value",
                "return value",
            ),
        ),
        unit="of the values",
    ),
    Mutant(
        "an error message quotes data",
        "mechanisms",
        "A refused row's length stands in the message.",
        "trace",
        0.0,
        words_of_a_refusal,
        (
            Edit(
                "privacy.prefix:within",
                "norm at most {bound:g}; rescale",
                "norm at most {bound:g}, not {np.max(norms):g}; rescale",
            ),
        ),
        unit="messages too many",
    ),
    Mutant(
        "report off the sphere",
        "local channels",
        "Squares of tiny numbers lose their digits, and the report's length shows it.",
        "law",
        3e-6,  # of which 2^-20 sqrt(3) is the reports' grid
        off_the_sphere,
        (
            Edit(
                "privacy.local:BallChannel._drawn",
                "direction = rows / np.where(zero, 1.0, largest)[:, None]",
                "direction = rows.copy()",
            ),
        ),
        unit="relative length",
    ),
    Mutant(
        "contributions ignored by a channel",
        "local channels",
        "Each of a person's k reports runs at epsilon instead of epsilon/k.",
        "audit",
        1.0,
        reports_of_one_person,
        (
            Edit(
                "privacy.channel:Channel.__init__",
                "self.epsilon / self.contributions",
                "self.epsilon",
            ),
        ),
        attack="ball channel, three reports of one user",
    ),
    Mutant(
        "the true half sphere too often",
        "local channels",
        "The fraction of reports on the true side is squared odds: e^(2 epsilon) instead of "
        "e^epsilon.",
        "audit",
        1.0,
        one_direction,
        (
            Edit(
                "privacy.local:BallChannel.__init__",
                "odds_below(self.report_epsilon - min(CHECKED, self.report_epsilon / 100))",
                "odds_below(2 * self.report_epsilon)",
            ),
        ),
        attack="ball channel",
    ),
]
