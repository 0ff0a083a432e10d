"""W on fluke: CentralizedFL (which is FedAvg) with objects in memory, its own loaders and evaluator."""

from importlib.metadata import version

import without_operators  # noqa: F401  (comes before what imports torchvision)
from fluke import DDict, FlukeENV
from fluke.algorithms import CentralizedFL
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.evaluation import ClassificationEval
from fluke.utils import FederationObserver
from torch.nn import CrossEntropyLoss
from torchmetrics import Accuracy
from workload import COHORT, EVALUATED_AT_ONCE, RATE, SMALL, Stopwatch, Workload, arguments, lenet5

CLASSES = 10
data, rounds, result = arguments()
work, watch = Workload.read(data), Stopwatch()


class Watch(FederationObserver):
    """Told of every evaluation of the global model, and of the end of every round."""

    def server_evaluation(self, evals, **_):
        self._accuracy = float(evals["accuracy"])

    def end_round(self, **_):
        watch.round_done(self._accuracy)


def loader(samples, size, shuffle):
    return FastDataLoader(*samples, num_labels=CLASSES, batch_size=size, shuffle=shuffle)


environment = FlukeENV()
environment.set_seed(0)
environment.set_device("cpu")
environment.set_inmemory(True)
environment.set_evaluator(
    ClassificationEval(1, CLASSES, accuracy=Accuracy(task="multiclass", num_classes=CLASSES))  # it alone, not seven
)
container = DummyDataContainer(
    [loader(samples, SMALL, True) for samples in work.clients],
    [None] * len(work.clients),
    loader(work.test, EVALUATED_AT_ONCE, False),
    CLASSES,
)
client = {
    "batch_size": SMALL,
    "local_epochs": 1,
    "loss": CrossEntropyLoss,
    "optimizer": {"name": "SGD", "lr": RATE},
    "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1.0},
}
algorithm = CentralizedFL(
    len(work.clients), DataSplitter(container), DDict(client=client, server={"weighted": True}, model=lenet5())
)
algorithm.set_callbacks(Watch())
algorithm.run(rounds, COHORT / len(work.clients))
watch.write(result, version("fluke-fl"))
