"""The demo: what privacy costs a bandit, on a real experiment and on a synthetic world."""

from discreet.experiments.experiment import Choice, Experiment

FIRST_SEED = 2000  # not those on which LinUCB's widths were compared
NOTE = (
    "The private learners run with their defaults: nothing was chosen by looking at these worlds. "
    "LinUCB, which is not private and which they are held against, has the better of two widths "
    "there, found on ten other seeds; with its default it would make privacy look cheaper."
)


def demo_experiment(rounds: int = 50_000, seeds: int = 10) -> Experiment:
    """Private and non-private bandits at three budgets.

    >>> experiment = demo_experiment(seeds=3)
    >>> experiment.epsilons, experiment.seeds, len(experiment.learners)
    ((0.3, 1.0, 3.0), (2000, 2001, 2002), 3)
    """
    return Experiment(
        environments=(
            Choice("randhie", title="health insurance (RAND)"),
            Choice("logistic", {"dim": 5, "actions": 10}, title="synthetic, 5 features"),
        ),
        learners=(
            Choice("LinearBandit", title="LinearBandit"),
            Choice("ContinualLinUCB", title="continual LinUCB"),
            Choice("LinUCB", {"width": 1.0}, title="LinUCB"),
        ),
        epsilons=(0.3, 1.0, 3.0),
        rounds=rounds,
        seeds=tuple(range(FIRST_SEED, FIRST_SEED + seeds)),
        name="What privacy costs a bandit",
        note=NOTE,
    )
