"""CIFAR in its published layouts, made small; and files that are cut off, forged or not what they are said to be."""

import os
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedamd.data import load, where
from fedamd.data.cifar import CIFAR_SETS, PIXELS
from fedamd.errors import FedamdError

FIRST = CIFAR_SETS["cifar-10"].first_labels
BATCHES = [f"data_batch_{number}" for number in range(1, 6)]


def pixels(count, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, PIXELS), dtype=np.uint8)


def binary(labels, images, coarse=False):
    columns = [np.array(labels, dtype=np.uint8)[:, None], images]
    return np.hstack([np.zeros_like(columns[0]), *columns] if coarse else columns).tobytes()


def write_binary(folder, labels=FIRST, seed=0):
    folder.mkdir(parents=True)
    for number, name in enumerate([*BATCHES, "test_batch"]):
        (folder / f"{name}.bin").write_bytes(binary(labels, pixels(len(labels), seed + number)))
    return folder


def test_the_binary_layout(bare):
    """Red of a black pixel is −0.4914/0.2470 = −1.9895; blue of a white one (1 − 0.4465)/0.2616 = 2.1158."""
    folder = write_binary(bare / "cifar-10-batches-bin")
    image = np.zeros((10, PIXELS), dtype=np.uint8)
    image[:, 2 * 1024 + 32 * 5 + 7] = 255  # blue, row 5, column 7
    (folder / "data_batch_1.bin").write_bytes(binary(FIRST, image))
    data = load("cifar-10")
    assert data.name == "CIFAR-10"
    assert data.inputs.shape == (50, 3, 32, 32)
    assert data.test_inputs.shape == (10, 3, 32, 32)
    assert data.targets.tolist() == list(FIRST) * 5
    assert data.classes == 10
    assert data.inputs[0, 0, 5, 7].item() == pytest.approx(-1.9895, abs=1e-4)
    assert data.inputs[0, 2, 5, 7].item() == pytest.approx(2.1158, abs=1e-4)
    assert where("cifar-10") == folder


def test_the_python_layout_is_the_same_data(bare, tmp_path):
    write_binary(bare / "cifar-10-batches-bin")
    folder = tmp_path / "work/data/cifar-10-batches-py"
    folder.mkdir(parents=True)
    for number, name in enumerate([*BATCHES, "test_batch"]):
        batch = {b"data": pixels(10, number), b"labels": list(FIRST), b"filenames": [b"a.png"] * 10}
        (folder / name).write_bytes(pickle.dumps(batch, 2))
    first, second = load("cifar-10"), load("cifar-10", path=str(folder))
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.test_inputs, second.test_inputs)
    assert torch.equal(first.targets, second.targets)
    assert torch.equal(load("cifar-10", path=str(folder.parent)).inputs, first.inputs)


def test_cifar_100_has_the_fine_labels(bare):
    folder = bare / "cifar-100" / "cifar-100-binary"
    folder.mkdir(parents=True)
    (folder / "train.bin").write_bytes(binary([99, 3], pixels(2), coarse=True))
    (folder / "test.bin").write_bytes(binary([7], pixels(1), coarse=True))
    data = load("cifar-100")
    assert (data.targets.tolist(), data.test_targets.tolist(), data.classes) == ([99, 3], [7], 100)
    python = bare / "cifar-100-python"
    python.mkdir()
    for name, labels in (("train", [99, 3]), ("test", [7])):
        batch = {b"data": pixels(len(labels)), b"fine_labels": labels, b"coarse_labels": labels}
        (python / name).write_bytes(pickle.dumps(batch, 2))
    assert torch.equal(load("cifar-100", path=str(python)).inputs, data.inputs)


