"""A residual network on stacks of models: the function and the gradients that automatic differentiation gives."""

import pytest
import torch
from torch import Tensor, nn

from fedamd.errors import FedamdError
from fedamd.oracles.stacked.graph import Network
from residual import Residual


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
