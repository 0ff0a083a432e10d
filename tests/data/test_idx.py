import gzip
import struct

import pytest
import torch

from fedamd.data.idx import read_idx, read_labelled
from fedamd.errors import FedamdError

IMAGES = torch.arange(24, dtype=torch.uint8).reshape(4, 3, 2)


@pytest.mark.parametrize("name", ["images-idx3-ubyte", "images-idx3-ubyte.gz"])
def test_what_was_written_is_read(tmp_path, write_idx, name):
    assert torch.equal(read_idx(write_idx(tmp_path / name, IMAGES), 3), IMAGES)


def test_a_hand_written_file(tmp_path):
    """Two zeros, type 8, one dimension of length 3, then 7, 8, 9."""
    path = tmp_path / "labels"
    path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]))
    assert read_idx(path, 1).tolist() == [7, 8, 9]


def test_compression_is_told_by_content_not_by_name(tmp_path):
    path = tmp_path / "labels-idx1-ubyte"
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 1, 5])))
    assert read_idx(path, 1).tolist() == [5]


def test_files_longer_than_a_read_block(tmp_path, write_idx):
    values = (torch.arange(3 * 1024 * 1024) % 251).to(torch.uint8)
    assert torch.equal(read_idx(write_idx(tmp_path / "long.gz", values), 1), values)


GOOD = bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])
# without a time in its header: contents name the tests, and parallel workers must agree on the names
GZIPPED = gzip.compress(GOOD, mtime=0)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is not an IDX file: it starts with nothing"),
        (b"\0\0\x08", "is not an IDX file"),
        (b"PK\x03\x04" + GOOD, "is not an IDX file: it starts with 504b0304"),
        (b"\0\0\x07\x01" + GOOD[4:], "is not an IDX file"),
        (b"\0\0\x0d\x01" + GOOD[4:], "holds float32 values; uint8 is expected"),
        (b"\0\0\x08\x03" + GOOD[4:], "has 3 dimensions; 1 are expected"),
        (GOOD[:6], "ends inside its header"),
        (GOOD[:-1], r"truncated: shape \(3,\) needs 3 bytes, it has 2"),
        (GOOD + b"\0", "goes on after the 3 bytes"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 0]), "is empty"),
        (bytes([0, 0, 8, 1, 255, 255, 255, 255, 1]), "needs 4294967295 bytes, it has 1"),
        (GZIPPED[:-6], "gzip stream ends early"),
        (GZIPPED[:-8] + bytes(8), "cannot be read: CRC check failed"),
        (GZIPPED[:10] + b"\xff" * 20, "is corrupt"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, content, complaint):
    path = tmp_path / "bad-file"
    path.write_bytes(content)
    with pytest.raises(FedamdError, match=f"bad-file.*{complaint}"):
        read_idx(path, 1)


def test_a_missing_file(tmp_path):
    with pytest.raises(FedamdError, match="nowhere cannot be read: No such file"):
        read_idx(tmp_path / "nowhere", 1)


def test_images_and_labels_must_be_equally_many(tmp_path, write_idx):
    images = write_idx(tmp_path / "images", IMAGES)
    labels = write_idx(tmp_path / "labels", torch.zeros(5, dtype=torch.uint8))
    with pytest.raises(FedamdError, match=r"images holds 4 images and .*labels holds 5 labels"):
        read_labelled(images, labels)


def test_dimensions_are_big_endian(tmp_path):
    path = tmp_path / "wide"
    path.write_bytes(struct.pack(">HBB2I", 0, 8, 2, 1, 300) + bytes(300))
    assert read_idx(path, 2).shape == (1, 300)
