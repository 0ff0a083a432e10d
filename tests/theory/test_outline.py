"""What M and A settle, by hand for M = 100, A = 20."""

import math

import pytest

from fedamd.errors import FedamdError
from fedamd.theory.outline import outline

ROOT = 2 * math.sqrt(6)


def test_both_schedules():
    """p* = (1/11)^{1/20} = 0.887, 1 − p*^20 = 10/11, a = 5·sqrt(10/11)/p* = 5.374; 1 + 2·100·2/20 = 21."""
    found = outline({"M": 100, "A": 20})
    best = (1 / 11) ** (1 / 20)
    stale = 5 / best * math.sqrt(10 / 11)
    assert found["constant"] == pytest.approx(
        {
            "p": best,
            "anchors a round": 20 * best,
            "rounds that move the model": 10 / 11,
            "vectors a round": 20 * (3 - best),
            "eta_s as printed": ROOT / (1 + 2 * stale),
            "eta_s as proved": ROOT / (1 + math.sqrt(8) * stale),
        }
    )
    assert found["constant"]["p"] == pytest.approx(0.887, abs=5e-4)
    assert found["sequential"] == pytest.approx({"tau": 2, "vectors a round": 50, "eta_s": ROOT / 21})


def test_a_given_p_and_a_given_period():
    found = outline({"M": 4, "A": 2, "p": 0.5, "tau": 4, "L": 3.0, "sigma": 1.0})
    assert found["constant"]["p"] == 0.5
    assert found["sequential"]["eta_s"] == pytest.approx(ROOT / 17)


def test_a_cohort_larger_than_the_federation():
    with pytest.raises(FedamdError, match="larger than the M = 4"):
        outline({"M": 4, "A": 5})
