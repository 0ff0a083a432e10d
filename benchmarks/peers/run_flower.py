"""W on Flower: FedAvg in its simulation on Ray, one worker a processor, the global model evaluated by the server."""

import os
from importlib.metadata import version

from flower_client import app as client_app
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from workload import COHORT, Stopwatch, Workload, accuracy, arguments, lenet5

data, rounds, result = arguments()
work, watch = Workload.read(data), Stopwatch()
server_app = ServerApp()


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    net = lenet5()
    net.load_state_dict(arrays.to_torch_state_dict())
    share = accuracy(net, work.test)
    if server_round:  # round 0 is the start
        watch.round_done(share)
    return MetricRecord({"accuracy": share})


@server_app.main()
def main(grid, _context):
    clients = len(work.clients)
    strategy = FedAvg(fraction_train=COHORT / clients, fraction_evaluate=0.0, min_available_nodes=clients)
    start, config = ArrayRecord(lenet5().state_dict()), ConfigRecord({"data": data})
    strategy.start(grid, start, num_rounds=rounds, train_config=config, evaluate_fn=evaluate)


processors = len(os.sched_getaffinity(0))
run_simulation(
    server_app,
    client_app,
    num_supernodes=len(work.clients),
    backend_config={"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": processors}},
)
watch.write(result, version("flwr"))
