"""The server's step, two steps of each kind by hand.

Always x_0 = (1, 1), η_s = 0.5, β₁ = 0.9, β₂ = 0.99, ε = 0.1 (so v starts at 0.01), Δ = (1, 0.1), then (−2, 0.1).
"""

from math import sqrt

import pytest
import torch

from fedamd.algorithms.base import Algorithm, State
from fedamd.algorithms.server import ServerStep
from fedamd.errors import FedamdError

DELTAS = ((1.0, 0.1), (-2.0, 0.1))


class Method(ServerStep):
    def round(self, state, turn):
        raise NotImplementedError


def two_steps(**settings) -> list[list[float]]:
    method = Method(eta_s=0.5, adaptivity=0.1, **settings)
    assert isinstance(method, Algorithm)
    state = State(x=torch.ones(2, dtype=torch.float64))
    points = []
    for delta in DELTAS:
        state = state.next(**method.descend(state, torch.tensor(delta, dtype=torch.float64)))
        points.append(state.x.tolist())
    return points


def adaptive(m: float, v: float) -> float:
    return 0.5 * m / (sqrt(v) + 0.1)


def test_plain():
    assert two_steps() == [[0.5, 0.95], [1.5, pytest.approx(0.9)]]


def test_momentum():
    """m = (1, 0.1), then 0.9·m + Δ = (−1.1, 0.19)."""
    assert two_steps(server="momentum") == [[0.5, 0.95], [pytest.approx(1.05), pytest.approx(0.855)]]


@pytest.mark.parametrize(
    ("server", "v"),
    [
        # v = 0.01 + Δ²: 1.01, 0.02; then 5.01, 0.03
        ("adagrad", ((1.01, 0.02), (5.01, 0.03))),
        # v = 0.99·v + 0.01·Δ²: 0.0199, 0.01; then 0.99·0.0199 + 0.04 = 0.059701, 0.01
        ("adam", ((0.0199, 0.01), (0.059701, 0.01))),
        # v − 0.01·Δ²·sign(v − Δ²): 0.01 + 0.01 = 0.02, and 0.01 (v = Δ²); then 0.02 + 0.04 = 0.06, 0.01
        ("yogi", ((0.02, 0.01), (0.06, 0.01))),
    ],
)
def test_adaptive(server, v):
    """m = 0.1·Δ = (0.1, 0.01), then 0.9·m + 0.1·Δ = (0.09 − 0.2, 0.009 + 0.01) = (−0.11, 0.019)."""
    first = [1 - adaptive(0.1, v[0][0]), 1 - adaptive(0.01, v[0][1])]
    second = [first[0] - adaptive(-0.11, v[1][0]), first[1] - adaptive(0.019, v[1][1])]
    got = two_steps(server=server)
    assert got[0] == pytest.approx(first, abs=1e-12)
    assert got[1] == pytest.approx(second, abs=1e-12)


def test_yogi_shrinks_v_by_less_than_adam_where_gradients_fade():
    """v = 0.01, Δ² = 0.0001: yogi 0.01 − 0.01·0.0001, adam 0.99·0.01 + 0.01·0.0001."""
    state = State(x=torch.zeros(1, dtype=torch.float64))
    small = torch.tensor([0.01], dtype=torch.float64)
    yogi, adam = (Method(server=name, adaptivity=0.1).descend(state, small)["server_v"] for name in ("yogi", "adam"))
    assert yogi.item() == pytest.approx(0.009999)
    assert adam.item() == pytest.approx(0.009901)


def test_momentum_without_memory_is_the_plain_step():
    assert two_steps(server="momentum", beta_1=0.0) == two_steps()


def test_what_the_server_remembers_goes_through_the_state():
    method = Method(server="adam")
    state = State(x=torch.ones(2))
    assert set(method.descend(state, torch.ones(2))) == {"x", "server_m", "server_v"}
    assert torch.equal(state.x, torch.ones(2))  # nothing is changed in place


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"eta_s": 0.0}, "eta_s must be a finite number above 0, not 0.0"),
        ({"eta_s": float("inf")}, "eta_s"),
        ({"adaptivity": 0.0}, "adaptivity must be a finite number above 0"),
        ({"beta_1": 1.1}, r"beta_1 must lie in \[0, 1\], not 1.1"),
        ({"beta_2": -0.1}, r"beta_2 must lie in \[0, 1\]"),
        ({"server": "sgd"}, "server must be one of plain, momentum, adagrad, adam, yogi, not 'sgd'"),
    ],
)
def test_impossible_settings_are_refused(settings, says):
    with pytest.raises(FedamdError, match=says):
        Method(**settings)
