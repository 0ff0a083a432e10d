"""A residual network on stacks of models: the function and the gradients that automatic differentiation gives."""

import pytest
import torch
from torch import Tensor, nn

from fedamd.errors import FedamdError
from fedamd.oracles.stacked.graph import Network


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.GroupNorm(2, outputs)
        self.relu = nn.ReLU(inplace=True)
        self.again = nn.Conv2d(outputs, outputs, 3, 1, 1)
        self.short = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.relu(self.again(self.relu(self.norm(self.conv(images)))) + self.short(images))


class Residual(nn.Module):
    """From 9×8 images down to 1×1, where only the centre of a 3×3 kernel ever meets the image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(2, 4, (5, 3), 2, (2, 0))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Block(4, 4, 1), Block(4, 6, 2), Block(6, 8, 2))
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.last = nn.Linear(8, 3)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(torch.flatten(self.mean(self.blocks(self.pool(self.stem(images)))), 1))


def test_outputs_and_gradients_are_those_of_every_model_alone() -> None:
    torch.manual_seed(0)
    model, models, batch = Residual().double(), 3, 4
    network = Network(model, (2, 9, 8))
    own = {name: (p + torch.randn(models, *p.shape)).detach().requires_grad_() for name, p in model.named_parameters()}
    images = torch.randn(models, batch, 2, 9, 8, dtype=torch.float64)
    outputs = network(own, images.movedim(1, -1).contiguous()).transpose(1, 2)
    rows = [{name: values[n] for name, values in own.items()} for n in range(models)]
    truth = torch.stack([torch.func.functional_call(model, row, images[n]) for n, row in enumerate(rows)])
    torch.testing.assert_close(outputs, truth, rtol=0, atol=1e-12)
    upstream = torch.randn_like(truth)
    for ours, other in zip(
        torch.autograd.grad(outputs, list(own.values()), upstream),
        torch.autograd.grad(truth, list(own.values()), upstream),
        strict=True,
    ):
        torch.testing.assert_close(ours, other, rtol=1e-10, atol=1e-11)
    assert network.shape == (3,)


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
