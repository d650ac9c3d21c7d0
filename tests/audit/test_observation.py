"""The observation hook shows what is published, while somebody looks, and nothing else."""

import pytest

from discreet.privacy import SeededNoise
from discreet.privacy.mechanisms import Mechanisms
from discreet.privacy.release import observed, values


def count():
    return Mechanisms(SeededNoise(0)).laplace(10.0, sensitivity=1.0, epsilon=1.0).value


def test_observed__is_the_published_value_and_its_cost():
    with observed() as seen:
        shown = count()
    count()
    assert values(seen) == [shown]
    assert (seen[0].kind, seen[0].release.epsilon) == ("release", 1.0)


def test_observed__only_the_kinds_asked_for_and_one_observer_at_a_time():
    with observed("report") as seen:
        count()
        with pytest.raises(RuntimeError, match="already"), observed():
            pass
    assert seen == []
