"""W on FedLab: its standalone pipeline with the serial FedAvg trainer, K batches from memory as the loader."""

from importlib.metadata import version

import without_operators  # noqa: F401  (comes before what imports torchvision)
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.standalone import StandalonePipeline
from workload import COHORT, RATE, SMALL, Stopwatch, Workload, accuracy, arguments, batches, lenet5

data, rounds, result = arguments()
work, watch = Workload.read(data), Stopwatch()


class Loaders:
    """What a FedLab trainer asks of its data."""

    def get_dataloader(self, client, batch_size):
        assert batch_size == SMALL
        return batches(work.clients[client])


class Pipeline(StandalonePipeline):
    """FedLab leaves the evaluation to its user."""

    def evaluate(self):
        watch.round_done(accuracy(self.handler.model, work.test))


trainer = SGDSerialClientTrainer(lenet5(), len(work.clients))
trainer.setup_dataset(Loaders())
trainer.setup_optim(epochs=1, batch_size=SMALL, lr=RATE)
Pipeline(SyncServerHandler(lenet5(), rounds, COHORT / len(work.clients)), trainer).main()
watch.write(result, version("fedlab"))
