import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedamd.data import PARTITIONERS, Dataset, load, partitioner, where
from fedamd.errors import FedamdError


def classes_of(partition, data):
    return [len(set(data.targets[partition.samples(m)].tolist())) for m in range(len(partition))]


def uses_every_sample_once(partition, data):
    return sorted(partition.order.tolist()) == list(range(len(data.inputs)))


@pytest.mark.skipif(where("fashion-mnist") is None, reason="Fashion-MNIST is not installed")
def test_the_papers_partition_of_fashion_mnist():
    data = load("fashion-mnist")
    partition = partitioner("classes", classes_per_client=2)(data, 100, 7)
    assert partition.sizes == (600,) * 100
    assert classes_of(partition, data) == [2] * 100
    assert uses_every_sample_once(partition, data)
    labels = data.targets[partition.samples(0)]
    assert labels[:300].unique().numel() == 2  # a client's samples are shuffled, not class after class


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(20, 60), min_size=2, max_size=8),
    clients=st.integers(4, 20),
    k=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_classes_drops_nothing_and_gives_k_classes(counts, clients, k, seed):
    targets = torch.cat([torch.full((count,), label) for label, count in enumerate(counts)])
    data = Dataset("toy", targets.unsqueeze(1).float(), targets, targets, targets, len(counts))
    if k > len(counts) or clients * k < len(counts):
        with pytest.raises(FedamdError):
            partitioner("classes", classes_per_client=k)(data, clients, seed)
        return
    partition = partitioner("classes", classes_per_client=k)(data, clients, seed)
    assert classes_of(partition, data) == [k] * clients
    assert uses_every_sample_once(partition, data)


def test_classes_of_unequal_size_give_nearly_equal_clients():
    """1500 digits among 10 clients: 150 each on average, and no client far from it."""
    sizes = partitioner("classes")(load("digits"), 10, 0).sizes
    assert sum(sizes) == 1500
    assert max(sizes) - min(sizes) <= 10


def test_a_class_that_does_not_occur_is_not_counted(labelled):
    data = labelled(6, 0, 6)
    assert classes_of(partitioner("classes")(data, 3, 0), data) == [2, 2, 2]
    with pytest.raises(FedamdError, match="samples of 2 classes only"):
        partitioner("classes", classes_per_client=3)(data, 3, 0)


def test_iid_sizes_differ_by_at_most_one(labelled):
    data = labelled(7, 4)
    partition = partitioner("iid")(data, 4, 0)
    assert sorted(partition.sizes) == [2, 3, 3, 3]
    assert uses_every_sample_once(partition, data)
    assert partition.order.tolist() != sorted(partition.order.tolist())


def test_a_small_alpha_gives_few_classes_a_client(labelled):
    data = labelled(*[200] * 10)
    few = partitioner("dirichlet", alpha=0.02, min_size=5)(data, 20, 0)
    many = partitioner("dirichlet", alpha=100.0, min_size=5)(data, 20, 0)
    assert sum(classes_of(few, data)) < 70
    assert classes_of(many, data) == [10] * 20
    assert min(few.sizes) >= 5
    assert uses_every_sample_once(few, data)
    assert uses_every_sample_once(many, data)


