"""The client of `run_flower.py`, in a module of its own: Ray's workers then import it once and keep its data.

(Defined in the main program it would be sent by value with every message, and its cache would be empty every time.)
"""

from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from workload import Workload, lenet5, train

app = ClientApp()
read = cache(Workload.read)


@app.train()
def fit(message: Message, context: Context) -> Message:
    """K local steps from the model in the message."""
    torch.set_num_threads(1)  # a worker has one processor
    net = lenet5()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    samples = read(message.content["config"]["data"]).clients[context.node_config["partition-id"]]
    train(net, samples)
    metrics = MetricRecord({"num-examples": len(samples[1])})
    return Message(RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics}), reply_to=message)
