"""Data as people have it becomes a `Dataset`: the same samples in every form, and a sentence for every mistake."""

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import IterableDataset, Subset, TensorDataset

from fedamd.data import Dataset, Partition
from fedamd.data.checks import check_given
from fedamd.errors import FedamdError

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = np.array([0, 1, 0, 1, 2, 2], dtype=np.int32)
TEST = (X[:2], Y[:2])


def same(data: Dataset) -> bool:
    return torch.equal(data.inputs, torch.from_numpy(X)) and data.targets.tolist() == Y.tolist() and data.classes == 3


class Pairs(TorchDataset):
    """A data set as PyTorch's users write them."""

    def __len__(self):
        return len(X)

    def __getitem__(self, index):
        return torch.from_numpy(X[index]), int(Y[index])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(Pairs()[index] for index in range(len(X)))


@pytest.mark.parametrize(
    "given",
    [
        (X, Y),
        (X.tolist(), Y.tolist()),
        (torch.from_numpy(X), torch.from_numpy(Y)),
        (X.astype(np.float16), Y.astype(np.uint8)),
        (X.astype(">f4"), Y.astype(">i2")),
        (X.astype(np.int64), Y),
        (X, Y.astype(object)),
    ],
    ids=["numpy", "lists", "tensors", "half and bytes", "big-endian", "whole numbers", "objects"],
)
def test_arrays_of_every_kind_are_the_same_data(given):
    assert same(Dataset.of(*given, test=TEST))
    assert same(Dataset.of(given, test=TEST))


@pytest.mark.parametrize(
    "make",
    [
        Pairs,
        Stream,
        lambda: TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
        lambda: Subset(Pairs(), range(6)),
    ],
)
def test_torch_data_sets(make):
    assert same(Dataset.of(make(), test=make()))


