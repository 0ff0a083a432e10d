import pytest
import torch

from fedamd.data import where
from fedamd.data.locate import IDX_SETS, find, folders
from fedamd.errors import FedamdError

ONE = torch.zeros(1, dtype=torch.uint8)


def place(folder, write_idx, name="mnist", mark="-", end=".gz", parts=4):
    for stem in IDX_SETS[name].stems()[:parts]:
        dimensions = 3 if stem.endswith("images") else 1
        write_idx(folder / f"{stem}{mark}idx{dimensions}-ubyte{end}", ONE.reshape([1] * dimensions))
    return folder


@pytest.mark.usefixtures("bare")
def test_no_files_anywhere():
    assert find("mnist") is None
    assert where("mnist") is None


@pytest.mark.parametrize(
    "place_at",
    [
        "data/mnist",
        "data",
        "cache/fedamd/mnist",
        "data/MNIST/raw",
        "work/data/MNIST/raw",
        "cache/torchvision/MNIST/raw",
        "debian/mnist",
    ],
)
def test_every_place_is_searched(bare, write_idx, place_at):
    folder = place(bare.parent / place_at, write_idx)
    assert where("mnist").resolve() == folder


def test_the_users_folder_comes_before_the_cache(bare, write_idx):
    place(bare.parent / "cache/fedamd/mnist", write_idx)
    place(bare.parent / "data/mnist", write_idx)
    assert where("mnist") == bare / "mnist"


def test_a_folder_without_all_four_files_is_passed_over(bare, write_idx):
    place(bare / "mnist", write_idx, parts=3)
    complete = place(bare.parent / "cache/fedamd/mnist", write_idx)
    assert where("mnist") == complete


@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_the_names_unpackers_give(bare, write_idx, mark, end):
    place(bare / "mnist", write_idx, mark=mark, end=end)
    assert find("mnist").test_labels.name == f"t10k-labels{mark}idx1-ubyte{end}"


def test_emnist_has_names_of_its_own(bare, write_idx):
    place(bare, write_idx, "mnist")
    assert find("emnist-digits") is None
    place(bare, write_idx, "emnist-digits")
    assert find("emnist-digits").test_images.name == "emnist-digits-test-images-idx3-ubyte.gz"


def test_without_a_cache_variable_the_cache_is_in_the_home_folder(bare, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("FEDAMD_DATA")
    assert folders("mnist")[0] == bare.parent / "home/.cache/fedamd/mnist"


def test_a_data_folder_that_is_none(bare, monkeypatch):
    monkeypatch.setenv("FEDAMD_DATA", str(bare / "missing"))
    with pytest.raises(FedamdError, match=r"FEDAMD_DATA names .*missing, which is not a folder"):
        where("mnist")
