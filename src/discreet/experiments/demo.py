"""The demo: what privacy costs a bandit, on a real experiment and on a synthetic world."""

from discreet.experiments.experiment import Choice, Experiment

FIRST_SEED = 2000  # not those on which options were compared
NOTE = (
    "How options were chosen: the first learner has the library's defaults. Outcomes are yes or "
    "no, so the logistic link stands beside it, with Thompson sampling: in version 0.2 the best of "
    "seven combinations of policy and link on the health insurance data. Width 1 for LinUCB was "
    "chosen after looking at two widths there. Both were compared on ten other seeds."
)


def demo_experiment(rounds: int = 50_000, seeds: int = 10) -> Experiment:
    """Private and non-private bandits at three budgets.

    >>> experiment = demo_experiment(seeds=3)
    >>> experiment.epsilons, experiment.seeds, len(experiment.learners)
    ((0.3, 1.0, 3.0), (2000, 2001, 2002), 4)
    """
    return Experiment(
        environments=(
            Choice("randhie", title="health insurance (RAND)"),
            Choice("logistic", {"dim": 5, "actions": 10}, title="synthetic, 5 features"),
        ),
        learners=(
            Choice("LinearBandit", title="LinearBandit (defaults)"),
            Choice(
                "LinearBandit",
                {"link": "logistic", "policy": "thompson"},
                title="LinearBandit (logistic, Thompson)",
            ),
            Choice("ContinualLinUCB", {"mechanism": "blt"}, title="continual LinUCB"),
            Choice("LinUCB", {"width": 1.0}, title="LinUCB"),
        ),
        epsilons=(0.3, 1.0, 3.0),
        rounds=rounds,
        seeds=tuple(range(FIRST_SEED, FIRST_SEED + seeds)),
        name="What privacy costs a bandit",
        note=NOTE,
    )
