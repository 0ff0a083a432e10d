"""A network that is a graph, as steps on stacks of N models: traced once by torch.fx, run by `functions`.

Taken are convolutions, group normalisation, ReLU, pooling, linear layers, flattening and sums: residual networks, and
networks like them. What the tracer cannot follow or `functions` does not know is refused with its reason.
"""

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from fedamd.errors import FedamdError
from fedamd.oracles.stacked import functions
from fedamd.oracles.stacked.convolution import Geometry
from fedamd.oracles.stacked.functions import Back, GraphLayer, Parameters

Modules = Mapping[str, nn.Module]

_SHAPE = "shape"  # of a node's result


@dataclass(frozen=True)
class GraphStep:
    """A layer, what it reads (numbers of earlier results; 0 is the input), and whether that depends on parameters."""

    layer: GraphLayer
    reads: tuple[int, ...]
    wanted: bool

    @property
    def depends(self) -> bool:
        """Whether its own result does."""
        return self.wanted or bool(self.layer.names)


class Network:
    """The steps of a model for inputs of one sample's shape. Activations are (N, *shape, B)."""

    def __init__(self, model: nn.Module, shape: tuple[int, ...]) -> None:
        graph = _traced(model, shape)
        modules = dict(graph.named_modules())
        absorbed = _absorbed(graph.graph, modules)
        inner = set(absorbed.values())
        numbers: dict[fx.Node, int] = {}
        self._steps: list[GraphStep] = []
        self.shape: tuple[int, ...] = ()
        for node in graph.graph.nodes:
            if node.op == "placeholder":
                numbers[node] = 0
            elif node.op == "output":
                self._output = numbers[node.args[0]]
                self.shape = _shape(node.args[0])
            elif _kind(node, modules) is nn.Identity:
                numbers[node] = numbers[node.args[0]]
            elif node not in inner:
                layer, inputs = _fused(node, modules, absorbed)
                reads = tuple(numbers[each] for each in inputs)
                wanted = any(self._steps[number - 1].depends for number in reads if number)
                self._steps.append(GraphStep(layer, reads, wanted))
                numbers[node] = len(self._steps)
        self.crops = {
            layer.weight: layer.geometry
            for layer in (step.layer for step in self._steps)
            if isinstance(layer, functions.Convolution) and layer.geometry.live_kernel != layer.geometry.kernel
        }  # the convolutions that see the live taps of their weights alone
        used = [name for step in self._steps for name in step.layer.names]
        if sorted(used) != sorted(name for name, _ in model.named_parameters()):
            raise FedamdError("not every parameter of it belongs to one step")

    def forward(self, parameters: Parameters, inputs: Tensor) -> tuple[Tensor, list[Any]]:
        """Outputs (N, *shape, B) for inputs (N, *shape, B), live parameters (N, …) by name; what `backward` needs."""
        results, kept = [inputs], []
        for step in self._steps:
            outputs, needed = step.layer.forward(parameters, [results[number] for number in step.reads])
            results.append(outputs)
            kept.append(needed)
        return results[self._output], kept

    def backward(self, parameters: Parameters, kept: list[Any], upstream: Tensor, gradients: Parameters) -> None:
        """Fill in the gradients with respect to the parameters; `kept` is used up."""
        waiting = {self._output: upstream}
        for number, step in reversed(list(enumerate(self._steps, start=1))):
            needed = kept.pop()
            if not step.depends:
                continue
            so_far = waiting.get(step.reads[0])
            back = Back(waiting.pop(number), needed, parameters, gradients, so_far, step.wanted)
            for place, gradient in enumerate(step.layer.backward(back)):
                read = step.reads[place]
                waiting[read] = gradient + waiting[read] if place and read in waiting else gradient


class _Shapes(fx.Interpreter):
    """Notes the shape of every result. (The library's own way imports hundreds of modules for it.)"""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        n.meta[_SHAPE] = tuple(result.shape) if isinstance(result, Tensor) else None
        return result


def _traced(model: nn.Module, shape: tuple[int, ...]) -> fx.GraphModule:
    """With the shape of every result, from one sample on the CPU: a GPU's libraries would be loaded for nothing."""
    try:
        graph = fx.symbolic_trace(copy.deepcopy(model).cpu())
        graph.graph.eliminate_dead_code()
        with torch.no_grad():
            dtype = next(graph.parameters()).dtype
            _Shapes(graph).run(torch.zeros(1, *shape, dtype=dtype, device="cpu"))
    except Exception as error:  # whatever a model's own forward does to a tracer
        raise FedamdError(f"its computation cannot be traced ({str(error).splitlines()[0]})") from error
    return graph


def _shape(node: Any) -> tuple[int, ...]:
    """Of one sample."""
    shape = node.meta.get(_SHAPE) if isinstance(node, fx.Node) else None
    if shape is None:
        raise FedamdError(f"it has a step that gives no tensor: {node}")
    return tuple(shape[1:])


def _module(node: fx.Node, modules: Modules) -> nn.Module | None:
    """That the node is a call of."""
    return modules[str(node.target)] if node.op == "call_module" else None


def _kind(node: fx.Node, modules: Modules) -> type:
    return type(_module(node, modules))


def _is_relu(node: fx.Node, modules: Modules) -> bool:
    known = node.target in (torch.relu, nn.functional.relu, "relu", "relu_")
    return _kind(node, modules) is nn.ReLU or (node.op in ("call_function", "call_method") and known)


