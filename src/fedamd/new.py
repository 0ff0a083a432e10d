"""Makes a small project of one's own: data from a CSV, a model, a method, a config and a test that run as they are."""

import re
from pathlib import Path

from fedamd.errors import FedamdError

TEMPLATE = Path(__file__).parent / "template"
NAME = re.compile(r"[A-Za-z][\w-]*")


def new_project(folder: Path) -> list[Path]:
    """Write the project into a new folder; returns its files."""
    if not NAME.fullmatch(folder.name):
        raise FedamdError(f"new: '{folder.name}' cannot name a project: use letters, digits, - and _, a letter first")
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise FedamdError(f"new: {folder} exists already; give another name") from None
    sources = sorted(path for path in TEMPLATE.iterdir() if path.is_file())
    return [_write(source, folder / source.name, folder.name) for source in sources]


def _write(source: Path, to: Path, name: str) -> Path:
    text = source.read_text(encoding="utf-8")
    to.write_text(text.replace("# NAME", f"# {name}") if to.name == "README.md" else text, encoding="utf-8")
    return to
