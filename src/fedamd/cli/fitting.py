"""Tables for a terminal: where it is narrow, columns that matter least are left out, and no letter of the others."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table

_GAP = 2


@dataclass(frozen=True)
class Column:
    """A heading (perhaps of two lines) and a cell for every row; what does not fit goes by rank, the highest first."""

    heading: str
    cells: Sequence[str]
    rank: int = 0
    tones: Sequence[str] = ()  # a style for each cell
    words: bool = False  # to the left
    breaks: bool = False  # into lines, at the spaces between words, where there is no room

    @property
    def width(self) -> int:
        """The least it needs."""
        if self.breaks:
            return max((len(word) for text in (self.heading, *self.cells) for word in text.split()), default=0)
        lines = [line for text in (self.heading, *self.cells) for line in text.splitlines()]
        return max(map(len, lines), default=0)


def print_table(columns: Sequence[Column], console: Console) -> None:
    """Print what fits; say in a line what was left out."""
    shown = fitting(columns, console.width)
    titled = any(column.heading for column in shown)
    table = Table(
        box=None, header_style="bold", padding=(0, _GAP, 0, 0), show_edge=False, pad_edge=False, show_header=titled
    )
    for column in shown:
        side: JustifyMethod = "left" if column.words else "right"
        table.add_column(escape(column.heading), justify=side, overflow="fold", no_wrap=not column.breaks)
    for index in range(len(columns[0].cells)):
        table.add_row(*(_cell(column, index) for column in shown))
    console.print(table)
    if left_out := [" ".join(column.heading.split()) for column in columns if column not in shown]:
        console.print(f"[dim]left out for lack of space: {escape(', '.join(left_out))}[/]", highlight=False)


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that fit; the first is always there."""
    shown = list(columns)
    while len(shown) > 1 and sum(column.width for column in shown) + _GAP * (len(shown) - 1) > width:
        least = max(shown[1:], key=lambda column: (column.rank, shown.index(column)))
        shown.remove(least)
    return shown


def _cell(column: Column, index: int) -> str:
    text = escape(column.cells[index])
    tone = column.tones[index] if column.tones else ""
    return f"[{tone}]{text}[/]" if tone else text
