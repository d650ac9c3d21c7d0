"""Losses of unit length, and the adversary."""

import numpy as np
import pytest

from papers.linear_losses import LeaderPunisher, linear_losses

T, N = 20_000, 6


@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2)])
def test_linear_losses__have_unit_length_and_drift(norm, order):
    L = linear_losses(norm, T, N, seed=2)
    assert np.allclose(np.linalg.norm(L, ord=order, axis=1), 1)
    pull = np.linalg.norm(L.mean(axis=0))
    level = np.linalg.norm(linear_losses(norm, T, N, drift=0.0, seed=2).mean(axis=0))
    assert pull > 5 * level
    assert np.array_equal(L, linear_losses(norm, T, N, seed=2))
    with pytest.raises(ValueError, match="norm"):
        linear_losses("linf", 10, 2, seed=0)


def test_leader_punisher__hits_the_heaviest_expert_alone():
    punisher = LeaderPunisher(3)
    assert punisher.loss([0.1, 0.2, 0.7]).tolist() == [0, 0, 1]
    assert punisher.loss([1, 1, 1]).tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="shape"):
        punisher.loss([1.0, 0.0])
