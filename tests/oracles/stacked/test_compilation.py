"""Kernels are compiled beforehand by calls that must fit them."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

from fedamd.oracles.stacked import compilation, convolution, products
from fedamd.oracles.stacked.layers import Flatten, Layer, LinearLayer, ReLU, Saved

Kernels = Callable[[str], ModuleType]


def test_every_call_fits(kernels: Kernels, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels("triton_columns")
    monkeypatch.setattr(compilation, "THREADS", 1)  # Triton's interpreter is for one thread
    rows = torch.ones(3, 1, 2, 2, device=device)
    assert compilation.compile_graph_kernels(rows, 3).wait() == []
    assert compilation.compile_sample_kernels(rows, 3, 5).wait() == []


def test_every_layer_is_called_both_ways(kernels: Kernels, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with what its kernels take: in the first layer with parameters there is no gradient to pass back."""
    conv, linear = kernels("triton_convolution"), kernels("triton_product")
    monkeypatch.setattr(compilation, "THREADS", 1)
    called: list[str] = []
    for module, name in (
        (kernels("triton_samples"), "gather"),
        (kernels("triton_samples"), "cross_entropy"),
        (conv, "forward"),
        (conv, "weight_gradient"),
        (conv, "input_gradient"),
        (linear, "product"),
    ):
        monkeypatch.setattr(module, name, _recorded(name, getattr(module, name), called))
    for user in (convolution, products):
        monkeypatch.setattr(user, "has_kernels", lambda values: values.dtype == torch.float32)
    blocks = [convolution.ConvReLUPool(convolution.Geometry(image, 2, (2, 2))) for image in ((1, 8, 7), (2, 3, 3))]
    layers: list[Layer] = [*blocks, Flatten((2,)), LinearLayer(2, 3), ReLU((3,))]
    rows = torch.ones(4, 1, 8, 7, device=device)
    assert compilation.compile_layer_kernels(layers, rows, {5: True}).wait() == []
    blocks_first = ["forward", "forward", "input_gradient", "weight_gradient", "weight_gradient"]
    assert called == [*blocks_first, "product", "product", "product", "cross_entropy", "gather"]
    called.clear()
    assert compilation.compile_layer_kernels(layers, rows, {5: False, 6: False}).wait() == []
    assert called == [*4 * ["forward"], *2 * ["product"], *2 * ["cross_entropy"], *2 * ["gather"]]


class Failing(Flatten):
    def forward(self, parameters: Tensor, inputs: Tensor) -> tuple[Tensor, Saved]:
        raise RuntimeError(f"not with {len(parameters)} models on {inputs.shape}")


def test_what_goes_wrong_is_returned(kernels: Kernels, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: nobody looks at a gradient before the first parameters."""
    kernels("triton_samples")
    monkeypatch.setattr(compilation, "THREADS", 1)
    layers: list[Layer] = [Failing((4,)), LinearLayer(4, 3)]
    compiled = compilation.compile_layer_kernels(layers, torch.ones(4, 1, 2, 2, device=device), {5: True})
    (error,) = compiled.wait()
    assert str(error) == "not with 1 models on torch.Size([1, 1, 2, 2, 5])"


def _recorded(name: str, function: Callable[..., object], called: list[str]) -> Callable[..., object]:
    def call(*arguments: object, **options: object) -> object:
        called.append(name)
        return function(*arguments, **options)

    return call