def test_other_files_do_not_pass_for_cifar_10(bare):
    folder = write_binary(bare / "cifar-10-jpeg" / "cifar-10-batches-bin", labels=range(10))
    with pytest.raises(FedamdError, match=r"does not hold the published CIFAR-10.*the data set cifar-10-jpeg"):
        load("cifar-10", path=str(folder))
    assert load("cifar-10-jpeg").name == "CIFAR-10 (JPEG)"
    assert where("cifar-10") is None
    folder.rename(bare / "cifar-10-batches-bin")
    with pytest.raises(FedamdError, match=r"files of cifar-10-jpeg were not found"):
        load("cifar-10-jpeg")


def test_augmentation_is_an_option(bare):
    """Black is −0.4914/0.2470 in red."""
    write_binary(bare / "cifar-10-batches-bin")
    data = load("cifar-10", augment="flip-crop")
    assert data.augment.black == pytest.approx((-1.98947, -1.98029, -1.70680), abs=1e-4)
    few = torch.arange(3)
    assert torch.equal(data.training_inputs(few, None), data.inputs[:3])
    assert not torch.equal(data.training_inputs(few, few), data.inputs[:3])
    assert torch.equal(data.training_inputs(few, few), data.training_inputs(few, few))
    with pytest.raises(FedamdError, match="augment: there is no 'blur'"):
        load("cifar-10", augment="blur")


def test_not_found_says_what_to_do(bare):
    with pytest.raises(FedamdError, match=r"fedamd data fetch cifar-10(.|\n)*" + str(bare / "cifar-10")):
        load("cifar-10")
    with pytest.raises(FedamdError, match="were not found"):
        load("cifar-10", path="/nowhere")


def test_a_pipe_is_no_file(bare):
    folder = write_binary(bare / "cifar-10-batches-bin")
    (folder / "test_batch.bin").unlink()
    os.mkfifo(folder / "test_batch.bin")
    with pytest.raises(FedamdError, match="were not found"):
        load("cifar-10")


@pytest.mark.parametrize("kept", [0, 1, 3073 * 9 + 3072])
def test_a_truncated_file(bare, kept):
    path = write_binary(bare / "cifar-10-batches-bin") / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FedamdError, match=rf"data_batch_3\.bin is truncated: {kept} bytes"):
        load("cifar-10")


def test_a_file_truncated_between_two_images(bare):
    path = write_binary(bare / "cifar-10-batches-bin") / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[: 7 * (1 + PIXELS)])
    with pytest.raises(FedamdError, match=r"data_batch_3\.bin is truncated: 7 samples, where data_batch_1\.bin has 10"):
        load("cifar-10")


def test_a_label_out_of_range(bare):
    path = write_binary(bare / "cifar-10-batches-bin") / "test_batch.bin"
    path.write_bytes(binary([10], pixels(1)))
    with pytest.raises(FedamdError, match=r"test_batch\.bin holds the label 10; cifar-10 has 0 to 9"):
        load("cifar-10")


@pytest.mark.parametrize(
    ("batch", "sentence"),
    [
        ({b"data": pixels(2)}, "no list `labels` with a label for each of its 2 samples"),
        ({b"data": pixels(2), b"labels": [1]}, "no list `labels`"),
        ({b"data": pixels(2), b"labels": [1, 300]}, "no list `labels`"),
        ({b"data": pixels(2)[:, :9].copy(), b"labels": [1, 2]}, "no array `data` of 3072 bytes"),
        ({b"data": [1, 2], b"labels": [1, 2]}, "no array `data`"),
        ({b"data": os.path.join}, "was not read: it wants to use posixpath\\.join"),
    ],
)
def test_python_files_that_cannot_be(bare, batch, sentence):
    folder = bare / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*BATCHES, "test_batch"]:
        (folder / name).write_bytes(pickle.dumps(batch, 2))
    with pytest.raises(FedamdError, match=sentence):
        load("cifar-10")


@given(st.binary(max_size=4 * 3074))
def test_any_bytes_are_images_or_a_sentence(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("fuzz")
    for name in ("train.bin", "test.bin"):
        (folder / name).write_bytes(content)
    try:
        data = load("cifar-100", path=str(folder))
    except FedamdError:
        return
    assert len(data.inputs) * 3074 == len(content)
