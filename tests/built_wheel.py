"""Finding the wheel that `make dist` has made: `from built_wheel import built_wheel`."""

from pathlib import Path

from fedamd import __version__

DIST = Path(__file__).parents[1] / "dist"


def built_wheel() -> Path | None:
    """The wheel of this version, if there is one."""
    return max(DIST.glob(f"fedamd-{__version__}-*.whl"), default=None)
