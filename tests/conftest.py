"""Shared by the tests: distributions with stated false alarm rate and power, threads that race."""

import gc
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from scipy import stats

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

ALARM = 1e-6  # false alarm rate of each test of a distribution

# Seconds each, beside a sibling that stays: the same test of another case, or a faster one of the
# same claim. `make thorough` runs them.
SLOW = (
    "stays_below_its_price_and_half_the_noise_is_caught[sparse bandit every round]",
    "stays_below_its_price_and_half_the_noise_is_caught[sparse bandit selection]",
    "half_the_noise_is_caught[projection-free bandit, two rounds of one user]",
    "decisions_stay_below_the_claim_and_half_the_noise_is_caught[ftpl]",
    "decisions_stay_below_the_claim_and_half_the_noise_is_caught[ftrl on the ball]",
    "on_a_learner_comes_close_and_catches_half_the_noise[streaming frank-wolfe simplex]",
    "test_errata.py::test_lemma_2_7__with_that_norm_a_gaussian_counterexample_is_exact",
    "test_batch_local_epsilon__is_the_largest",
    "is_the_ratio_of_the_chances_of_the_rare_choice[sparse bandit every round]",
    "is_the_ratio_of_the_chances_of_the_rare_choice[streaming frank-wolfe p=1, one choice of four]",
    "test_counts__the_pair_is_tested_as_often_right_as_it_says_and_beats_two_single_bounds",
    "test_counts__the_p_value_bounds_the_exact_chance[zcdp]",
    "uniform_or_larger_under_the_claim_and_small_when_it_is_broken[1e-06]",
    "test_local__the_same_questions_are_asked_wherever_the_server_runs",
    "test_local__the_covariance_is_that_of_the_error",
    "test_local__descent_learns_in_2000_dimensions",
    "test_planted_bug__is_caught[sparsebandit-gumbel-noise-of-the-wrong-sign]",
    "test_planted_bug__is_caught[sparsebandit-only-arms-that-were-chosen-release]",
    "localsgdbandit-a-reward-is-marked-after-its-report]",
    "test_votes__one_label_of_another_type_in_a_list_moves_one_at_most[nan]",
    "test_votes__one_label_of_another_type_in_a_list_moves_one_at_most[None]",
    "test_attack__an_audit_of_whole_fits_stays_below_the_claim[an early row]",
    "test_it_learns_a_fixed_loss_vector[triangle-local]",
    "test_it_learns_a_fixed_loss_vector[simplex-local]",
    "test_audit__exceeds_the_truth_no_more_often_than_it_says[gdp]",
    "is_the_ratio_of_the_chances_of_the_rare_choice[streaming frank-wolfe p=1]",
    "linearbandit-joint-two-windows-share-a-row]",
    "test_attack__catches_half_the_noise[glm newton, logistic]",
    "test_report__on_a_table_of_ones_own_says_on_top_that_it_is_not_private[online]",
    "test_central.py::test_audit__the_whole_estimator_hides_one_row",
    "test_audit__a_pure_sum_stays_below_the_claim_and_half_the_noise_is_caught",
    "test_local.py::test_local__server_and_devices_run_in_separate_processes",
    "half_the_noise_is_caught[sparse bandit measurement]",
    "comes_close_and_catches_half_the_noise[projection-free bandit pure]",
    "regression-central-contributions-ignored-by-a-fit]",
    "test_attack__stays_below_the_claim[search cv]",
    "test_attack__stays_below_the_claim[linear regression information-weighted]",
    "test_attack__stays_below_the_claim[glm newton, poisson]",
    "test_attack__stays_below_the_claim[glm newton, identity]",
    "test_attack__stays_below_the_claim[continual linucb, own context]",
    "test_attack__stays_below_the_claim[local sgd bandit, own context]",
    "comes_close_and_catches_half_the_noise[streaming frank-wolfe blt, two rows of one user]",
    "comes_close_and_catches_half_the_noise[streaming frank-wolfe tree]",
    "comes_close_and_catches_half_the_noise[streaming frank-wolfe generalised gaussian]",
    "comes_close_and_catches_half_the_noise[adversarial bandit central, three rounds of one user]",
    "test_planted_bug__is_caught[regression-central-the-exact-minimiser-is-published]",
    "test_planted_bug__is_caught[adversarialbandit-local-an-old-state-loaded-again]",
    "test_planted_bug__is_caught[streamingfrankwolfe-windows-a-row-added-for-a-row-replaced]",
    "test_planted_bug__is_caught[streamingfrankwolfe-p-1-clip-for-2-clip]",
    "test_estimate__is_unbiased_for_losses_fixed_in_advance_whatever_the_baseline",
    "test_all_or_nothing[PrivateSearchCV]",
    "test_planted_bug__is_caught[barrierbandit-central-the-paper-s-m-for-2-m]",
    "test_planted_bug__is_caught[regression-central-re-weighted-regression-keeps-the-exact-moment]",
    "below_the_claim_and_half_the_noise_is_caught[projection-free bandit]",
    "half_the_noise_is_caught[linear bandit, three rounds of one user]",
    "test_audit__leaving_one_arm_for_another_costs_less_than_a_replacement_within_one",
    "test_local_attack__comes_close_and_catches_twice_the_epsilon[known covariates]",
    "test_attack__catches_half_the_noise[linear regression reweighted]",
    "test_local__reports_are_pure_and_theta_is_near[LpBall(dim=2)]",
    "test_local__reports_are_pure_and_theta_is_near[Cube(dim=2)]",
    "test_attack__stays_below_the_claim[linear bandit, first visit in another window]",
    "test_batch_keeps_promise__three_reports_in_batches_of_any_sizes_keep_it[sizes0]",
    "test_attack__twice_epsilon_of_a_batch_is_caught[barrier bandit central-6000]",
    "test_killed_at_random_moments_it_counts_each_acknowledged_reward_once[postgresql-None]",
    "regression-central-wrong-sensitivity-of-second-moments]",
    "stays_below_the_claim[glm newton, identity, public covariates]",
    "stays_below_the_claim[logistic regression, four classes]",
    "test_near__is_what_the_pair_reaches[glm newton, identity]",
    "test_near__is_what_the_pair_reaches[glm newton, identity, public covariates]",
    "no_pair_moves_its_releases_further_than_it_promised[glm newton, identity]",
    "no_pair_moves_its_releases_further_than_it_promised[glm newton, identity, public covariates]",
    "comes_close_and_catches_half_the_noise[prefix sum pure tree l1]",
    "comes_close_and_catches_half_the_noise[barrier bandit local]",
    "comes_close_and_catches_half_the_noise[private reduction]",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes long, before it is deselected."""
    for item in items:
        if item.nodeid.endswith(SLOW):
            item.add_marker(pytest.mark.thorough)


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays: no search for garbage goes through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def assert_distribution() -> Callable[..., None]:
    """Accepts samples of a distribution, and refuses 1.25 and 1/1.25 times them."""

    def check(samples: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> None:
        flat = np.ravel(samples)
        assert stats.kstest(flat, cdf).pvalue > ALARM
        assert stats.kstest(flat * 1.25, cdf).pvalue < ALARM, "no power against 1.25 times"
        assert stats.kstest(flat / 1.25, cdf).pvalue < ALARM, "no power against 1/1.25 times"

    return check


@pytest.fixture
def in_threads() -> Callable[..., None]:
    """`in_threads(work, count)` runs work(0), work(1), ... at once, switching all the time."""

    def race(work: Callable[[int], object], count: int = 8) -> None:
        failures = []

        def guarded(i: int) -> None:
            try:
                work(i)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        assert not failures

    return race
