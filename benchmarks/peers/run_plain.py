"""W as one writes it first: a loop over clients in plain PyTorch."""

import random

import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from workload import COHORT, Stopwatch, Workload, accuracy, arguments, lenet5, train

data, rounds, result = arguments()
work, net, watch = Workload.read(data), lenet5(), Stopwatch()
x = parameters_to_vector(net.parameters()).detach()
for _ in range(rounds):
    replies = []
    for client in random.sample(range(len(work.clients)), COHORT):
        vector_to_parameters(x.clone(), net.parameters())  # the parameters become views of what they are given
        train(net, work.clients[client])
        replies.append(parameters_to_vector(net.parameters()).detach())
    x = torch.stack(replies).mean(0)
    vector_to_parameters(x.clone(), net.parameters())
    watch.round_done(accuracy(net, work.test))
watch.write(result, torch.__version__)