def test_pictures_are_channels_first_and_scaled():
    Image = pytest.importorskip("PIL.Image")

    class Pictures(TorchDataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return Image.fromarray(np.full((2, 4, 3), [255, 0, 51], dtype=np.uint8)), index % 2

    data = Dataset.of(Pictures(), test=Pictures())
    assert data.inputs.shape == (3, 3, 2, 4)
    assert data.inputs[0, :, 1, 3].tolist() == pytest.approx([1, 0, 0.2])


def test_bytes_are_pixels():
    data = Dataset.of(np.array([[0], [255]], dtype=np.uint8), [0, 1], test=(np.array([[51]], dtype=np.uint8), [1]))
    assert data.inputs.flatten().tolist() == [0, 1]
    assert data.test_inputs.item() == pytest.approx(0.2)


def test_tokens_stay_whole():
    data = Dataset.of(np.array([[3, 4], [5, 6]], dtype=np.int16), [0, 1], test=([[7, 8]], [0]), tokens=True)
    assert data.inputs.dtype == torch.int64
    with pytest.raises(FedamdError, match="said to hold tokens"):
        Dataset.of(X, Y, tokens=True)


def test_pandas_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": X[:, 0], "label": list("xyxyzz"), "b": X[:, 1], "site": list("nsnsns")})
    data = Dataset.of(frame, target="label", client="site", test=frame)
    assert same(data)
    assert data.class_names == ("x", "y", "z")
    assert data.client_names == ("n", "s")
    assert [data.clients.samples(client).tolist() for client in range(2)] == [[0, 2, 4], [1, 3, 5]]
    assert data.client_tests.owners.tolist() == [0, 1, 0, 1, 0, 1]
    only = Dataset.of(frame, target="label", columns=["b"], test=frame)
    assert only.inputs.flatten().tolist() == X[:, 1].tolist()
    with pytest.raises(FedamdError, match="column 'site' holds 'n', and inputs are numbers"):
        Dataset.of(frame, target="label")
    with pytest.raises(FedamdError, match="no column 'lable'; it has a, label, b, site"):
        Dataset.of(frame, target="lable")
    with pytest.raises(FedamdError, match="say which column is the target"):
        Dataset.of(frame)


def test_hugging_face_data_sets():
    datasets = pytest.importorskip("datasets")
    wide = datasets.Dataset.from_dict({"vector": X.tolist(), "label": Y.tolist(), "writer": [0, 0, 0, 1, 1, 1]})
    data = Dataset.of(wide, target="label", client="writer", test=wide)
    assert same(data)
    assert data.clients.sizes == (3, 3)
    table = datasets.Dataset.from_dict({"a": X[:, 0], "b": X[:, 1], "label": Y})
    assert same(Dataset.of(table, target="label", test=table))


def test_labels_that_are_not_0_to_c_are_numbered_and_keep_their_names():
    data = Dataset.of(X, [7, 3, 7, 3, 9, 9], test=(X[:1], [9]))
    assert data.targets.tolist() == [1, 0, 1, 0, 2, 2]
    assert data.test_targets.tolist() == [2]
    assert data.class_names == ("3", "7", "9")


def test_a_label_seen_in_the_test_alone_is_a_class():
    assert Dataset.of(X, ["a"] * 6, test=(X[:1], ["b"])).class_names == ("a", "b")


def test_classes_can_be_said():
    assert Dataset.of(X, [0, 0, 0, 1, 1, 3], test=TEST, classes=5).classes == 5
    assert Dataset.of(X, [0.0, 0, 0, 1, 1, 3], test=TEST, classes=5).targets.dtype == torch.int64
    assert Dataset.of(X, Y, test=TEST, classes=0).targets.dtype == torch.float32
    assert Dataset.of(X, Y / 2, test=TEST).classes == 0
    for wrong, sentence in ((2, "holds the label 2; with classes = 2 they go from 0 to 1"), (-1, "with classes = -1")):
        with pytest.raises(FedamdError, match=sentence):
            Dataset.of(X, Y, test=TEST, classes=wrong)
    with pytest.raises(FedamdError, match="not whole numbers"):
        Dataset.of(X, Y + 0.5, test=TEST, classes=3)


def test_who_owns_what_by_owner_or_by_list():
    by_owner = Dataset.of(X, Y, clients=["b", "a", "b", "a", "b", "b"], test=TEST)
    assert by_owner.client_names == ("a", "b")
    assert by_owner.clients.sizes == (2, 4)
    by_list = Dataset.of(X, Y, clients=[[5, 1], [0, 2]], test=TEST)
    assert [sorted(by_list.clients.samples(client).tolist()) for client in range(2)] == [[1, 5], [0, 2]]
    assert by_list.client_tests is None


@pytest.mark.parametrize(
    ("clients", "sentence"),
    [
        ([[0, 1], []], "client 1 has no samples"),
        ([[0, 1], [1]], "sample 1 is given to client 0 and to 1"),
        ([[0, 6]], "given the sample 6; samples are 0 to 5"),
        ([[0, 1.5]], "given the sample 0.0; samples are 0 to 5"),
        ([0, 1], "6 inputs, 6 targets, 2 owners"),
    ],
)
def test_owners_that_cannot_be(clients, sentence):
    with pytest.raises(FedamdError, match=sentence):
        Dataset.of(X, Y, clients=clients, test=TEST)


def test_a_share_is_held_out_of_every_client():
    """Of 4, 10 and 1 samples a fifth is 0.8, 2 and 0.2 samples: 1, 2 and none."""
    owners = np.repeat([0, 1, 2], [4, 10, 1])
    inputs = np.arange(15, dtype=np.float32).reshape(15, 1)
    data = Dataset.of(inputs, owners % 2, clients=owners)
    assert data.clients.sizes == (3, 8, 1)
    assert torch.bincount(data.client_tests.owners, minlength=3).tolist() == [1, 2, 0]
    everything = torch.cat([data.inputs, data.test_inputs]).flatten()
    assert everything.sort().values.tolist() == list(range(15))
    assert data.client_tests.inputs is data.test_inputs
    for client, sample in zip(data.client_tests.owners, data.client_tests.inputs, strict=True):
        assert owners[int(sample)] == client
    again, other = (Dataset.of(inputs, owners % 2, clients=owners, test_seed=seed) for seed in (0, 1))
    assert torch.equal(again.inputs, data.inputs)
    assert not torch.equal(other.inputs, data.inputs)


@pytest.mark.parametrize(
    ("share", "sentence"), [(0, "above 0 and below 1"), (1.0, "above 0"), (True, "above 0"), (0.01, "no test samples")]
)
def test_shares_that_cannot_be(share, sentence):
    with pytest.raises(FedamdError, match=sentence):
        Dataset.of(X, Y, test_share=share)


def test_one_part_a_client():
    parts = {"north": (X[:4], Y[:4]), "south": (X[4:], Y[4:])}
    data = Dataset.of_clients(parts, tests={"south": (X[:1], Y[:1])})
    assert same(data)
    assert data.client_names == ("north", "south")
    assert data.clients.sizes == (4, 2)
    assert data.client_tests.owners.tolist() == [1]
    listed = Dataset.of_clients([Pairs(), (X, Y)], test=TEST)
    assert listed.clients.sizes == (6, 6)
    assert listed.client_names == ()
    assert listed.client_tests is None
    assert Dataset.of_clients([Pairs(), (X, Y)], test_share=0.5).clients.sizes == (3, 3)


@pytest.mark.parametrize(
    ("parts", "options", "sentence"),
    [
        ([], {}, "one part a client is expected"),
        ([(X, Y), (X[:0], Y[:0])], {}, "client 1 has no samples"),
        ([(X, Y), (X[:, :1], Y)], {}, r"client 1 has samples of shape \(1,\); those of the first are \(2,\)"),
        ([(X, Y), (X, Y[:3])], {}, "6 inputs, 3 targets"),
        ([(X, Y)], {"tests": {3: TEST}}, "client 3 has test samples but no training samples"),
        ([(X, Y)], {"tests": [TEST], "test": TEST}, "not both"),
        ([(X, Y)], {"tests": [TEST], "test_share": 0.1}, "leave one of them out"),
        ([3], {}, "client 0 is a int; it should be a pair"),
    ],
)
def test_parts_that_cannot_be(parts, options, sentence):
    with pytest.raises(FedamdError, match=sentence):
        Dataset.of_clients(parts, **options)


BAD = np.array([[1.0, np.nan], [2, 3]])


@pytest.mark.parametrize(
    ("data", "targets", "sentence"),
    [
        (BAD, [0, 1], "the input of training sample 0 is not finite; 1 of 2"),
        (X, [0.5, np.inf, 0, 0, 0, 0], "the target of training sample 1 is not finite"),
        (X, Y[:4], "6 inputs, 4 targets"),
        (X[:0], Y[:0], "there are no training samples"),
        ([[1, 2], [3]], [0, 1], "rows have different lengths"),
        ([["a"], ["b"]], [0, 1], "inputs are numbers"),
        ([[1.0], [None]], [0, 1], "value 1 is missing"),
        (X * 1j, Y, "complex"),
        (X, [None] * 6, "value 0 is missing"),
        (X, ["a", 1, "b", 2, "c", 3], None),
        (X, [{}] * 6, "values of the types dict"),
        (np.zeros((6, 0), dtype=np.float32), Y, "which holds nothing"),
        (5, None, "is a int; it should be a pair"),
    ],
)
def test_what_cannot_be_data(data, targets, sentence):
    if sentence is None:  # numpy itself makes words of all
        assert Dataset.of(data, targets, test_share=0.5).class_names == ("1", "2", "3", "a", "b", "c")
        return
    with pytest.raises(FedamdError, match=sentence):
        Dataset.of(data, targets, test=(X[:1], Y[:1]) if data is X else None)


def test_test_samples_must_be_like_the_training_samples():
    with pytest.raises(FedamdError, match=r"float32 of shape \(2,\) and test inputs float32 of shape \(1,\)"):
        Dataset.of(X, Y, test=(X[:, :1], Y))
    with pytest.raises(FedamdError, match="words in one and numbers in the other"):
        Dataset.of(X, Y, test=(X, list("abcabc")))


def test_the_constructor_takes_tensors_and_any_whole_labels():
    inputs = torch.from_numpy(X)
    data = Dataset("own", inputs, torch.from_numpy(Y), inputs, torch.from_numpy(Y).to(torch.uint8), 3)
    assert data.targets.dtype == data.test_targets.dtype == torch.int64
    with pytest.raises(FedamdError, match=r"inputs=….* is a ndarray, not a tensor; Dataset.of"):
        Dataset("own", X, Y, X, Y, 3)


def test_clients_tests_move_with_the_data():
    data = Dataset.of(X, Y, clients=[0, 0, 0, 1, 1, 1], test_share=0.4).to("cpu", torch.float64)
    assert data.client_tests.inputs.dtype == torch.float64
    assert data.client_tests.inputs is data.test_inputs
    assert isinstance(data.clients, Partition)


def test_a_data_set_made_by_hand_is_checked_when_it_is_run(caplog):
    """What does not fit is refused; numbers that are not finite are warned of, and the run rejects what they do."""
    inputs, labels = torch.from_numpy(X), torch.from_numpy(Y)
    for wrong, sentence in (
        (Dataset("own", inputs, labels[:5], inputs, labels, 3), "6 training inputs and 5 targets"),
        (Dataset("own", inputs, labels, inputs[:0], labels[:0], 3), "no test samples; give test"),
        (Dataset("own", inputs, labels, inputs, labels, 2), "has the label 2; with 2 classes"),
        (Dataset("own", inputs, labels.float(), inputs, labels.float(), 3), "targets are labels 0 to 2, not"),
        (Dataset("own", inputs, labels, inputs, labels, 3, Partition.of([[0], [6]])), "outside 0 to 5: 6"),
    ):
        with pytest.raises(FedamdError, match=sentence):
            check_given(wrong)
    check_given(Dataset("own", torch.from_numpy(BAD), labels[:2], inputs.double(), labels, 3))
    assert "the input of training sample 0 is not finite" in caplog.text