@settings(max_examples=60, deadline=None)
@given(
    alpha=st.floats(1e-3, 1e6),
    clients=st.integers(1, 30),
    min_size=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_dirichlet_meets_every_possible_min_size(alpha, clients, min_size, seed):
    targets = torch.arange(60) % 3
    data = Dataset("toy", targets.unsqueeze(1).float(), targets, targets, targets, 3)
    share = partitioner("dirichlet", alpha=alpha, min_size=min_size)
    if clients * min_size > 60:
        with pytest.raises(FedamdError, match="too few"):
            share(data, clients, seed)
        return
    partition = share(data, clients, seed)
    assert min(partition.sizes) >= min_size
    assert uses_every_sample_once(partition, data)


@pytest.mark.parametrize("name", ["classes", "dirichlet", "iid", "virtual"])
def test_a_seed_decides_everything(name, labelled):
    data = labelled(30, 30, 30)

    def drawn(seed):
        clients = partitioner(name)(data, 6, seed)
        return [clients.samples(m).tolist() for m in range(6)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_the_partition_of_a_seed_never_changes(labelled):
    """Recorded once: a change here changes everybody's experiments."""
    data = labelled(4, 4, 4)
    assert partitioner("iid")(data, 3, 0).order.tolist() == [9, 2, 7, 4, 5, 11, 0, 3, 6, 10, 8, 1]
    assert partitioner("classes")(data, 3, 0).order.tolist() == [9, 11, 6, 7, 5, 3, 4, 1, 2, 0, 8, 10]


def test_the_users_own_lists(tmp_path, labelled):
    lists = [[3, 0], [1]]
    path = tmp_path / "owners.json"
    path.write_text(json.dumps(lists))
    for source in (lists, path, str(path)):
        partition = partitioner("lists", source=source)(labelled(3, 2), 2, 0)
        assert [partition.samples(m).tolist() for m in range(2)] == lists


@pytest.mark.parametrize(
    ("lists", "complaint"),
    [
        ([[0, 5], [1]], "client 0 the sample 5; they go from 0 to 4"),
        ([[0], [-1]], "client 1 the sample -1"),
        ([[0, 1], [1]], "the sample 1 to client 0 and to 1"),
        ([[0, 0], [1]], "the sample 0 to client 0 and to 0"),
        ([[0], []], "client 1 no samples"),
        ([[0]], "has 1 clients, but 2 are asked for"),
        ([[0], [1.5]], "the sample 1.5, not a whole number"),
        ([[0], [True]], "the sample True, not a whole number"),
        ([[0], ["1"]], "the sample '1', not a whole number"),
        ([[0], [10**30]], "they go from 0 to 4"),
    ],
)
def test_wrong_lists(lists, complaint, labelled, tmp_path):
    path = tmp_path / "owners.json"
    path.write_text(json.dumps(lists))
    with pytest.raises(FedamdError, match=f"the list of lists .*{complaint}"):
        partitioner("lists", source=lists)(labelled(3, 2), 2, 0)
    with pytest.raises(FedamdError, match=f"owners.json .*{complaint}"):
        partitioner("lists", source=path)(labelled(3, 2), 2, 0)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[[0], [1]", "is not JSON"),
        (b"\xff\xfe", "it is not text in UTF-8"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"0": [1]}', "must be a list of lists"),
        (b"[1, 2]", "must be a list of lists"),
    ],
)
def test_wrong_files_of_lists(content, complaint, labelled, tmp_path):
    path = tmp_path / "owners.json"
    path.write_bytes(content)
    with pytest.raises(FedamdError, match=rf"owners\.json:? {complaint}"):
        partitioner("lists", source=path)(labelled(3, 2), 2, 0)


def test_a_missing_file_of_lists(labelled, tmp_path):
    with pytest.raises(FedamdError, match=r"cannot read .*gone\.json: No such file"):
        partitioner("lists", source=tmp_path / "gone.json")(labelled(3, 2), 2, 0)


def test_natural_takes_the_data_sets_own_clients(labelled):
    data = load("quadratic", clients=3, samples=4)
    assert partitioner("natural")(data, 3, 0) is data.clients
    with pytest.raises(FedamdError, match="quadratic has 3 clients of its own, but 4 are asked for"):
        partitioner("natural")(data, 4, 0)
    with pytest.raises(FedamdError, match="toy has no clients of its own"):
        partitioner("natural")(labelled(3), 3, 0)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("dirichlet", {"alpha": 0.0}, "alpha must be above 0"),
        ("dirichlet", {"alpha": float("nan")}, "alpha must be above 0"),
        ("dirichlet", {"alpha": float("inf")}, "alpha must be above 0"),
        ("dirichlet", {"min_size": 0}, "min_size is a whole number of at least 1; got 0"),
        ("classes", {"classes_per_client": 0}, "classes_per_client is a whole number of at least 1"),
        ("classes", {"classes_per_client": 1.5}, "classes_per_client is a whole number of at least 1; got 1.5"),
        ("virtual", {"samples_per_client": 0}, "samples_per_client is a whole number of at least 1"),
        ("dirichlet", {"beta": 1}, "dirichlet has no option beta; it takes alpha, min_size"),
        ("lists", {}, "lists needs the option source"),
        ("dirichlett", {}, "no 'dirichlett' .did you mean dirichlet"),
    ],
)
def test_wrong_options_are_refused_at_once(name, options, complaint):
    with pytest.raises(FedamdError, match=complaint):
        partitioner(name, **options)


@pytest.mark.parametrize("name", ["classes", "dirichlet", "iid", "virtual"])
@pytest.mark.parametrize("clients", [0, -3])
def test_no_clients(name, clients, labelled):
    with pytest.raises(FedamdError, match="at least 1"):
        partitioner(name)(labelled(3, 3), clients, 0)


@pytest.mark.parametrize("name", ["classes", "dirichlet", "iid"])
def test_more_clients_than_samples(name, labelled):
    with pytest.raises(FedamdError, match="at most"):
        partitioner(name)(labelled(3, 3), 7, 0)


@pytest.mark.parametrize("name", ["classes", "dirichlet"])
def test_data_without_classes(name):
    with pytest.raises(FedamdError, match="quadratic has no class labels"):
        partitioner(name)(load("quadratic", clients=2), 2, 0)


@pytest.mark.parametrize("seed", [-1, 0.5, True])
def test_wrong_seeds(seed, labelled):
    with pytest.raises(FedamdError, match="a seed is a whole number"):
        partitioner("iid")(labelled(3, 3), 2, seed)


def test_the_registry_is_complete():
    assert list(PARTITIONERS) == ["auto", "classes", "dirichlet", "iid", "lists", "natural", "virtual"]


def test_owners_in_an_npz_file(labelled, tmp_path):
    np.savez(tmp_path / "owners.npz", owners=[1, 0, -1, 1])
    found = partitioner("lists", source=str(tmp_path / "owners.npz"))(labelled(2, 2), 2, 0)
    assert [found.samples(client).tolist() for client in range(2)] == [[1], [0, 3]]
    for wrong in ({"owner": [0]}, {"owners": [0.5]}, {"owners": [[0]]}):
        np.savez(tmp_path / "wrong.npz", **wrong)
        with pytest.raises(FedamdError, match="needs an array owners of whole numbers"):
            partitioner("lists", source=str(tmp_path / "wrong.npz"))(labelled(2, 2), 2, 0)
    for wrong in ([-2, 0], [10**12, 0]):
        np.savez(tmp_path / "wrong.npz", owners=wrong)
        with pytest.raises(FedamdError, match="from 0 up, or −1 for nobody"):
            partitioner("lists", source=str(tmp_path / "wrong.npz"))(labelled(2, 2), 2, 0)
    np.savez(tmp_path / "empty.npz", owners=[2, 0, 0])
    with pytest.raises(FedamdError, match="gives client 1 no samples"):
        partitioner("lists", source=str(tmp_path / "empty.npz"))(labelled(2, 2), 3, 0)
