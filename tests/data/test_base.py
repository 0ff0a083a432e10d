import pytest
import torch

from fedamd.data import Clients, Dataset, Partition, VirtualPartition
from fedamd.errors import FedamdError

THREE = Partition.of([[4, 2], [7], [1, 0, 3]])


def test_a_partition_from_lists():
    assert THREE.sizes == (2, 1, 3)
    assert len(THREE) == 3
    assert [THREE.samples(m).tolist() for m in range(3)] == [[4, 2], [7], [1, 0, 3]]


def test_gather_looks_up_positions_of_many_clients():
    """Client 2 owns 1, 0, 3 and client 0 owns 4, 2: positions (2, 0) and (1, 1) are 3, 1 and 2, 2."""
    found = THREE.gather(torch.tensor([2, 0]), torch.tensor([[2, 0], [1, 1]]))
    assert found.tolist() == [[3, 1], [2, 2]]


@pytest.mark.parametrize("owned", [[], [[1], []]])
def test_a_client_without_samples_is_refused(owned):
    with pytest.raises(FedamdError, match="at least one"):
        Partition.of(owned)


@pytest.mark.parametrize("clients", [THREE, VirtualPartition(3, 2, 10)], ids=["stored", "virtual"])
def test_both_kinds_of_clients_agree_with_themselves(clients: Clients):
    for m in range(len(clients)):
        every = torch.arange(clients.sizes[m]).unsqueeze(0)
        assert torch.equal(clients.gather(torch.tensor([m]), every)[0], clients.samples(m))
    assert clients.to("cpu").samples(1).tolist() == clients.samples(1).tolist()


def test_a_data_set_changes_the_dtype_of_its_floats_only():
    inputs, labels = torch.ones(2, 3), torch.tensor([0, 1])
    moved = Dataset("toy", inputs, labels, inputs, labels, 2).to("cpu", torch.float64)
    assert moved.inputs.dtype == moved.test_inputs.dtype == torch.float64
    assert moved.targets.dtype == torch.int64
