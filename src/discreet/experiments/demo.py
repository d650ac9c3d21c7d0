"""The demo: what privacy costs a bandit, on a real experiment and on a synthetic world."""

from discreet.experiments.experiment import Choice, Experiment

FIRST_SEED = 2000  # not those on which options were compared
NOTE = (
    "How options were chosen: the outcomes are yes or no, hence the logistic link. Thompson "
    "sampling was chosen for the first learner after looking at seven combinations of policy and "
    "link on the health insurance data, and width 1 for LinUCB after looking at two widths there, "
    "all on ten other seeds. The library's own choice is shown beside it."
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
            Choice(
                "LinearBandit",
                {"link": "logistic", "policy": "thompson"},
                title="LinearBandit (logistic, Thompson)",
            ),
            Choice("LinearBandit", title="LinearBandit (defaults)"),
            Choice("ContinualLinUCB", {"mechanism": "blt"}, title="continual LinUCB"),
            Choice("LinUCB", {"width": 1.0}, title="LinUCB"),
        ),
        epsilons=(0.3, 1.0, 3.0),
        rounds=rounds,
        seeds=tuple(range(FIRST_SEED, FIRST_SEED + seeds)),
        name="What privacy costs a bandit",
        note=NOTE,
    )
