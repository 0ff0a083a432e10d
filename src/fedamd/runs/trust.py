"""Whose code a folder names. A run may name a user's objects ("package.module:object"), and importing them runs code.

A folder that was made by this user carries a signature with a key that only this user can read; the code that any other
folder names is run when the user says so (`--trust`), and never by commands that only look.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedamd.errors import FedamdError
from fedamd.files import sync_folder
from fedamd.registry import is_object_path
from fedamd.runs.sealed import read_json

_LENGTH = 32  # bytes of a key


def own_code(settings: Mapping[str, Any]) -> list[str]:
    """The users' objects that a config names."""
    return sorted(set(_paths(settings)))


def signature(settings: Mapping[str, Any], modules: Sequence[str]) -> str:
    """That this user runs this code, found in these folders; empty where there is none, or no place for a key."""
    code = own_code(settings)
    key = _key() if code else b""
    return hmac.new(key, json.dumps([code, list(modules)]).encode(), hashlib.sha256).hexdigest() if key else ""


def refuse_foreign_code(path: Path, settings: Mapping[str, Any], told: Mapping[str, Any]) -> None:
    """The code that a folder names must have been this user's own choice; `told` is its environment."""
    if not (code := own_code(settings)):
        return
    modules = told.get("modules", [])
    expected = signature(settings, modules if isinstance(modules, list) else [])
    if not expected or not hmac.compare_digest(expected.encode(), str(told.get("signature", "")).encode()):
        raise FedamdError(
            f"{path} was made elsewhere and names code of its own ({', '.join(code)}), which resuming would run: "
            "look at that code, then say --trust (in Python: trust=True), or take the config to a folder of your own"
        )


def refuse_code_of_a_foreign_run(config: Path, settings: Mapping[str, Any]) -> None:
    """The same for a config file that lies in the folder of a run."""
    environment = config.with_name("environment.json")
    if environment.exists():
        refuse_foreign_code(config.parent, settings, read_json(environment))


def _paths(value: Any) -> Iterator[str]:
    if isinstance(value, str) and is_object_path(value):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _paths(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _paths(one)


def _key() -> bytes:
    """This user's key, made when it is first needed; empty where it cannot be kept."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "fedamd" / "key"
    try:
        if not path.exists() or path.stat().st_size != _LENGTH:
            _make_key(path)
        return path.read_bytes()
    except OSError:
        return b""


def _make_key(path: Path) -> None:
    """All of it at once: of several processes that need one, the first makes it and the others take that."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".key.{os.getpid()}.part")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(secrets.token_bytes(_LENGTH))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(new, path)
    except FileExistsError:
        if path.stat().st_size != _LENGTH:  # cut short by a crash: what it signed cannot be told any more
            new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    sync_folder(path.parent)
