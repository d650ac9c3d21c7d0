"""Planted bugs in mechanisms, the ledger and local channels."""

import math

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant

from discreet.audit import ATTACKS, audit
from discreet.privacy import (
    BallChannel,
    Budget,
    Ledger,
    SecureNoise,
    SeededNoise,
    mechanisms,
    prefix,
)
from discreet.privacy.gaussian import gaussian_epsilon
from discreet.privacy.ledger import BudgetSpent
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.release import Release
from mutants.kit import DELTA, EPSILON, MU, Edit, Mutant, audited

RUNS = 4000


def lost_length() -> float:
    """How much of the Frobenius norm the vector of a matrix misses, at the worst of these."""
    matrices = np.array([np.eye(2), [[0.0, 1.0], [1.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]])
    lengths = np.linalg.norm(mechanisms.symmetric_to_vector(matrices), axis=1)
    return float(np.max(np.abs(lengths / np.linalg.norm(matrices, axis=(1, 2)) - 1)))


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
    out = Mechanisms(noise).gaussian(np.full(40, 0.1), sensitivity=1.0, mu=MU).value
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


MUTANTS = [
    audited(
        "halved noise",
        "mechanisms",
        "Gaussian noise has half the std that was booked.",
        "gaussian",
        (Edit("privacy.noise:Noise.gaussian", "std * self", "std / 2 * self"),),
    ),
    audited(
        "isometry with factor 2",
        "mechanisms",
        "Off-diagonal entries are counted twice, not sqrt(2) times: moves are sqrt(2) longer.",
        "gaussian symmetric",
        (
            Edit("privacy.mechanisms:symmetric_to_vector", "* isometry", "* isometry**2"),
            Edit("privacy.mechanisms:vector_to_symmetric", "/ isometry", "/ isometry**2"),
        ),
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
        lambda: audit(ATTACKS["ball channel, last bits"], 100_000, confidence=0.9999).lower_bound,
        (
            Edit(
                "privacy.sphere:_on_grid", "np.rint(units / GRID).astype(np.int64)", "units / GRID"
            ),
        ),
    ),
    audited(
        "argmin(score + Gumbel)",
        "mechanisms",
        "A minimum is taken of scores plus Gumbel noise, which is not symmetric.",
        "selection",
        (Edit("privacy.noise:Noise.select", "scores - scale", "scores + scale"),),
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
                "privacy.release:gaussian_mu",
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
                "privacy.sphere:BallChannel._drawn",
                "direction = rows / np.where(zero, 1.0, largest)[:, None]",
                "direction = rows.copy()",
            ),
        ),
        unit="relative length",
    ),
    audited(
        "contributions ignored by a channel",
        "local channels",
        "Each of a person's k reports runs at epsilon instead of epsilon/k.",
        "ball channel, three reports of one user",
        (
            Edit(
                "privacy.channels:Channel.__init__",
                "self.epsilon / self.contributions",
                "self.epsilon",
            ),
        ),
    ),
    audited(
        "the true half sphere too often",
        "local channels",
        "The fraction of reports on the true side is squared odds: e^(2 epsilon) instead of "
        "e^epsilon.",
        "ball channel",
        (
            Edit(
                "privacy.sphere:BallChannel.__init__",
                "spent = self.report_epsilon - min(CHECKED, self.report_epsilon / 2)",
                "spent = 2 * self.report_epsilon",
            ),
        ),
    ),
]
