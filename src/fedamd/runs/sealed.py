"""Texts that tell whether they are as they were written: each carries a checksum of itself.

JSON files have it as their last key, TOML files in a last comment, and every line of metrics has one of itself and of
all lines before it, so that no line can be altered, lost or exchanged unnoticed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.files import read_text

FORMAT, CHECK = "format", "check"
_COMMENT = "# check: "
_LIMIT = 64 << 20  # bytes of a JSON file that describes a run


def digest(*texts: str) -> str:
    """Sixteen hex digits."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def sealed_json(content: Mapping[str, Any]) -> str:
    """An object as a JSON file."""
    plain = {key: value for key, value in content.items() if key not in (FORMAT, CHECK)} | {FORMAT: 2}
    return json.dumps(plain | {CHECK: digest(json.dumps(plain))}, indent=2) + "\n"


def read_json(path: Path, *needed: str) -> dict[str, Any]:
    """The object in a file, which has at least the needed keys and is as it was written."""
    text = read_text(path, _LIMIT)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise FedamdError(f"{path} is not valid JSON") from None
    if not isinstance(content, dict) or not content.keys() >= set(needed):
        raise FedamdError(f"{path} is damaged: it should hold {' and '.join(needed) or 'keys and values'}")
    if (FORMAT in content or CHECK in content) and text != sealed_json(content):
        raise FedamdError(f"{path} is damaged: it is not as it was written")
    return {key: value for key, value in content.items() if key != CHECK}


def sealed_toml(text: str) -> str:
    """A TOML file with its checksum."""
    return f"{text}{_COMMENT}{digest(text)}\n"


def is_sealed_toml(text: str) -> bool:
    """Whether it has a checksum, and a right one."""
    content, found, _ = text.rpartition(_COMMENT)
    return bool(found) and text == sealed_toml(content)


class Chain:
    """The lines of metrics one after the other, each with a checksum of all up to it.

    Lines of format 1 carry none; their chain is told by checkpoints alone.
    """

    def __init__(self, sealed: bool = True) -> None:
        self.value = ""
        self._sealed = sealed

    def line(self, record: Mapping[str, Any]) -> str:
        """The record as the next line."""
        text = json.dumps(record)
        self.value = digest(self.value, text)
        return json.dumps({**record, CHECK: self.value}) if self._sealed else text

    def read(self, line: str) -> dict[str, Any]:
        """The record in the next line; a `ValueError` says what is wrong with it."""
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError("not valid JSON") from None
        if not isinstance(content, dict):
            raise ValueError("not the record of a round")
        if not self._sealed:
            self.value = digest(self.value, line)
            return content
        record = {key: value for key, value in content.items() if key != CHECK}
        if line != (following := self._copy()).line(record):
            raise ValueError("not as it was written, or not the line that came next")
        self.value = following.value
        return record

    def _copy(self) -> "Chain":
        other = Chain(self._sealed)
        other.value = self.value
        return other