def _is_sum(node: fx.Node) -> bool:
    known = node.target in (operator.add, operator.iadd, torch.add, "add", "add_") and not node.kwargs
    alike = [isinstance(argument, fx.Node) and _shape(argument) == _shape(node) for argument in node.args]
    return node.op in ("call_function", "call_method") and known and alike == [True, True]


def _absorbed(graph: fx.Graph, modules: Modules) -> dict[fx.Node, fx.Node]:
    """For sums and ReLU the step before that they can be one with: a normalisation, or its sum, that only they read."""
    absorbed: dict[fx.Node, fx.Node] = {}

    def is_norm(node: Any) -> bool:
        return isinstance(node, fx.Node) and _kind(node, modules) is nn.GroupNorm and len(node.users) == 1

    for node in graph.nodes:
        if _is_sum(node) and node.args[0] is not node.args[1]:
            if norms := [argument for argument in node.args if is_norm(argument)]:
                absorbed[node] = norms[0]
        elif _is_relu(node, modules):
            read = node.args[0]
            if is_norm(read) or (read in absorbed and len(read.users) == 1):
                absorbed[node] = read
    return absorbed


def _fused(
    node: fx.Node, modules: Modules, absorbed: Mapping[fx.Node, fx.Node]
) -> tuple[GraphLayer, Sequence[fx.Node]]:
    """The layer of a step together with those it absorbs, and what that reads."""
    if node not in absorbed:
        return _layer(node, modules), [argument for argument in node.args if isinstance(argument, fx.Node)]
    before = absorbed[node]
    layer, inputs = _fused(before, modules, absorbed)
    assert isinstance(layer, functions.GroupNorm)
    if _is_sum(node):
        (other,) = (argument for argument in node.all_input_nodes if argument is not before)
        return replace(layer, added=True), [*inputs, other]
    return replace(layer, rectified=True), inputs


def _layer(node: fx.Node, modules: Modules) -> GraphLayer:
    if _is_relu(node, modules):
        return functions.Rectifier()
    if _is_sum(node):
        return functions.Add()
    module = _module(node, modules)
    if module is None and node.target in (torch.flatten, "flatten") and _flattens(node):
        return functions.Flattening()
    if module is None or len(node.args) != 1 or node.kwargs:
        raise FedamdError(f"it does not know the step {node.format_node()}")
    make, shape = _LAYERS.get(type(module)), _shape(node.args[0])
    layer = make(module, str(node.target), shape) if make else None
    if layer is None:
        raise FedamdError(f"it has no layer {module} for inputs of shape {shape}")
    return layer


def _flattens(node: fx.Node) -> bool:
    """Whether everything but the batch becomes one axis."""
    start = node.args[1] if len(node.args) > 1 else node.kwargs.get("start_dim", 0)
    end = node.args[2] if len(node.args) > 2 else node.kwargs.get("end_dim", -1)
    return (start, end) == (1, -1)


def _names(module: nn.Module, name: str) -> tuple[str, str | None]:
    return f"{name}.weight", None if module.bias is None else f"{name}.bias"


def _convolution(module: nn.Conv2d, name: str, shape: tuple[int, ...]) -> GraphLayer | None:
    plain = module.groups == 1 and module.dilation == (1, 1) and module.padding_mode == "zeros"
    if not plain or isinstance(module.padding, str) or len(shape) != 3:
        return None
    geometry = _geometry(shape, module.out_channels, module.kernel_size, module.stride, module.padding)
    return functions.Convolution(*_names(module, name), geometry)


def _geometry(shape: tuple[int, ...], channels: int, kernel: Any, stride: Any, padding: Any) -> Geometry:
    def pair(sizes: Any) -> tuple[int, int]:
        return (sizes, sizes) if isinstance(sizes, int) else (int(sizes[0]), int(sizes[1]))

    return Geometry((shape[0], shape[1], shape[2]), channels, pair(kernel), pair(stride), pair(padding))


def _group_norm(module: nn.GroupNorm, name: str, shape: tuple[int, ...]) -> GraphLayer | None:
    if not module.affine or not shape:
        return None
    return functions.GroupNorm(f"{name}.weight", f"{name}.bias", module.num_groups, module.eps)


def _linear(module: nn.Linear, name: str, shape: tuple[int, ...]) -> GraphLayer | None:
    return functions.Affine(*_names(module, name)) if shape == (module.in_features,) else None


def _max_pool(module: nn.MaxPool2d, name: str, shape: tuple[int, ...]) -> GraphLayer | None:  # noqa: ARG001
    if module.ceil_mode or module.return_indices or module.dilation not in (1, (1, 1)) or len(shape) != 3:
        return None
    geometry = _geometry(shape, shape[0], module.kernel_size, module.stride, module.padding)
    return functions.WindowMaxima(geometry) if geometry.taps <= functions.MOST_TAPS else None


def _mean_pool(module: nn.AdaptiveAvgPool2d, name: str, shape: tuple[int, ...]) -> GraphLayer | None:  # noqa: ARG001
    return functions.MeanPool() if module.output_size in (1, (1, 1)) and len(shape) == 3 else None


def _flatten(module: nn.Flatten, name: str, shape: tuple[int, ...]) -> GraphLayer | None:  # noqa: ARG001
    return functions.Flattening() if (module.start_dim, module.end_dim) == (1, -1) else None


_LAYERS: dict[type[nn.Module], Callable[[Any, str, tuple[int, ...]], GraphLayer | None]] = {
    nn.Conv2d: _convolution,
    nn.GroupNorm: _group_norm,
    nn.Linear: _linear,
    nn.MaxPool2d: _max_pool,
    nn.AdaptiveAvgPool2d: _mean_pool,
    nn.Flatten: _flatten,
}
