"""What data is: a data set in memory, and a partition that says which client owns which samples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from fedamd import draw
from fedamd.errors import FedamdError

_AUGMENT = 0  # which of a sample's draws is its augmentation's; those of dropout are numbered from 1


@dataclass(frozen=True)
class Constants:
    """What is known exactly about a synthetic problem, in the paper's symbols (§4), for uniform client weights."""

    L: float  # smoothness of every F_m
    mu: float  # strong convexity (hence PL) of F
    sigma: float  # σ: per-sample gradient noise, E‖∇f(x; z) − ∇F_m(x)‖² ≤ σ² for every client at the optimum
    L_sigma: float  # average smoothness of the per-sample gradients around ∇F_m
    optimum: Tensor  # x*, the minimiser of F
    minimum: float  # F*


@dataclass(frozen=True)
class ClientTests:
    """Test samples that belong to clients: sample i is one of client `owners[i]`, or of nobody where that is −1."""

    inputs: Tensor  # (t, *shape)
    targets: Tensor  # (t,)
    owners: Tensor  # (t,), int64


@dataclass(frozen=True)
class Dataset:
    """Training and test samples as tensors; `classes` is 0 where targets are not class labels.

    `Dataset.of` and `Dataset.of_clients` make one from arrays, frames, files and other libraries' data sets.
    """

    name: str
    inputs: Tensor  # (n, *shape), float
    targets: Tensor  # (n,), int64 labels (or float)
    test_inputs: Tensor
    test_targets: Tensor
    classes: int
    clients: "Partition | None" = None  # who owns what, where the data set itself says so (synthetic problems)
    constants: Constants | None = None
    class_names: tuple[str, ...] = ()  # what the labels 0, 1, … stand for, where that is known
    client_names: tuple[str, ...] = ()  # what the clients 0, 1, … are called, where they have names
    client_tests: ClientTests | None = None  # the clients' own test samples, where they have any
    augment: Callable[[Tensor, Tensor], Tensor] | None = None  # training inputs, and a random word for each → inputs

    def __post_init__(self) -> None:
        for field_name in ("inputs", "targets", "test_inputs", "test_targets"):
            values = getattr(self, field_name)
            if not isinstance(values, Tensor):
                raise FedamdError(
                    f"Dataset({field_name}=…) is a {type(values).__name__}, not a tensor; Dataset.of(…) takes arrays, "
                    "lists, frames, files and other data sets"
                )
            if field_name.endswith("targets") and not values.is_floating_point():
                object.__setattr__(self, field_name, values.long())

    @classmethod
    def of(cls, data: Any, targets: Any = None, **options: Any) -> "Dataset":
        """From data in the usual forms: see `fedamd.data.assemble.dataset_of` for all options.

        >>> Dataset.of(X, y, test=(X_test, y_test), clients=sites)
        >>> Dataset.of("patients.csv", target="outcome", client="hospital", test_share=0.2)
        """
        from fedamd.data.assemble import dataset_of

        return dataset_of(data, targets, **options)

    @classmethod
    def of_clients(cls, parts: Any, **options: Any) -> "Dataset":
        """From one part per client, as a list or by name: see `fedamd.data.assemble.dataset_of_clients`.

        >>> Dataset.of_clients({"north": (X_n, y_n), "south": (X_s, y_s)}, tests={"north": (X_t, y_t)}, test_share=0.1)
        """
        from fedamd.data.assemble import dataset_of_clients

        return dataset_of_clients(parts, **options)

    def training_inputs(self, samples: Tensor, keys: Tensor | None) -> Tensor:
        """The inputs (*n, *shape) of these samples (*n,); augmented, if that is asked for and they have keys (*n,)."""
        inputs = self.inputs[samples]
        return inputs if self.augment is None or keys is None else self.augment(inputs, draw.keys(keys, _AUGMENT))

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> "Dataset":
        """The same data on another device, floating-point tensors in `dtype`."""

        def move(values: Tensor) -> Tensor:
            return values.to(device, dtype if values.is_floating_point() else None)

        test_inputs, test_targets, tests = move(self.test_inputs), move(self.test_targets), self.client_tests
        if tests is not None:
            # what they share with the test set has one copy afterwards, too
            inputs = test_inputs if tests.inputs is self.test_inputs else move(tests.inputs)
            targets = test_targets if tests.targets is self.test_targets else move(tests.targets)
            tests = ClientTests(inputs, targets, tests.owners.to(device))
        return replace(
            self,
            inputs=move(self.inputs),
            targets=move(self.targets),
            test_inputs=test_inputs,
            test_targets=test_targets,
            client_tests=tests,
        )


