"""Pictures in folders named for their classes, as torchvision's ImageFolder has them; needs Pillow."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedamd.data.adapters import Samples, input_tensor
from fedamd.data.assemble import assembled
from fedamd.data.base import Dataset
from fedamd.errors import FedamdError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".webp")


def read_pictures(
    path: str,  # the folder the pictures are in
    size: int | None = None,  # the side that pictures are scaled to
    test_share: float | None = None,  # of every class, kept for the test where there is no folder test
) -> Dataset:
    """`path`/train/CLASS/*.png and `path`/test/CLASS/*.png; or `path`/CLASS/*.png, of which a share is held out.

    All pictures have one size, or are brought to `size` × `size` pixels. Colours are 0 … 1.
    """
    top = Path(path)
    if not top.is_dir():
        raise FedamdError(f"there is no folder {top}")
    test = next((top / name for name in ("test", "val") if (top / name).is_dir()), None)
    if (top / "train").is_dir() and test is not None:
        return assembled(top.name, _samples(top / "train", size), _samples(test, size), test_share, 0, None)
    return assembled(top.name, _samples(top, size), None, test_share, 0, None)


def _samples(folder: Path, size: int | None) -> Samples:
    files = [
        (file, kind.name)
        for kind in sorted(folder.iterdir())
        if kind.is_dir()
        for file in sorted(kind.rglob("*"))
        if file.suffix.lower() in ENDINGS and file.is_file()
    ]
    if not files:
        raise FedamdError(f"{folder} has no folders of pictures ({', '.join(ENDINGS)})")
    pixels = [_pixels(file, size) for file, _ in files]
    for (file, _), one in zip(files, pixels, strict=True):
        if one.shape != pixels[0].shape:
            raise FedamdError(
                f"{file} is {one.shape[1]} × {one.shape[0]} pixels, and {files[0][0]} is {pixels[0].shape[1]} × "
                f"{pixels[0].shape[0]}; all must be of one size: say which, as in size = 32"
            )
    inputs = input_tensor(np.stack(pixels), str(folder)).permute(0, 3, 1, 2).contiguous()
    return Samples(torch.as_tensor(inputs), np.array([kind for _, kind in files]))


def _pixels(file: Path, size: int | None) -> Any:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise FedamdError("pictures are read with Pillow: pip install pillow") from error
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 4096):
        raise FedamdError(f"size is a whole number of pixels, at least 1 and at most 4096; got {size!r}")
    try:
        with Image.open(file) as opened:
            picture = opened.convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError) as error:
        raise FedamdError(f"{file} cannot be read as a picture: {error}") from None
    return np.asarray(picture if size is None else picture.resize((size, size), Image.Resampling.BILINEAR))
