import pytest
import torch

from fedamd.data import VirtualPartition, partitioner
from fedamd.data.virtual import EqualSizes
from fedamd.errors import FedamdError

MILLION = VirtualPartition(clients=10**6, samples_per_client=50, population=60_000, seed=3)


def test_sizes_are_a_sequence_of_one_number():
    sizes = MILLION.sizes
    assert (len(sizes), sizes[0], sizes[-1], sizes[999_999]) == (10**6, 50, 50, 50)
    assert sizes[10:20] == EqualSizes(50, 10)
    assert list(sizes[:3]) == [50, 50, 50]
    with pytest.raises(IndexError):
        sizes[10**6]


def test_a_stacked_question_is_many_single_ones():
    clients, positions = torch.tensor([999_999, 0]), torch.tensor([[0, 7, 49], [1, 1, 2]])
    expected = torch.stack([MILLION.samples(999_999)[positions[0]], MILLION.samples(0)[positions[1]]])
    assert torch.equal(MILLION.gather(clients, positions), expected)


def test_samples_are_spread_evenly_over_the_data_set():
    """200 000 draws over 10 samples: 20 000 each, with standard deviation √(200 000 · 0.1 · 0.9) = 134."""
    clients = VirtualPartition(clients=4000, samples_per_client=50, population=10)
    drawn = clients.gather(torch.arange(4000), torch.arange(50).expand(4000, 50))
    assert drawn.flatten().bincount().sub(20_000).abs().max() < 5 * 134


def test_clients_and_seeds_differ():
    other = VirtualPartition(10**6, 50, 60_000, seed=4)
    assert MILLION.samples(0).tolist() != MILLION.samples(1).tolist()
    assert MILLION.samples(0).tolist() != other.samples(0).tolist()
    assert MILLION.samples(5).tolist() == VirtualPartition(10**6, 50, 60_000, seed=3).samples(5).tolist()


def test_the_partitioner_takes_the_size_of_the_data_set(labelled):
    clients = partitioner("virtual", samples_per_client=7)(labelled(3, 2), 10**7, 0)
    assert len(clients) == 10**7
    assert set(clients.samples(123).tolist()) <= set(range(5))
    assert clients.sizes[9_999_999] == 7


@pytest.mark.parametrize("wrong", [{"clients": 0}, {"samples_per_client": 0}, {"population": 0}])
def test_nothing_cannot_be_shared(wrong):
    numbers = {"clients": 1, "samples_per_client": 1, "population": 1, **wrong}
    with pytest.raises(FedamdError, match=f"{next(iter(wrong))} of at least 1; got 0"):
        VirtualPartition(**numbers)
