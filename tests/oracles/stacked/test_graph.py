"""A residual network on stacks of models: the function and the gradients that automatic differentiation gives."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from fedamd.errors import FedamdError
from fedamd.oracles.stacked import convolution, functions
from fedamd.oracles.stacked.graph import Network
from fedamd.oracles.stacked.packing import LivePacking
from residual import Residual


class Steps(nn.Module):
    """Steps in an order that residual networks do not have them in: each of these sums and ReLUs must stay itself."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.norm, self.other, self.shared = nn.GroupNorm(1, 2), nn.GroupNorm(2, 2), nn.GroupNorm(2, 2)
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.last = nn.Linear(2 * 4 * 4, 3, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        images = self.conv(self.pool(images))
        summed = self.norm(images) + self.other(images)  # both read by the sum alone, and the sum by others
        shared = self.shared(summed)
        twice = torch.relu(shared) + shared
        doubled = twice + twice
        return self.last((doubled + summed).relu().flatten(1))


def assert_like_autograd(
    model: nn.Module, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float, device: str = "cpu"
) -> None:
    """Three models on four samples each, against automatic differentiation in float64."""
    torch.manual_seed(0)
    models, batch = 3, 4
    own = {name: (p + torch.randn(models, *p.shape)).detach().to(device, dtype) for name, p in model.named_parameters()}
    images = torch.randn(models, batch, *shape, dtype=dtype, device=device)
    leaves = {name: values.double().clone().requires_grad_() for name, values in own.items()}
    rows = [{name: values[n] for name, values in leaves.items()} for n in range(models)]
    truth = torch.stack([torch.func.functional_call(model, row, images[n].double()) for n, row in enumerate(rows)])
    upstream = torch.randn_like(truth)
    expected = torch.autograd.grad(truth, list(leaves.values()), upstream)
    network = Network(model, shape)
    packing = LivePacking({name: tuple(p.shape) for name, p in model.named_parameters()}, network.crops)
    x = torch.cat([values.flatten(1) for values in own.values()], 1)
    packed, gradient = x.new_full((2, models, packing.size), torch.nan)
    packing.pack(x, packed)
    outputs, kept = network.forward(packing.parameters(packed), images.movedim(1, -1).contiguous())
    back = upstream.to(dtype).transpose(1, 2).contiguous()
    network.backward(packing.parameters(packed), kept, back, packing.parameters(gradient))
    whole = torch.zeros_like(x)
    packing.unpack(gradient, whole)
    gradients = whole.split_with_sizes([values[0].numel() for values in own.values()], 1)
    for ours, other in ((outputs.transpose(1, 2), truth), *zip(gradients, expected, strict=True)):
        scale = other.abs().max()
        torch.testing.assert_close(ours.double().view_as(other) / scale, other / scale, rtol=0, atol=tolerance)
    assert network.shape == (3,)


MODELS = [(Residual, (2, 9, 8)), (Steps, (2, 8, 9))]


@pytest.mark.parametrize(("model", "shape"), MODELS)
def test_outputs_and_gradients_are_those_of_every_model_alone(model: type[nn.Module], shape: tuple[int, ...]) -> None:
    assert_like_autograd(model(), shape, torch.float64, 1e-11)


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # in the thread of automatic differentiation
@pytest.mark.parametrize(("model", "shape"), MODELS)
def test_with_kernels_too(
    model: type[nn.Module],
    shape: tuple[int, ...],
    kernels: Callable[[str], ModuleType],
    device: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels("triton_columns")
    for module in (convolution, functions):
        monkeypatch.setattr(module, "has_kernels", lambda values: values.dtype == torch.float32)
    assert_like_autograd(model(), shape, torch.float32, 2e-4, device)


def test_columns_too_large_to_keep_are_unfolded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MOST_KEPT", 500)
    assert_like_autograd(Residual(), (2, 9, 8), torch.float64, 1e-11)


def test_parameters_that_are_used_twice_are_refused() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(FedamdError, match="not every parameter of it belongs to one step"):
        Network(nn.Sequential(layer, nn.ReLU(), layer), (2,))


class Peeking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs) if inputs.sum() > 0 else inputs


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Peeking(), "cannot be traced"),
        (nn.Sequential(nn.Linear(2, 2), nn.Sigmoid()), "no layer Sigmoid"),
        (
            nn.Sequential(nn.Linear(2, 4), nn.Unflatten(1, (4, 1, 1)), nn.Conv2d(4, 4, 1, groups=2)),
            "no layer Unflatten",
        ),
    ],
)
def test_what_it_cannot_run_is_said(model: nn.Module, reason: str) -> None:
    with pytest.raises(FedamdError, match=reason):
        Network(model, (2,))
