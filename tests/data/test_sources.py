import pytest
import torch

from fedamd.data import SOURCES, load, where
from fedamd.data.locate import IDX_SETS
from fedamd.errors import FedamdError

FASHION = where("fashion-mnist")


def place(folder, write_idx, name, images, labels, test_labels=None):
    train_images, train_labels, test_images, last = IDX_SETS[name].stems()
    write_idx(folder / f"{train_images}-idx3-ubyte.gz", images)
    write_idx(folder / f"{train_labels}-idx1-ubyte.gz", labels)
    write_idx(folder / f"{test_images}-idx3-ubyte.gz", images)
    write_idx(folder / f"{last}-idx1-ubyte.gz", labels if test_labels is None else test_labels)


def corner_image():
    """Black but for one white pixel in row 2, column 5."""
    image = torch.zeros(1, 28, 28, dtype=torch.uint8)
    image[0, 2, 5] = 255
    return image


LABEL = torch.tensor([3], dtype=torch.uint8)


def test_images_are_normalised_with_the_papers_numbers(bare, write_idx):
    """White is (1 − 0.1307)/0.3081 = 2.8215, black is −0.1307/0.3081 = −0.4242."""
    place(bare / "mnist", write_idx, "mnist", corner_image(), LABEL)
    data = load("mnist")
    assert data.inputs.shape == data.test_inputs.shape == (1, 1, 28, 28)
    assert data.inputs.dtype == torch.float32
    assert data.inputs[0, 0, 2, 5].item() == pytest.approx(2.8215, abs=1e-4)
    assert data.inputs[0, 0, 5, 2].item() == pytest.approx(-0.4242, abs=1e-4)
    assert data.targets.tolist() == [3]
    assert data.targets.dtype == torch.int64
    assert data.classes == 10


def test_emnist_images_are_turned_upright(bare, write_idx):
    place(bare, write_idx, "emnist-digits", corner_image(), LABEL)
    image = load("emnist-digits").inputs[0, 0]
    assert image[5, 2] > 2
    assert image[2, 5] < 0


def test_not_found_says_where_it_looked_and_what_to_do(bare):
    with pytest.raises(FedamdError) as caught:
        load("fashion-mnist")
    message = str(caught.value)
    assert "fedamd data fetch fashion-mnist" in message
    assert "dataset-fashion-mnist" in message
    assert "FEDAMD_DATA" in message
    assert str(bare / "fashion-mnist") in message


def test_a_label_out_of_range(bare, write_idx):
    place(bare, write_idx, "mnist", corner_image(), LABEL, test_labels=torch.tensor([10], dtype=torch.uint8))
    with pytest.raises(FedamdError, match=r"t10k-labels.* holds the label 10; mnist has 0 to 9"):
        load("mnist")


def test_images_of_another_size(bare, write_idx):
    place(bare, write_idx, "mnist", torch.zeros(1, 8, 8, dtype=torch.uint8), LABEL)
    with pytest.raises(FedamdError, match=r"train-images.*images of \(8, 8\) pixels"):
        load("mnist")


@pytest.mark.skipif(FASHION is None, reason="Fashion-MNIST is not installed")
def test_fashion_mnist_does_not_pass_for_mnist(monkeypatch):
    monkeypatch.setenv("FEDAMD_DATA", str(FASHION))
    with pytest.raises(FedamdError, match="belongs to fashion-mnist, not to mnist"):
        load("mnist")


@pytest.mark.skipif(FASHION is None, reason="Fashion-MNIST is not installed")
def test_fashion_mnist_is_what_the_registry_says():
    data = load("fashion-mnist")
    assert data.inputs.shape == (60_000, 1, 28, 28)
    assert data.test_inputs.shape == (10_000, 1, 28, 28)
    assert data.targets.bincount().tolist() == [6000] * 10
    assert data.test_targets.bincount().tolist() == [1000] * 10


def test_digits_are_split_by_class_and_standardised():
    data = load("digits")
    assert (len(data.inputs), len(data.test_inputs)) == (SOURCES["digits"].train, SOURCES["digits"].test)
    assert data.inputs.shape[1:] == SOURCES["digits"].shape
    shares = data.test_targets.bincount() / (data.targets.bincount() + data.test_targets.bincount())
    assert shares.sub(297 / 1797).abs().max() < 1 / 150  # one sample of a class is worth about 1/178
    assert data.inputs.mean().item() == pytest.approx(0, abs=1e-5)
    assert data.inputs.std().item() == pytest.approx(1, abs=1e-5)


def test_digits_are_always_split_the_same_way():
    first, second = load("digits"), load("digits")
    assert torch.equal(first.test_inputs, second.test_inputs)
    assert torch.equal(first.targets, second.targets)


def test_synthetic_problems_take_options():
    data = load("quadratic", clients=3, samples=2, dimension=4)
    assert data.inputs.shape == (6, 2, 4)
    assert load("logistic", clients=3, samples=2, dimension=4).inputs.shape == (6, 4)


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("fashon-mnist", {}, "no 'fashon-mnist' .did you mean fashion-mnist.*; there are digits,"),
        ("zzz", {}, "there are digits, fashion-mnist, .*, quadratic, logistic, or your own"),
        ("digits", {"clients": 3}, "digits has no option clients; it takes none"),
        ("fashion-mnist", {"root": "here"}, "fashion-mnist has no option root; it takes none"),
        ("quadratic", {"dim": 3}, "quadratic has no option dim; it takes clients, samples, dimension, mu, L"),
    ],
)
def test_wrong_names_and_options(name, options, complaint):
    with pytest.raises(FedamdError, match=complaint):
        load(name, **options)


def test_where_knows_no_folder_for_computed_data():
    assert where("digits") is None
    assert where("quadratic") is None
    with pytest.raises(FedamdError, match=r"did you mean digits\?"):
        where("digit")
