"""Generalised linear models: sensitivities, guarantees, limits, an audit, and the edges."""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit

from discreet.audit import audit_scores
from discreet.least_squares import Whitening
from discreet.links import BoundedLink, link
from discreet.privacy import BallChannel, Budget, Ledger, SeededNoise
from discreet.regression import PrivateLinearRegression, glm_erm, glm_sgd, newton, scores
from discreet.regression.base import Problem
from discreet.regression.glm import PrivateGLM
from discreet.regression.sample import Sample
from discreet.regression.scores import LinkScore, Weighting

LINK_CASES = st.sampled_from(
    [("logistic", 1.0), ("probit", 1.0), ("poisson", 6.0), ("identity", 1)]
)
DIM = 3


def world(n, size=3.0, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = np.ones(d) * size / math.sqrt(d)
    return X, (rng.random(n) < expit(X @ theta)).astype(float), theta


def problem(X, y, epsilon=math.inf, contributions=1, seed=0, public_X=None, delta=1e-6):
    ledger = Ledger(Budget(epsilon, delta, contributions))
    return Problem(X, y, ledger, SeededNoise(seed), np.random.default_rng(seed), public_X)


@st.composite
def records(draw):
    """A row at the edge: zero, on the sphere along an axis or anywhere; with an extreme label."""
    kind = draw(st.sampled_from(["zero", "axis", "sphere", "tiny"]))
    if kind == "zero":
        x = np.zeros(DIM)
    elif kind == "axis":
        x = np.eye(DIM)[draw(st.integers(0, DIM - 1))] * draw(st.sampled_from([-1.0, 1.0]))
    else:
        x = np.random.default_rng(draw(st.integers(0, 999))).standard_normal(DIM)
        x *= (1e-3 if kind == "tiny" else 1.0) / np.linalg.norm(x)
    return x, draw(st.sampled_from([0.0, 1.0, -1.0]))


@st.composite
def weightings(draw):
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    Q = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    scales = np.exp(draw(st.floats(0, 4)) * rng.standard_normal(DIM))
    tau, square = (draw(st.sampled_from(each)) for each in ([0.1, 1, 3, 50], [1, 4, math.inf]))
    return Weighting(Whitening((Q * scales) @ Q.T), tau, square)


# -- sensitivities ---------------------------------------------------------------------------------


@given(LINK_CASES, records(), records(), weightings(), st.sampled_from([0.0, 0.5, 5.0, 10.0]))
def test_newton__a_replaced_row_moves_gradient_and_information_within_bounds(
    case, first, second, weighting, size
):
    model = link(case[0]).within(10.0, case[1])
    theta = size * np.array([1.0, 0.0, 0.0])
    (g, H), (g2, H2) = (
        LinkScore(model).statistics(weighting, theta, x[None], np.array([y]))
        for x, y in (first, second)
    )
    moves_g, moves_H = LinkScore(model).sensitivities(weighting)
    assert np.linalg.norm(g - g2) <= moves_g * (1 + 1e-9)
    assert np.linalg.norm(H - H2) <= moves_H * (1 + 1e-9)
    # Both at once, as they are released: less than the sum of their squares.
    cost = scores.GRAM_COST
    joint = (np.linalg.norm(g - g2) / moves_g) ** 2
    joint += cost * (np.linalg.norm(H - H2) / moves_H) ** 2
    assert joint <= (1 + cost / 2) * (1 + 1e-9)


def test_newton__the_joint_bound_is_nearly_reached_by_a_long_row_against_a_short_one():
    """Both rows pull fully; the long one fills the information, the short one hardly enters it."""
    model, weighting = link("logistic").within(10.0), Weighting(Whitening(50 * np.eye(DIM)), 1, 4)
    (g, H), (g2, H2) = (
        LinkScore(model).statistics(
            weighting, np.zeros(DIM), np.array([[x, 0.0, 0.0]]), np.array([y])
        )
        for x, y in ((0.08, 0.0), (0.02, 1.0))
    )
    moves_g, moves_H = LinkScore(model).sensitivities(weighting)
    cost, fraction = scores.GRAM_COST, (np.linalg.norm(H - H2) / moves_H) ** 2
    assert np.linalg.norm(g - g2) == pytest.approx(moves_g)
    assert 1 + 0.25 * cost < 1 + cost * fraction <= 1 + cost / 2


def test_newton__the_gradient_bound_is_reached_by_opposite_rows():
    model, weighting = link("logistic").within(10.0), Weighting(Whitening.identity(DIM), 1.0)
    x, theta = np.array([[1.0, 0.0, 0.0]]), np.zeros(DIM)
    up = LinkScore(model).statistics(weighting, theta, x, np.array([1.0]))[0]
    down = LinkScore(model).statistics(weighting, theta, -x, np.array([1.0]))[0]
    assert np.linalg.norm(up - down) == pytest.approx(LinkScore(model).sensitivities(weighting)[0])


@given(records(), records(), weightings(), st.sampled_from([0.0, 0.3, 30.0, math.inf]))
def test_papers__weighted_gram_and_directions_move_within_bounds(first, second, weighting, gamma):
    W = weighting.whitening.matrix
    kappa = 1.0 if math.isinf(gamma) else glm_erm._kappa(W, gamma)
    grams = [glm_erm.weighted_gram(x[None], W, gamma) for x, _ in (first, second)]
    assert np.linalg.norm(grams[0] - grams[1]) <= math.sqrt(2) * kappa * (1 + 1e-9)
    a, b = (glm_sgd.directions(x[None], W)[0] * y for x, y in (first, second))
    assert np.linalg.norm(a - b) <= 2 * (1 + 1e-9)


def descents(first, second, case, seed, bound, released, W):
    """Where the steps end with one row or the other, and the bound on their distance."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, DIM))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 2, 12).astype(float)
    n, gamma = 12, 0.1
    model = BoundedLink(link(case[0]), -bound, bound, case[1])
    root = glm_erm.power(W, 0.5)
    S = root @ released @ root
    firm = np.linalg.eigvalsh(S)[0]
    back = W @ glm_erm.power(S, -0.5)
    # By hand: |nu(t) - m t - y| on a grid of t and y, and curvature m firm.
    t = np.linspace(-bound, bound, 1001)
    m = model.slope(t).min()
    worst = max(np.abs(model.mean(t) - m * t - label).max() for label in model.labels)
    kappa = glm_erm._kappa(W, gamma)
    moves = 2 * worst * kappa / (m * math.sqrt(firm) * n)
    found = []
    for row, label in (first, second):
        X[0], y[0] = row, np.clip(label, *model.labels)
        weight = glm_erm.weights(X, W, gamma) / n
        largest = kappa * np.linalg.norm(W, 2) / firm
        assert (n * weight * np.sum((X @ back) ** 2, axis=1) <= largest * (1 + 1e-9)).all()
        objective = glm_erm.Objective(X @ back, y.copy(), weight, model, largest)
        found.append(objective.descend())
    return found, moves, objective


@settings(max_examples=30)
@given(
    records(),
    records(),
    LINK_CASES,
    st.integers(0, 20),
    st.sampled_from([0.2, 1.0, 2.0]),
    st.sampled_from([0.0, 0.1, 3.0]),
    st.sampled_from([1, 2, 30, 1000]),
)
def test_erm__a_replaced_row_moves_every_number_of_steps_less_than_the_sensitivity(
    first, second, case, seed, bound, more, steps
):
    W = np.diag([1.0, 2.0, 3.0])
    released = np.linalg.inv(W) / 4 + np.diag([more, 0.0, 0.0])  # passes its test, just so
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glm_erm, "MOST_STEPS", steps)
        found, moves, _ = descents(first, second, case, seed, bound, released, W)
    assert np.linalg.norm(found[0] - found[1]) <= moves * (1 + 1e-9)


def test_erm__the_bound_on_the_move_is_reached_by_opposite_labels():
    """The slope of the identity link is least everywhere; the row is the longest when whitened."""
    row, W = np.eye(DIM)[-1], np.diag([1.0, 2.0, 3.0])
    released = np.diag([3.0, 2.0, 0.1])  # S = diag(3, 4, .3): least along the row
    found, moves, _ = descents((row, -1.0), (row, 1.0), ("identity", 1.0), 0, 50.0, released, W)
    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(moves, rel=1e-3)


def test_erm__the_steps_end_at_the_minimiser():
    row, W = np.eye(DIM)[-1], np.diag([1.0, 2.0, 3.0])
    cases = [("logistic", 1.0), ("probit", 1.0), ("identity", 1.0), ("poisson", 2.0)]
    for case in cases:
        found, _, objective = descents((row, 0.0), (row, 1.0), case, 0, 0.5, np.eye(DIM), W)
        assert np.linalg.norm(objective.gradient(found[1])) < 1e-5


@pytest.mark.parametrize("bound", [1.0, 3.0])
def test_erm__with_noise_fewer_steps_leave_a_hundredth_of_the_way_at_worst(bound):
    """At worst: steep rows that all lie beyond the bound, where the objective is flat."""
    model = BoundedLink(link("logistic"), -bound, bound, 1.0)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, DIM))
    rows *= math.sqrt(5) / np.linalg.norm(rows, axis=1, keepdims=True)
    labels = {
        "coins": rng.integers(0, 2, 200).astype(float),
        "beyond": (rows[:, 0] > 0).astype(float),
    }
    left = []
    for y in labels.values():
        objective = glm_erm.Objective(rows, y, np.full(200, 1 / 200), model, largest=5.0)
        best = minimize(
            lambda v, f=objective: np.sum(f.gradient(v) ** 2),
            objective.descend(),
            method="Nelder-Mead",
            options={"xatol": 1e-12, "fatol": 1e-20},
        ).x
        far = np.linalg.norm(objective.descend(glm_erm.PRECISION) - best)
        left.append(far / np.linalg.norm(best))
    flat = glm_erm.Objective(0 * rows, y, np.full(200, 1 / 200), model, largest=5.0)
    m, L = model.least, model.least + (model.largest - model.least) * 5.0
    steps = math.ceil(-math.log(glm_erm.PRECISION) / (2 * m / (L + m)))
    assert (1 - 2 * m / (L + m)) ** steps <= glm_erm.PRECISION  # the slowest that can be
    assert not flat.descend().any()
    assert max(left) < glm_erm.PRECISION
    assert left[0] < 1e-4


def test_erm__the_number_of_steps_depends_on_public_values_alone(monkeypatch):
    """Rows that are easy to fit take as long as rows that are hard: time is an output too."""
    calls = []
    gradient = glm_erm.Objective.gradient
    monkeypatch.setattr(
        glm_erm.Objective, "gradient", lambda self, v: [calls.append(1), gradient(self, v)][1]
    )
    model = BoundedLink(link("logistic"), -2.0, 2.0, 1.0)
    rng = np.random.default_rng(0)
    counts = []
    for rows, y in (
        (np.zeros((50, DIM)), np.full(50, 0.5)),
        (rng.standard_normal((50, DIM)), np.ones(50)),
        (np.full((50, DIM), 0.01), rng.integers(0, 2, 50).astype(float)),
    ):
        for left in (glm_erm.EXACT, glm_erm.PRECISION):
            calls.clear()
            glm_erm.Objective(rows, y, np.full(50, 0.02), model, largest=5.0).descend(left)
            counts.append(len(calls))
    assert len(set(counts)) == 2
    assert 10 < min(counts) < max(counts) / 2 < glm_erm.MOST_STEPS


@pytest.mark.parametrize(
    ("name", "unit"), [("logistic", 1), ("probit", 1), ("poisson", 6), ("identity", 2)]
)
@pytest.mark.parametrize("bound", [0.02, 1.0, 5.0])
def test_erm__the_worst_residual_is_the_largest_on_a_grid(name, unit, bound):
    model, t = BoundedLink(link(name), -bound, bound, unit), np.linspace(-bound, bound, 2001)
    slack = model.mean(t) - model.least * t
    largest = max(np.abs(slack - y).max() for y in np.linspace(*model.labels, 11))
    assert glm_erm.worst_residual(model, bound) == pytest.approx(largest)


def test_erm__public_covariates_leave_their_part_of_the_budget_to_the_minimiser():
    X, y, _ = world(2000)
    model = PrivateGLM(1.0, method="erm", coef_bound=1.0, public_X=X[:500], random_state=0)
    releases = model.fit(X, y).guarantee_.releases
    assert [each.what for each in releases] == ["weighted Gram matrix", "minimiser"]
    spent = sum((each.sensitivity / each.scale) ** 2 for each in releases)
    assert spent == pytest.approx(Budget(1.0, 1e-6).mu ** 2)


# -- guarantees ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"method": "erm", "coef_bound": 1.0}, {"method": "sgd"}])
def test_glm__guarantee_is_what_the_releases_cost_by_an_independent_accountant(options):
    X, y, _ = world(2000)
    model = PrivateGLM(1.0, 1e-6, random_state=0, **options).fit(X, y)
    promise = model.guarantee_
    assert promise.trust == "central"
    for scope in {promise.releases[0].scope, promise.releases[-1].scope}:  # all rows, or a batch
        accountant = PLDAccountant()
        for release in promise.releases:
            if release.scope == scope:
                accountant.compose(GaussianDpEvent(release.scale / release.sensitivity))
        assert accountant.get_epsilon(1e-6) == pytest.approx(1.0, abs=2e-3)
    assert promise.epsilon_at(1e-6) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("method", ["newton", "erm", "sgd"])
def test_glm__contributions_multiply_every_sensitivity(method):
    X, y, _ = world(2000)
    one, three = (
        PrivateGLM(1.0, method=method, coef_bound=1.0, contributions=k, random_state=0).fit(X, y)
        for k in (1, 3)
    )
    a, b = one.guarantee_.releases[0], three.guarantee_.releases[0]
    assert b.sensitivity == pytest.approx(3 * a.sensitivity)
    assert b.scale == pytest.approx(3 * a.scale)
    assert three.guarantee_.contributions == 3


def test_newton__the_released_noise_has_the_stated_distribution(assert_distribution):
    X, y, _ = world(50, d=8)
    model, weighting, theta = (
        link("logistic").within(10.0),
        Weighting(Whitening.identity(8), 1.0),
        np.zeros(8),
    )
    exact = LinkScore(model).statistics(weighting, theta, X, y)[0]
    rows = []
    for seed in range(800):
        sample = Sample(problem(X, y, 1.0, seed=seed), X, y, 0.2)
        stage = newton.stage(sample, LinkScore(model), weighting, theta, "one")
        rows.append(stage.g - exact)
    # sensitivity: 2 tau h = 1 for the gradient, and an eighth of its square for H
    scale = math.sqrt(1 + scores.GRAM_COST / 2) / 0.2
    assert_distribution(np.array(rows), stats.norm(0, scale).cdf)


def audit(claimed):
    """Scores of the gradient release on opposite rows, at a fraction of its true sensitivity."""
    model, weighting, theta = (
        link("logistic").within(10.0),
        Weighting(Whitening.identity(DIM), 1.0),
        np.zeros(DIM),
    )
    budget, noise = Budget(1.0, 1e-6), SeededNoise(5)
    moves = LinkScore(model).sensitivities(weighting)[0]
    scores = []
    for sign in (1.0, -1.0):
        x = sign * np.array([[1.0, 0.0, 0.0]])
        g = LinkScore(model).statistics(weighting, theta, x, np.array([1.0]))[0]
        std = claimed * moves / budget.mu
        scores.append((g + noise.gaussian(std, (20_000, DIM)))[:, 0])
    return audit_scores(*scores, delta=1e-6, confidence=0.9999, method="gdp").lower_bound


def test_newton__an_attack_on_the_gradient_stays_below_the_claim_and_catches_half_the_noise():
    # False alarm rate of each assertion: 1e-4.
    assert 0.4 < audit(1.0) <= 1.0
    assert audit(0.5) > 1.0


def test_newton__an_attack_on_whole_fits_stays_below_the_claim():
    X, y, _ = world(40, d=2)
    scores = []
    for label in (0.0, 1.0):
        X[0], y[0] = [1.0, 0.0], label
        fits = [PrivateGLM(2.0, random_state=2 * s + int(label)).fit(X, y) for s in range(40)]
        scores.append([fit.coef_[0] for fit in fits])
    report = audit_scores(*scores, delta=1e-6, confidence=0.9999, method="gdp")
    assert report.lower_bound <= 2.0


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "top"), [("logistic", 1), ("probit", 1), ("poisson", 8.0)])
def test_newton__without_noise_it_is_the_ridge_penalised_fit(name, top):
    X, _, theta = world(3000, size=1.5, d=3)
    nu, rng = link(name), np.random.default_rng(1)
    mean = nu.mean(X @ theta)
    y = np.minimum(rng.poisson(mean), top) if name == "poisson" else rng.random(3000) < mean
    y = y.astype(float)
    bound = nu.predictor_bound
    model = PrivateGLM(math.inf, link=name, label_bound=top).fit(X, y)
    bounded = nu.within(bound, top)
    ridge = bounded.dispersion * 3 / bound**2

    def loss(v):
        return bounded.loss(X @ v, y / top).sum() + ridge * v @ v / 2

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(model.coef_, best, atol=2e-5)
    assert not model.guarantee_.private


def test_newton__the_identity_link_is_linear_regression_by_the_same_stages():
    """Same releases, same theta; without noise ordinary least squares; coef_bound still binds."""
    X, _, _ = world(3000, d=3)
    y = 2 * (X @ [0.3, -0.2, 0.1] + 0.1 * np.random.default_rng(0).standard_normal(3000))
    bounds = {"norm_bound": 1.0, "label_bound": 2.0, "fit_intercept": True, "random_state": 0}
    for epsilon in (1.0, math.inf):
        for public in (None, X[:200]):
            glm = PrivateGLM(epsilon, link="identity", public_X=public, **bounds).fit(X, y)
            linear = PrivateLinearRegression(epsilon, public_X=public, **bounds).fit(X, y)
            np.testing.assert_allclose(glm.coef_, linear.coef_)
            np.testing.assert_allclose(glm.confidence_width(X), linear.confidence_width(X))
            assert glm.guarantee_.releases == linear.guarantee_.releases
    short = PrivateGLM(1.0, link="identity", coef_bound=0.1, **bounds).fit(X, y)
    assert np.linalg.norm([*short.coef_, short.intercept_]) <= 0.2 * (1 + 1e-9)


def test_erm__without_noise_it_minimises_the_documented_objective():
    X, y, _ = world(1000, size=1.0, d=3)
    model = PrivateGLM(math.inf, method="erm", coef_bound=2.0).fit(X, y)
    lam = math.sqrt(3 / 1000)
    bounded = BoundedLink(link("logistic"), -2.0, 2.0, 1.0)
    W = glm_erm._whitening(problem(X, y), 0.0, lam, math.inf)
    inverse = np.linalg.inv(W)

    def loss(v):
        return bounded.loss(X @ v, y).mean() + bounded.least * lam / 2 * v @ inverse @ v

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(model.coef_, best, atol=2e-3)


@pytest.mark.parametrize("trust", ["central", "local"])
def test_sgd__without_noise_it_comes_close_to_the_plain_fit(trust):
    X, y, _ = world(40_000, size=2.0)
    plain = PrivateGLM(math.inf).fit(X, y)
    model = PrivateGLM(math.inf, method="sgd", trust=trust, random_state=0).fit(X, y)
    assert np.abs(model.predict(X) - plain.predict(X)).mean() < 0.01


def test_newton__an_intercept_is_fitted_in_user_units():
    X, _, _ = world(30_000, d=3)
    X = 7.0 * X
    y = np.random.default_rng(0).random(30_000) < expit(X @ [0.3, 0.0, -0.2] - 1.5)
    model = PrivateGLM(3.0, norm_bound=7.0, fit_intercept=True, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, [0.3, 0.0, -0.2], atol=0.05)
    assert model.intercept_ == pytest.approx(-1.5, abs=0.15)


# -- it works --------------------------------------------------------------------------------------


def test_newton__is_within_a_quarter_of_the_non_private_error_on_average():
    ratios = []
    for seed in range(4):
        X, y, theta = world(20_000, size=5.0, d=6, seed=seed)
        error = [
            np.abs(PrivateGLM(epsilon, random_state=seed).fit(X, y).predict(X) - expit(X @ theta))
            for epsilon in (math.inf, 1.0)
        ]
        ratios.append(error[1].mean() / error[0].mean())
    assert np.mean(ratios) < 1.25


def test_newton__widths_cover_and_shrink():
    covered, widths = [], {}
    for n in (1000, 10_000):
        for seed in range(8):
            X, y, theta = world(n, seed=seed)
            model = PrivateGLM(1.0, random_state=seed).fit(X, y)
            width = model.confidence_width(X, 0.9)
            covered.append(np.mean(np.abs(model.predict(X) - expit(X @ theta)) <= width))
            widths[n] = width.mean()
    assert np.mean(covered) > 0.85
    assert widths[10_000] < widths[1000] / 2


def test_newton__public_covariates_cost_only_the_gradient():
    X, y, theta = world(5000)
    public = world(800, seed=9)[0]
    model = PrivateGLM(1.0, public_X=public, random_state=0).fit(X, y)
    assert all("information" not in release.what for release in model.guarantee_.releases)
    assert np.abs(model.predict(X) - expit(X @ theta)).mean() < 0.03
    for method in ("erm", "sgd"):
        other = PrivateGLM(1.0, method=method, public_X=public, coef_bound=3.0, random_state=0)
        whats = {release.what for release in other.fit(X, y).guarantee_.releases}
        assert "spectral iteration" not in whats


# -- local -----------------------------------------------------------------------------------------


def test_local__each_person_reports_once_through_an_exact_channel(monkeypatch):
    seen, sent = [], []
    X, y, _ = world(1000, d=3)
    privatize = BallChannel.privatize

    def spy(self, V, noise=None, *, clip=False):
        seen.append(len(V))
        assert np.linalg.norm(V, axis=1).max() <= 1 + 1e-9  # nothing is clipped, so no bias
        reports = privatize(self, V, noise, clip=clip)
        sent.append(np.linalg.norm(reports, axis=1) / self.radius)
        return reports

    monkeypatch.setattr(BallChannel, "privatize", spy)
    model = PrivateGLM(1.0, trust="local", random_state=0).fit(X, y)
    assert sum(seen) == 1000
    np.testing.assert_allclose(np.concatenate(sent), 1.0, rtol=3e-6)  # only the direction speaks
    promise = model.guarantee_
    assert (promise.trust, promise.delta) == ("local", 0.0)
    assert len({release.scope for release in promise.releases}) == len(promise.releases)
    assert all(release.epsilon <= 1.0 for release in promise.releases)
    assert promise.releases[0].epsilon == pytest.approx(1.0)


def test_local__contributions_divide_the_epsilon_of_a_report():
    X, y, _ = world(200, d=2)
    one = PrivateGLM(1.0, trust="local", contributions=2, random_state=0).fit(X, y)
    assert one.guarantee_.releases[0].epsilon == pytest.approx(1.0)  # both reports together
    assert BallChannel(2, 1.0, contributions=2).report_epsilon == pytest.approx(0.5)


# -- edges -----------------------------------------------------------------------------------------


def test_glm__labels_outside_their_range_are_clipped_and_long_rows_shortened():
    X, y, _ = world(500)
    wild = PrivateGLM(1.0, random_state=0).fit(5 * X, np.where(y > 0, 7.0, -3.0))
    tame = PrivateGLM(1.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(wild.coef_, tame.coef_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "cauchit"}, "identity, logistic, probit, poisson"),
        ({"method": "magic"}, "newton, erm, sgd"),
        ({"trust": "blind"}, "central, local"),
        ({"label_bound": 2.0}, "leave label_bound at 1"),
        ({"coef_bound": -1.0}, "coef_bound must be positive"),
        ({"coef_bound": 1e-165}, "coef_bound must lie in"),
        ({"norm_bound": 1e-90, "coef_bound": 1e-90}, r"norm_bound \* coef_bound must lie in"),
        ({"method": "sgd"}, "needs at least"),
    ],
)
def test_glm__bad_arguments_are_clear_errors(options, message):
    X, y, _ = world(20)
    with pytest.raises(ValueError, match=message):
        PrivateGLM(1.0, **options).fit(X, y)


def test_glm__widths_of_methods_with_unknown_bias_are_refused():
    X, y, _ = world(500)
    with pytest.raises(ValueError, match="no honest confidence width"):
        PrivateGLM(1.0, method="sgd", random_state=0).fit(X, y).confidence_width(X)


def test_glm__zero_constant_and_few_rows_give_finite_results():
    for X, y in (
        (np.zeros((30, 3)), np.zeros(30)),
        (np.ones((30, 3)), np.ones(30)),
        (np.eye(3)[:1], np.ones(1)),
    ):
        for epsilon in (0.1, 1.0, math.inf):
            model = PrivateGLM(epsilon, random_state=0).fit(X, y)
            assert np.isfinite(model.coef_).all()
            assert np.linalg.norm(model.coef_) <= 10 * (1 + 1e-9)
            assert np.isfinite(model.confidence_width(X)).all()


def test_glm__scikit_learn_can_clone_and_set_it():
    sklearn = pytest.importorskip("sklearn.base")
    model = PrivateGLM(2.0, link="probit", coef_bound=4.0)
    copy = sklearn.clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(epsilon=3.0).epsilon == 3.0
    assert repr(copy) == "PrivateGLM(coef_bound=4.0, epsilon=3.0, link='probit')"


def test_glm__poisson_counts_are_learned_and_their_score_is_positive():
    X, _, theta = world(30_000, size=2.0)
    y = np.minimum(np.random.default_rng(3).poisson(np.exp(X @ theta)), 15)
    model = PrivateGLM(1.0, link="poisson", label_bound=15.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, theta, atol=0.25)
    assert model.score(X, y) > 0.3
