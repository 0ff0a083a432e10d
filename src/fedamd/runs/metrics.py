"""metrics.jsonl: a line for every round, appended as rounds end and synced with every checkpoint."""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from fedamd.errors import FedamdError
from fedamd.files import refuse_special, sync_file, sync_folder, write_text
from fedamd.runs.records import Record
from fedamd.runs.sealed import Chain


class Metrics:
    """The file, and the checksum of all lines so far."""

    def __init__(self, path: Path, sealed: bool) -> None:
        self._path = path
        self._sealed = sealed
        self._chain = Chain(sealed)
        self._named = False  # whether the file's name is on disk, as its lines are after `sync`

    @property
    def digest(self) -> str:
        """Of all lines that were added, or that `cut` left."""
        return self._chain.value

    def read(self) -> list[Record]:
        """The lines written so far; a last line that was cut short does not count."""
        return [record for record, _ in self._records()]

    def until(self, t: int) -> tuple[list[Record], str]:
        """Rounds −1 … t−1, all of them, and the checksum of their lines; what comes after them is not looked at."""
        found = list(islice(self._records(), min(t + 1, sys.maxsize)))
        rounds = [record.round for record, _ in found]
        if len(rounds) != t + 1 or rounds != list(range(-1, t)):
            told = f"{rounds[0]} … {rounds[-1]}, {len(rounds)} lines" if rounds else "no line"
            raise FedamdError(f"{self._path} should have rounds −1 … {t - 1}, each once and in order; it has {told}")
        return [record for record, _ in found], found[-1][1]

    def cut(self, lines: int) -> None:
        """Keep the first lines alone, and go on after them."""
        before = self._content()
        kept = "".join(f"{line}\n" for line in before.split("\n")[:lines])
        if kept != before:
            write_text(self._path, kept)
        self._chain = Chain(self._sealed)
        for line in kept.splitlines():
            self._chain.read(line)

    def add(self, record: Record) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(self._chain.line(record.to_json()) + "\n")

    def sync(self) -> None:
        """All lines are on disk when this returns, and the name of the file."""
        sync_file(self._path)
        if not self._named:
            sync_folder(self._path.parent)
            self._named = True

    def _content(self) -> str:
        refuse_special(self._path)
        return self._path.read_bytes().decode("utf-8", errors="replace") if self._path.exists() else ""

    def _records(self) -> Iterator[tuple[Record, str]]:
        """Each record with the checksum of all lines up to it."""
        chain = Chain(self._sealed)
        for number, line in enumerate(self._content().split("\n")[:-1], start=1):
            try:
                record = Record.from_json(chain.read(line))
            except ValueError as error:
                raise FedamdError(f"{self._path}, line {number}: {error}") from None
            yield record, chain.value
