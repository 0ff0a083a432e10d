"""What a federation trains: the model, and where server and clients find their own data.

A user's task is a function of the run's config, named in the settings as `federation.task = "package.module:function"`:

    def task(config):
        return FederatedTask(model=Net, classes=10, local_data=read_my_files, test_data=read_the_test_set)

`local_data` is called on a client's machine only and `test_data` on the server's only; what they return is never sent.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedamd import models
from fedamd.data.base import Dataset
from fedamd.errors import FedamdError
from fedamd.flower.app.settings import FederationSettings
from fedamd.oracles.hidden_state import refuse_hidden_state
from fedamd.registry import import_object
from fedamd.runs.config import Config
from fedamd.runs.experiment import load_data, seeded_model, share_out

CLIENTS_ENGINE = "loop"  # a client of a federation is one
Samples = tuple[Tensor, Tensor]  # inputs (n, *shape) and targets (n,)


@dataclass(frozen=True)
class FederatedTask:
    """A model and its data. The loss is the model's own method `loss(outputs, targets) → (n,)` if it has one, else
    softmax cross-entropy where there are classes, else half the squared error."""

    model: Callable[[], nn.Module]
    local_data: Callable[[int], Samples]  # client number 0 … M−1 → its own samples
    test_data: Callable[[], Samples] | None = None  # without it nothing is evaluated
    classes: int = 0  # 0 where targets are not class labels
    augment: Callable[[Tensor, Tensor], Tensor] | None = None  # as a `Dataset` has it

    def client_dataset(self, config: Config, client: int, device: str) -> Dataset:
        """The client's own samples, and nothing else."""
        inputs, targets = self.local_data(client)
        if not len(inputs) or len(inputs) != len(targets):
            raise FedamdError(
                f"local_data({client}) gave {len(inputs)} inputs and {len(targets)} targets: "
                "a client needs at least one sample, and a target for each"
            )
        data = Dataset(f"client {client}", inputs, targets, inputs[:0], targets[:0], self.classes, augment=self.augment)
        return data.to(device, getattr(torch, config.dtype))

    def server_dataset(self, config: Config) -> Dataset:
        """The test samples alone, if there are any."""
        inputs, targets = self.test_data() if self.test_data else (torch.empty(0), torch.empty(0))
        data = Dataset("test", inputs[:0], targets[:0], inputs, targets, self.classes)
        return data.to(config.device, getattr(torch, config.dtype))

    def build_model(self, config: Config, device: str) -> nn.Module:
        """The model, its initial weights drawn from the run's seed alone."""
        model = seeded_model(config, self.model).to(device, getattr(torch, config.dtype))
        refuse_hidden_state(model)
        return model


def load_task(config: Config, settings: FederationSettings) -> FederatedTask:
    """The task the settings name."""
    task = import_object(settings.task, "federation.task")(config)
    if not isinstance(task, FederatedTask):
        raise FedamdError(f"federation.task: {settings.task} returned a {type(task).__name__}, not a FederatedTask")
    return task


def from_config(config: Config) -> FederatedTask:
    """The data and the model the config names, every client taking its part: for trying a federation out."""

    def local_data(client: int) -> Samples:
        data = load_data(config)
        samples = share_out(config, data).samples(client)
        return data.inputs[samples], data.targets[samples]

    def test_data() -> Samples:
        data = load_data(config)
        return data.test_inputs, data.test_targets

    def model() -> nn.Module:
        return models.build(config.model.name, load_data(config), **config.model.options)

    data = load_data(config)
    return FederatedTask(model, local_data, test_data, data.classes, data.augment)
