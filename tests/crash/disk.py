"""A disk after a power cut: from what a process did, every state that could be found when the power comes back.

Certain is only what was synced: a file's bytes when the file was, its name when its folder was. Of the rest, any part
may be there: writes lost, torn or out of order, names without the bytes, bytes without the names.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HEAD = struct.Struct("6l")
Tree = dict[str, bytes | None]  # path below the root → content, or None for a folder


@dataclass
class Op:
    kind: str  # c(reate) w(rite) t(runcate) s(ync) r(ename) u(nlink) d(irectory) m(ark)
    inode: int
    offset: int
    path: str
    other: str
    data: bytes


def read_journal(content: bytes, root: str) -> list[Op]:
    """What the shim wrote down, paths relative to the root."""
    ops, at = [], 0
    while at < len(content):
        kind, inode, offset, n_path, n_other, n_data = HEAD.unpack_from(content, at)
        at += HEAD.size
        parts = []
        for n in (n_path, n_other, n_data):
            parts.append(content[at : at + n])
            at += n
        path, other = (part.decode().removeprefix(root).strip("/") for part in parts[:2])
        if not path.endswith("-shm"):  # SQLite's shared memory: never read again after a crash
            ops.append(Op(chr(kind), inode, offset, path, other, parts[2]))
    return ops


@dataclass
class File:
    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # (offset, data), or None to cut there

    def content(self, chosen: list[tuple[int, bytes | None]]) -> bytes:
        content = bytearray(self.synced)
        for offset, data in chosen:
            if data is None:
                content = content[:offset].ljust(offset, b"\0")
            else:
                content = content.ljust(offset, b"\0")
                content[offset : offset + len(data)] = data
        return bytes(content)


class Disk:
    """The disk as it goes through the operations one by one."""

    def __init__(self) -> None:
        self.files: dict[int, File] = {}
        self._by_inode: dict[int, int] = {}
        self._names: dict[str, int | None] = {}  # as the process sees them; None is a folder
        self.synced_names: dict[str, int | None] = {}
        self.pending_names: dict[str, list[tuple[str, str, int | None]]] = {}  # folder → (name that goes, comes, what)
        self.marks = 0

    def apply(self, op: Op) -> None:
        if op.kind == "c":
            number = len(self.files)
            self.files[number], self._by_inode[op.inode] = File(), number
            self._rename("", op.path, number)
        elif op.kind == "d":
            self._rename("", op.path, None)
        elif op.kind == "r":
            self._rename(op.path, op.other, self._names.get(op.path))
        elif op.kind == "u":
            self._rename(op.path, "", None)
        elif op.kind == "m":
            self.marks += 1
        elif op.kind == "s" and (op.path == "" or self._names.get(op.path, 0) is None):
            for gone, came, what in self.pending_names.pop(op.path, []):
                _move(self.synced_names, gone, came, what)
        elif (number := self._by_inode.get(op.inode)) is not None:
            file = self.files[number]
            if op.kind == "s":
                file.synced, file.pending = file.content(file.pending), []
            else:
                file.pending.append((op.offset, op.data if op.kind == "w" else None))

    def _rename(self, gone: str, came: str, what: int | None) -> None:
        _move(self._names, gone, came, what)
        folder = (came or gone).rpartition("/")[0]
        self.pending_names.setdefault(folder, []).append((gone, came, what))

    def seen(self) -> Tree:
        """What the process itself sees, and what a kill leaves."""
        return self._tree(self._names, lambda file: file.pending)

    def states(self, chance: random.Random, count: int) -> Iterator[Tree]:
        """What a power cut may leave: the extremes first, then at random."""
        everything, nothing = (lambda pending: list(pending)), (lambda _: [])
        torn = lambda pending: _torn(list(pending), chance)  # noqa: E731
        some = lambda pending: _torn([one for one in pending if chance.random() < 0.6], chance)  # noqa: E731
        begun = lambda pending: list(pending)[: chance.randint(0, len(pending))]  # noqa: E731
        yield self.seen()
        for names, data in ((nothing, nothing), (everything, nothing), (everything, torn), (nothing, everything)):
            yield self._state(names, data)
        for _ in range(count):
            names = begun if chance.random() < 0.5 else (lambda p: [one for one in p if chance.random() < 0.5])
            yield self._state(names, chance.choice((everything, nothing, torn, some)))

    def _state(self, names, data) -> Tree:
        found = dict(self.synced_names)
        for pending in self.pending_names.values():
            for gone, came, what in names(pending):
                _move(found, gone, came, what)
        return self._tree(found, lambda file: data(file.pending))

    def _tree(self, names: dict[str, int | None], chosen) -> Tree:
        contents: dict[int, bytes] = {}
        tree: Tree = {}
        for path in sorted(names):
            parent = path.rpartition("/")[0]
            if parent and tree.get(parent, b"") is not None:
                continue  # its folder is not there
            what = names[path]
            if what is not None and what not in contents:
                contents[what] = self.files[what].content(chosen(self.files[what]))
            tree[path] = None if what is None else contents[what]
        return tree


def _move(names: dict[str, int | None], gone: str, came: str, what: int | None) -> None:
    names.pop(gone, None)
    if came:
        names[came] = what


def _torn(pending: list[tuple[int, bytes | None]], chance: random.Random) -> list[tuple[int, bytes | None]]:
    """The same writes, of which one is there in part, or as zeros."""
    if not pending:
        return pending
    which = chance.randrange(len(pending))
    offset, data = pending[which]
    if data:
        kept = chance.randint(0, len(data))
        pending[which] = (offset, data[:kept] + (bytes(len(data) - kept) if chance.random() < 0.3 else b""))
    return pending


def build(tree: Tree, folder: Path) -> None:
    """The state as real files."""
    folder.mkdir(parents=True)
    for path, content in tree.items():
        if content is None:
            (folder / path).mkdir(parents=True, exist_ok=True)
        else:
            (folder / path).write_bytes(content)


def read(folder: Path) -> Tree:
    """Real files as a state."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.name.endswith("-shm")
    }
