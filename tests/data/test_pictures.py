"""Pictures in folders named for their classes."""

import numpy as np
import pytest

from fedamd.data import load
from fedamd.errors import FedamdError

Image = pytest.importorskip("PIL.Image")


def draw(path, colour, width=4, height=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((height, width, 3), colour, dtype=np.uint8)).save(path)


def test_train_and_test_folders(tmp_path):
    draw(tmp_path / "train/cat/1.png", (255, 0, 0))
    draw(tmp_path / "train/dog/1.png", (0, 255, 0))
    draw(tmp_path / "test/dog/9.PNG", (0, 0, 255))
    (tmp_path / "train/cat/notes.txt").write_text("not a picture")
    data = load("pictures", path=str(tmp_path))
    assert data.inputs.shape == (2, 3, 2, 4)
    assert data.class_names == ("cat", "dog")
    assert data.inputs[0, :, 1, 3].tolist() == [1, 0, 0]
    assert data.test_targets.tolist() == [1]
    assert load("pictures", path=str(tmp_path), size=5).inputs.shape == (2, 3, 5, 5)


def test_a_share_is_held_out_where_there_is_no_test_folder(tmp_path):
    for number in range(10):
        draw(tmp_path / f"{'ab'[number % 2]}/{number}.png", number)
    data = load("pictures", path=str(tmp_path), test_share=0.3)
    assert (len(data.inputs), len(data.test_inputs)) == (7, 3)


def test_what_cannot_be(tmp_path):
    with pytest.raises(FedamdError, match="there is no folder"):
        load("pictures", path=str(tmp_path / "none"))
    with pytest.raises(FedamdError, match="has no folders of pictures"):
        load("pictures", path=str(tmp_path))
    draw(tmp_path / "a/1.png", 1)
    draw(tmp_path / "b/2.png", 1, width=3)
    with pytest.raises(FedamdError, match=r"2\.png is 3 × 2 pixels, and .*1\.png is 4 × 2; all must be"):
        load("pictures", path=str(tmp_path))
    with pytest.raises(FedamdError, match="size is a whole number of pixels"):
        load("pictures", path=str(tmp_path), size=0)
    (tmp_path / "a/1.png").write_bytes((tmp_path / "a/1.png").read_bytes()[:40])
    with pytest.raises(FedamdError, match=r"1\.png cannot be read as a picture"):
        load("pictures", path=str(tmp_path))
