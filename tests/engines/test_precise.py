"""Products are as exact as was asked for, and only within the engine."""

import pytest
import torch
from torch import nn

from fedamd.data.base import Dataset
from fedamd.engines import LoopEngine, choose_engine
from fedamd.engines.precise import PreciseEngine, precisely
from fedamd.errors import FedamdError
from fedamd.oracles.autograd import AutogradOracle

CPU, GPU = torch.device("cpu"), torch.device("cuda")
INPUTS = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(8) % 3
DATA = Dataset("points", INPUTS, LABELS, INPUTS, LABELS, 3)


def flags() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


def test_tf32_is_allowed_only_where_it_is_asked_for():
    before = flags()
    with precisely("float32", GPU):
        assert flags() == (False, False)
    assert flags() == before
    with precisely("tf32", GPU):
        assert flags() == (True, True)
    assert flags() == before


def test_bfloat16_is_for_products_not_for_parameters():
    a = torch.randn(5, 5)
    with precisely("bf16", CPU):
        assert (a @ a).dtype == torch.bfloat16
        assert (a + a).dtype == torch.float32
    assert (a @ a).dtype == torch.float32


def test_an_engine_computes_in_bfloat16_through_autograd():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    resolved = choose_engine("loop", "auto", model, DATA, precision="bf16")
    assert isinstance(resolved.engine, PreciseEngine)
    assert resolved.facts()["precision"] == "bf16"
    assert resolved.facts()["oracle"] == "autograd"
    assert resolved.facts()["passed_over"]["native"] == "it computes in float32"
    x = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    (rough,), (fine,) = (engine.evaluate([x]) for engine in (resolved.engine, LoopEngine(resolved.oracle)))
    assert rough != fine
    assert rough == pytest.approx(fine, rel=0.05)


def test_a_cpu_in_float32_has_nothing_around_its_engine():
    assert isinstance(choose_engine("loop", "autograd", nn.Linear(4, 3), DATA).engine, LoopEngine)


def test_what_an_engine_counts_is_recorded_at_any_precision():
    class Counting(LoopEngine):
        def extras(self, t):
            return {"graphs": t}

    assert PreciseEngine(Counting(AutogradOracle(nn.Linear(4, 3), DATA)), "bf16", CPU).extras(7) == {"graphs": 7}


@pytest.mark.parametrize(
    ("precision", "oracle", "dtype", "says"),
    [
        ("tf32", "auto", torch.float32, 'precision = "tf32" is for device = "cuda", not cpu'),
        ("bf16", "auto", torch.float64, 'precision = "bf16" is for dtype = "float32", not float64'),
        ("bf16", "native", torch.float32, 'precision = "bf16" is for oracle = autograd, not native'),
        ("fp8", "auto", torch.float32, "precision: there is no 'fp8'"),
    ],
)
def test_what_cannot_be_is_said(precision, oracle, dtype, says):
    with pytest.raises(FedamdError, match=says):
        choose_engine("auto", oracle, nn.Linear(4, 3).to(dtype), DATA.to("cpu", dtype), precision=precision)
