"""The names that the package promises, room by room: none is added or lost by accident."""

import importlib

import pytest

PUBLIC = {
    "privacy": (
        "Budget BudgetSpent ContributionLimiter Guarantee Ledger SeededNoise SecureNoise PrefixSum "
        "Tree BallChannel IntervalChannel Shuffled gaussian_mu gaussian_std"
    ),
    "bandits": (
        "LinearBandit SparseBandit Device LocalServer Promise Holdout People Shuffled Model "
        "baselines"
    ),
    "bandits.baselines": "LinUCB ContinualLinUCB LocalLinUCB LocalSGDBandit",
    "regression": (
        "PrivateLinearRegression PrivateLogisticRegression PrivateGLM PrivateSearchCV AdaSSP OLS "
        "information_matrix PrivacyLeakWarning NoisyFitWarning Problem Estimate PrivateScore "
        "score_private PrivatePipeline"
    ),
    "online": (
        "FTRL FTPL AdversarialBandit BarrierBandit ProjectionFreeBandit PrivateReduction Doubling"
    ),
    "optimization": "StreamingFrankWolfe Loss",
    "domains": (
        "Domain Ball Cube Simplex LpBall Polytope MatroidPolytope BasePolytope FlowPolytope "
        "BirkhoffPolytope TraceNormBall"
    ),
    "local": "Server Report",
    "environments": "world WORLDS play logged World",
    "evaluation": "ABTest evaluate",
    "audit": "audit audit_scores ATTACKS attack",
}
# Names that go, or that come; both lists only ever shrink.
GOING = {
    "bandits": "Decision Decisions PublicPolicy",
}
COMING: dict[str, str] = {}


def names(table, room):
    return set(table.get(room, "").split())


@pytest.mark.parametrize("room", PUBLIC)
def test_public_names__are_frozen(room):
    try:
        found = importlib.import_module(f"discreet.{room}")
    except ModuleNotFoundError:
        assert names(PUBLIC, room) == names(COMING, room)
        return
    shown = set(found.__all__)
    assert names(PUBLIC, room) - names(COMING, room) <= shown
    assert shown <= names(PUBLIC, room) | names(GOING, room)
    assert all(hasattr(found, name) for name in shown)
