"""W on pfl: FederatedAveraging on the simulated backend in one process, its own batching and central evaluation."""

from importlib.metadata import version

import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
from workload import COHORT, EVALUATED_AT_ONCE, RATE, SMALL, Stopwatch, Workload, arguments, lenet5

data, rounds, result = arguments()
work, watch = Workload.read(data), Stopwatch()


class Net(nn.Module):
    """LeNet-5 with the two methods pfl asks for."""

    def __init__(self):
        super().__init__()
        self.layers = lenet5()

    def loss(self, images, labels):
        return F.cross_entropy(self.layers(images), labels)

    @torch.no_grad()
    def metrics(self, images, labels):
        right = int((self.layers(images).argmax(-1) == labels).sum())
        return {"accuracy": Weighted(right, len(labels))}


class Evaluation(CentralEvaluationCallback):
    """pfl's own, with the clock read at its end; pfl does not evaluate after its first iteration."""

    def after_central_iteration(self, aggregate_metrics: Metrics, model, *, central_iteration):
        stop, metrics = super().after_central_iteration(aggregate_metrics, model, central_iteration=central_iteration)
        if central_iteration > 0:
            watch.round_done(metrics.to_simple_dict(to_lowercase=True)["central val | accuracy"])
        return stop, metrics


callbacks: list[TrainingProcessCallback] = [Evaluation(Dataset(work.test), NNEvalHyperParams(EVALUATED_AT_ONCE))]
net = Net()
users = dict(enumerate(work.clients))
federated = FederatedDataset.from_slices(users, get_user_sampler("minimize_reuse", list(users)))
FederatedAveraging().run(
    NNAlgorithmParams(
        central_num_iterations=rounds + 1, evaluation_frequency=rounds + 1, train_cohort_size=COHORT, val_cohort_size=0
    ),
    SimulatedBackend(federated, federated),
    PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0)),
    NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=SMALL),
    callbacks=callbacks,
    send_metrics_to_platform=False,
)
watch.write(result, version("pfl"))
