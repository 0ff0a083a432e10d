"""Configs as TOML text: reading a file with its mistakes in words, and writing plain values."""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.files import refuse_special

LIMIT = 1 << 20  # bytes of a config
DEEPEST = 100  # parts of a key: the time for a key grows with the square of them


def read_toml(path: Path) -> dict[str, Any]:
    try:
        if not path.is_dir():
            refuse_special(path)
        if path.stat().st_size > LIMIT:
            raise FedamdError(f"{path} is larger than {LIMIT >> 20} MB, and a config is a short text")
        text = path.read_text(encoding="utf-8")
        if any(key.count(".") > DEEPEST for key in re.split(r"[=,\n]", text)):
            raise FedamdError(f"{path} has keys of more than {DEEPEST} parts")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise FedamdError(f"there is no config file {path}") from None
    except IsADirectoryError:
        raise FedamdError(f"cannot read {path}: it is a folder, and a config is a TOML file") from None
    except OSError as error:
        raise FedamdError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FedamdError(f"cannot read {path}: it is not text in UTF-8") from None
    except FedamdError:
        raise
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and endless nesting
        raise FedamdError(f"{path} is not valid TOML: {error}") from None


def to_toml(plain: Mapping[str, Any]) -> str:
    """The config as TOML: numbers and words first, then the sections."""
    lines = [f"{key} = {_value(value)}" for key, value in plain.items() if not isinstance(value, Mapping)]
    for key, section in plain.items():
        if isinstance(section, Mapping):
            lines += ["", f"[{key}]", *(f"{_key(name)} = {_value(value)}" for name, value in section.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    """JSON writes words and finite numbers as TOML does; tables and what lies in them it does not."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)} = {_value(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