class Clients(Protocol):
    """D_1 … D_M as engines use them: how many samples a client has, and which."""

    @property
    def sizes(self) -> Sequence[int]:
        """n_1 … n_M."""
        ...

    def __len__(self) -> int:
        """M."""
        ...

    def samples(self, client: int) -> Tensor:
        """The sample numbers client m owns."""
        ...

    def gather(self, clients: Tensor, positions: Tensor) -> Tensor:
        """The sample numbers (N, B) at `positions` (N, B) of the lists of `clients` (N,), on the tensors' device.

        Positions lie in 0 … n_m − 1; this is the inner loop, so they are not checked.
        """
        ...

    def to(self, device: torch.device | str) -> Self:
        """The same clients, answering on another device."""
        ...


def _sample_numbers(samples: Sequence[int] | Tensor, client: int) -> Tensor:
    """As int64; what is not a whole number, or negative, is not a sample number."""
    numbers = torch.as_tensor(samples)
    if numbers.dtype in (torch.bool,) or numbers.is_floating_point() or numbers.is_complex():
        if numbers.numel():
            raise FedamdError(f"client {client} is given sample numbers that are not whole numbers ({numbers.dtype})")
        numbers = numbers.to(torch.int64)
    if numbers.dim() != 1 or (numbers.numel() and int(numbers.min()) < 0):
        raise FedamdError(f"client {client} needs one list of sample numbers from 0 on")
    return numbers.to(torch.int64)


@dataclass(frozen=True)
class Partition:
    """D_1 … D_M: client m owns the samples `order[offsets[m] : offsets[m + 1]]`."""

    order: Tensor  # int64, sample numbers, client after client
    offsets: Tensor  # int64, (M + 1,)
    sizes: tuple[int, ...] = field(init=False)  # n_m, on the host

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.offsets.diff().tolist()))
        if not self.sizes or min(self.sizes) < 1:
            raise FedamdError("a partition needs at least one client, and every client at least one sample")

    @classmethod
    def of(cls, owned: Sequence[Sequence[int] | Tensor]) -> "Partition":
        """From one list of sample numbers per client."""
        lists = [_sample_numbers(samples, client) for client, samples in enumerate(owned)]
        offsets = torch.zeros(len(lists) + 1, dtype=torch.int64)
        if lists:
            offsets[1:] = torch.tensor([len(samples) for samples in lists]).cumsum(0)
        order = torch.cat(lists) if lists else torch.empty(0, dtype=torch.int64)
        ascending = order.sort().values
        if len(twice := ascending[1:][ascending.diff() == 0]):
            raise FedamdError(f"the sample {int(twice[0])} is given twice; it belongs to one client")
        return cls(order, offsets)

    def __len__(self) -> int:
        """M."""
        return len(self.sizes)

    def samples(self, client: int) -> Tensor:
        """The sample numbers client m owns."""
        return self.order[self.offsets[client] : self.offsets[client + 1]]

    def gather(self, clients: Tensor, positions: Tensor) -> Tensor:
        """The sample numbers (N, B) at `positions` (N, B) of the lists of `clients` (N,)."""
        return self.order[self.offsets[clients].unsqueeze(-1) + positions]

    def to(self, device: torch.device | str) -> "Partition":
        """The same partition on another device."""
        return Partition(self.order.to(device), self.offsets.to(device))
