"""The numbers that tune the joint bandit: each with its unit, and why it is what it is.

No promise depends on any of them: what is released, and what noise it holds, stands in window.py.
What an ablation does not miss is no field here: `benchmarks/ablations.py`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """What varies in an ablation; `TUNING` is in force."""

    # Windows (estimators.py)
    first: float = 4.0  # decisions, times d / mu: then an estimate is as large as its noise
    growth: float = 0.5  # of the rounds before a window; at least the first window's length
    shared_growth: float = 2.0  # the same where windows share the budget: fewer have more each
    # half_life="auto": a change shows at a window's end, so they are short.
    still: float = 0.1  # longest window, of the rounds since a change has shown, or of all
    moving: float = 1.5  # first windows: the longest after a change; 4 or 1 follow drift less well
    begin: float = 60.0  # first windows, in which windows have any length unless one has shown

    # What is believed before anything is released (estimators.py)
    noise: float = 0.1  # of the largest variance that rewards can have
    constant: float = 0.3  # beside phi, in units of its longest; more costs the features too much
    steep: float = 2.0  # largest |theta| at first, and the intercept's std, with a link

    # How rows enter a window (window.py)
    isotropy: float = 0.3  # no direction is stretched by more than 1/sqrt(isotropy) of the mean
    even: float = 30.0  # the same where nothing is clipped: Gram noise times all of theta
    # The noise of the Gram matrix is as 1 + q, that of the moment as (1 + q) / sqrt(q): .5 gains
    # 25% of the first for 6% of the second. In the first window q is 1, because its sum of squares
    # has noise as (1 + q) / q.
    balance: float = 0.5  # q, the residual's part of |v|^2 over that of x

    # How a release is read (release.py)
    spread: float = 0.4  # prior std of the logarithm of the residuals' scale
    heavy: float = 4.5  # std above twice the normal sum of squares: residuals are not normal
    # nu falls to no less of itself from window to window. Falling faster than the noise of the sum
    # of squares that tells whether residuals are normal, a clip closes in on the commonest of 0 and
    # 1, and nothing ever tells. Of .3, .5 and .67 the first covers half of rare clicks, and with
    # the last more runs stay with a wrong action.
    fall: float = 0.5  # of nu
    recent: float = 0.5  # of what earlier windows said about rows and residuals stays
    rest: float = 0.05  # of residuals' mean square is noise, at least, where they are clipped
    # Less, and without privacy the first window makes the belief too sure of itself.
    floor: float = 0.3  # the same where none is clipped
    unlike: float = 0.02  # of theta's prior std, by which windows differ: means are not linear
    visible: float = 2.0  # times its noise's norm: an eigenvalue of a Gram matrix that is of rows
    evidence: float = 1000.0  # times as likely must a longer theta be than the one believed
    changed: float = 1000.0  # times as likely must a release be if theta has moved since
    again: float = 3.0  # the same once it was seen to move; 10 follows drift less well
    thin: float = 3.0  # std by which a window's count of rows must stand out, or
    full: float = 0.5  # of its decisions, while rewards come for most of them

    # What is explored (policies.py)
    optimism: float = 2.5  # std of the belief, in rounds that explore
    exploring: float = 0.3  # of a window's rounds, at most
    unclipped_tries: float = 2.0  # first windows of such rounds where nothing is clipped
    tries: float = 8.0  # such rounds in a window, at least, for each dimension


TUNING = Tuning()
