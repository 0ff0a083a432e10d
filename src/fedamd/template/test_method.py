"""The method against what it must be: FedAvg where nothing is clipped, and short steps where everything is."""

import torch
from own_data import patients
from own_method import Clipped
from own_model import network
from torch import Tensor

import fedamd
from fedamd.algorithms import Algorithm, FedAvg


def after_one_round(algorithm: Algorithm | None) -> Tensor:
    torch.manual_seed(0)
    data = patients()
    model = network(data)
    if algorithm is not None:
        model = fedamd.run(dataset=data, model=model, algorithm=algorithm, rounds=1, cohort=4).model
    return torch.nn.utils.parameters_to_vector(model.parameters())


def test_without_clipping_it_is_fedavg() -> None:
    ours = after_one_round(Clipped(eta_l=0.1, clip=1e9, steps=5, batch=16))
    theirs = after_one_round(FedAvg(eta_l=0.1, eta_s=1.0, steps=5, small_batch=16))
    assert torch.allclose(ours, theirs)


def test_no_update_is_longer_than_the_clip() -> None:
    moved = after_one_round(Clipped(clip=0.01)) - after_one_round(None)
    assert 0 < moved.norm() <= 0.01 + 1e-6
