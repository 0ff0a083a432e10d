"""Wide batches of unequal clients, cut into pieces of one width.

A stack's batches have the width of its widest client: the others would be filled up with padding, and a GPU would have
to prepare itself for every width anew. So wide batches are cut, each client's by its own length alone, and what the
pieces give is added up from first to last: who else is in the stack changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from torch import Tensor
from torch.nn import functional

from fedamd.algorithms.base import Size
from fedamd.oracles.base import Batch
from fedamd.transfer import upload

PIECE = 64  # samples of a piece: a quarter of padding where clients own two hundred, little where they own more
WIDEST = 256  # batches asked for by number are left whole up to this


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut(Batch):
    """A stack of batches to be taken in pieces; its width is a multiple of `piece`."""

    lengths: tuple[int, ...]  # how many samples of each row are real: the first ones
    piece: int


def usual_length(asked: Size) -> int:
    """Of the batches an oracle gets on a GPU where so many samples are asked for."""
    return PIECE if asked == "full" or asked > WIDEST else asked


def widened(values: Tensor, width: int) -> Tensor:
    """Filled up with zeros along the last axis."""
    return functional.pad(values, (0, width - values.shape[-1]))


def plan(lengths: Sequence[int], piece: int) -> list[tuple[int, int]]:
    """(rank, row) of every piece that holds a real sample: all first pieces, then all second ones, …"""
    counts = [-(-length // piece) for length in lengths]
    return [(rank, row) for rank in range(max(counts)) for row, count in enumerate(counts) if count > rank]


def in_pieces(
    compute: Callable[..., tuple[Tensor, ...]], points: Sequence[Tensor], cut: Cut, at_once: int
) -> tuple[Tensor, ...]:
    """The sums over all pieces of what `compute(*points, batch)` gives, at most `at_once` pieces in a call."""
    pieces, rows = plan(cut.lengths, cut.piece), len(cut.lengths)
    whole = [values for values in (cut.samples, cut.weights, cut.keys) if values is not None]
    columns = [values.reshape(rows, -1, cut.piece) for values in whole]
    totals: tuple[Tensor, ...] = ()
    for start in range(0, len(pieces), at_once):
        part = pieces[start : start + at_once]
        ranks, owners = (upload(list(column), cut.samples.device) for column in zip(*part, strict=True))
        everyone = [row for _, row in part] == list(range(rows))
        own = points if everyone else [_rows(point, owners) for point in points]
        results = compute(*own, Batch(*(values[owners, ranks] for values in columns)))
        totals = totals or tuple(result.new_zeros(rows, *result.shape[1:]) for result in results)
        _add(totals, results, part)
        del own, results  # before there are the next ones
    return totals


def _rows(stack: Tensor, which: Tensor) -> Tensor:
    """These rows; where all rows are one and the same, without a copy."""
    return stack[:1].expand(len(which), -1) if stack.stride(0) == 0 else stack[which]


def _add(totals: Sequence[Tensor], results: Sequence[Tensor], part: Sequence[tuple[int, int]]) -> None:
    """To every row its pieces, one rank after the other: within a rank a row occurs once, so the order is fixed."""
    first = 0
    for _, same in groupby(part, key=lambda piece: piece[0]):
        rows = [row for _, row in same]
        for total, result in zip(totals, results, strict=True):
            values = result[first : first + len(rows)]
            if len(rows) == len(total):
                total += values
            else:
                at = upload(rows, total.device)
                total.index_copy_(0, at, total.index_select(0, at) + values)
        first += len(rows)
