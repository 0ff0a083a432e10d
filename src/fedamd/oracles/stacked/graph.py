"""A network that is a graph, as steps on stacks of N models: traced once by torch.fx, run by `functions`.

Taken are convolutions, group normalisation, ReLU, pooling, linear layers, flattening and sums: residual networks, and
networks like them. What the tracer cannot follow or `functions` does not know is refused with its reason.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from fedamd.errors import FedamdError
from fedamd.oracles.stacked import functions
from fedamd.oracles.stacked.convolution import Geometry

Parameters = Mapping[str, Tensor]
Step = Callable[[Parameters, list[Tensor]], Tensor]

MOST_TAPS = 256  # of a pooling window: where its maximum was is kept in a byte


@dataclass(frozen=True)
class GraphStep:
    """One step: what it reads (indices of earlier results; 0 is the input), and the last use of its result."""

    run: Step
    reads: tuple[int, ...]


class Network:
    """The steps of a model for inputs of one sample's shape. Activations are (N, *shape, B)."""

    def __init__(self, model: nn.Module, shape: tuple[int, ...]) -> None:
        self._nodes: list[GraphStep] = []
        graph = _traced(model, shape)
        numbers: dict[fx.Node, int] = {}
        modules = dict(graph.named_modules())
        self.shape: tuple[int, ...] = ()
        self.activations = 0  # numbers of one sample over all steps
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                numbers[node] = 0
            elif node.op == "output":
                self._output = numbers[node.args[0]]
                self.shape = _shape(node.args[0])
            else:
                inputs = [argument for argument in node.args if isinstance(argument, fx.Node)]
                self._nodes.append(GraphStep(_step(node, modules), tuple(numbers[each] for each in inputs)))
                numbers[node] = len(self._nodes)
                self.activations += math.prod(_shape(node))

    def __call__(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Outputs (N, *shape, B) for inputs (N, *shape, B); parameters (N, …) by name."""
        results = [inputs]
        for node in self._nodes:
            results.append(node.run(parameters, [results[index] for index in node.reads]))
        return results[self._output]


def _traced(model: nn.Module, shape: tuple[int, ...]) -> fx.GraphModule:
    first = next(model.parameters())
    try:
        graph = fx.symbolic_trace(model)
        ShapeProp(graph).propagate(torch.zeros(1, *shape, dtype=first.dtype, device=first.device))
    except Exception as error:  # whatever a model's own forward does to a tracer
        raise FedamdError(f"its computation cannot be traced ({str(error).splitlines()[0]})") from error
    return graph


def _shape(node: Any) -> tuple[int, ...]:
    """Of one sample."""
    described = node.meta.get("tensor_meta") if isinstance(node, fx.Node) else None
    shape = getattr(described, "shape", None)
    if shape is None:
        raise FedamdError(f"it has a step that gives no tensor: {node}")
    return tuple(shape[1:])


def _step(node: fx.Node, modules: Mapping[str, nn.Module]) -> Step:
    read = node.args[0]
    if node.op == "call_module" and len(node.args) == 1 and not node.kwargs:
        return _layer(modules[str(node.target)], str(node.target), _shape(read))
    if node.op in ("call_function", "call_method"):
        if node.target in (operator.add, operator.iadd, torch.add, "add", "add_") and not node.kwargs:
            if all(isinstance(argument, fx.Node) and _shape(argument) == _shape(node) for argument in node.args):
                return lambda _, inputs: inputs[0] + inputs[1]
        elif node.target in (torch.relu, nn.functional.relu, "relu", "relu_"):
            return lambda _, inputs: inputs[0].relu()
        elif node.target in (torch.flatten, "flatten") and _flattens(node):
            return lambda _, inputs: inputs[0].flatten(1, -2)
    raise FedamdError(f"it does not know the step {node.format_node()}")


def _flattens(node: fx.Node) -> bool:
    """Whether everything but the batch becomes one axis."""
    start = node.args[1] if len(node.args) > 1 else node.kwargs.get("start_dim", 0)
    end = node.args[2] if len(node.args) > 2 else node.kwargs.get("end_dim", -1)
    return (start, end) == (1, -1)


def _layer(module: nn.Module, name: str, shape: tuple[int, ...]) -> Step:
    make = _LAYERS.get(type(module))
    step = make(module, name, shape) if make else None
    if step is None:
        raise FedamdError(f"it has no layer {module} for inputs of shape {shape}")
    return step


def _convolution(module: nn.Conv2d, name: str, shape: tuple[int, ...]) -> Step | None:
    plain = module.groups == 1 and module.dilation == (1, 1) and module.padding_mode == "zeros"
    if not plain or isinstance(module.padding, str) or len(shape) != 3:
        return None
    geometry = _geometry(shape, module.out_channels, module.kernel_size, module.stride, module.padding)
    weight, bias = f"{name}.weight", f"{name}.bias"
    return lambda parameters, inputs: functions.convolution(
        inputs[0], parameters[weight], parameters.get(bias), geometry
    )


def _geometry(shape: tuple[int, ...], channels: int, kernel: Any, stride: Any, padding: Any) -> Geometry:
    def pair(sizes: Any) -> tuple[int, int]:
        return (sizes, sizes) if isinstance(sizes, int) else (int(sizes[0]), int(sizes[1]))

    return Geometry((shape[0], shape[1], shape[2]), channels, pair(kernel), pair(stride), pair(padding))


def _group_norm(module: nn.GroupNorm, name: str, shape: tuple[int, ...]) -> Step | None:
    if not module.affine or not shape:
        return None
    weight, bias, groups, epsilon = f"{name}.weight", f"{name}.bias", module.num_groups, module.eps
    return lambda parameters, inputs: functions.group_norm(
        inputs[0], parameters[weight], parameters[bias], groups, epsilon
    )


def _linear(module: nn.Linear, name: str, shape: tuple[int, ...]) -> Step | None:
    if shape != (module.in_features,):
        return None
    weight, bias = f"{name}.weight", f"{name}.bias"

    def run(parameters: Parameters, inputs: list[Tensor]) -> Tensor:
        outputs = torch.bmm(parameters[weight], inputs[0])
        return outputs + parameters[bias].unsqueeze(-1) if bias in parameters else outputs

    return run


def _max_pool(module: nn.MaxPool2d, name: str, shape: tuple[int, ...]) -> Step | None:  # noqa: ARG001
    if module.ceil_mode or module.return_indices or module.dilation not in (1, (1, 1)) or len(shape) != 3:
        return None
    geometry = _geometry(shape, shape[0], module.kernel_size, module.stride, module.padding)
    if geometry.taps > MOST_TAPS:
        return None
    return lambda _, inputs: functions.max_pool(inputs[0], geometry)


def _mean_pool(module: nn.AdaptiveAvgPool2d, name: str, shape: tuple[int, ...]) -> Step | None:  # noqa: ARG001
    if module.output_size not in (1, (1, 1)) or len(shape) != 3:
        return None
    return lambda _, inputs: inputs[0].mean((2, 3), keepdim=True)


def _flatten(module: nn.Flatten, name: str, shape: tuple[int, ...]) -> Step | None:  # noqa: ARG001
    if (module.start_dim, module.end_dim) != (1, -1):
        return None
    return lambda _, inputs: inputs[0].flatten(1, -2)


def _relu(*_: Any) -> Step:
    return lambda _, inputs: inputs[0].relu()


def _nothing(*_: Any) -> Step:
    return lambda _, inputs: inputs[0]


_LAYERS: dict[type[nn.Module], Callable[[Any, str, tuple[int, ...]], Step | None]] = {
    nn.Conv2d: _convolution,
    nn.GroupNorm: _group_norm,
    nn.Linear: _linear,
    nn.MaxPool2d: _max_pool,
    nn.AdaptiveAvgPool2d: _mean_pool,
    nn.Flatten: _flatten,
    nn.ReLU: _relu,
    nn.Identity: _nothing,
}
