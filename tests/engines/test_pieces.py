"""Batches in pieces: the same sums, little padding, few shapes."""

import torch

from fedamd.data.base import Dataset
from fedamd.data.partition import Dirichlet
from fedamd.engines.captured import rounded_up
from fedamd.engines.pieces import PIECE, WIDEST, Cut, in_pieces, plan, usual_length


def test_all_first_pieces_come_before_all_second_ones():
    assert plan([5, 2, 4, 1], 2) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (2, 0)]


def test_sums_over_pieces_whatever_fits_in_a_call():
    """Row 0 has the samples 1, 2, 3 and row 1 the sample 4: weighted sums 1 + 4 + 9 and 4, times each row's point."""
    samples, weights = torch.tensor([[1, 2, 3, 0], [4, 0, 0, 0]]), torch.tensor([[1.0, 2.0, 3.0, 0.0], [1.0, 0, 0, 0]])
    cut, points = Cut(samples, weights, lengths=(3, 1), piece=2), torch.tensor([[10.0], [100.0]])
    for at_once in (1, 2, 3, 8):
        (total,) = in_pieces(lambda x, b: (x * (b.samples * b.weights).sum(1, keepdim=True),), [points], cut, at_once)
        assert total.tolist() == [[140.0], [400.0]]


def test_unequal_clients_cost_a_quarter_more_at_most_and_few_shapes():
    """Dirichlet(0.1) over ten classes, 10 of 100 clients of 500 samples on average, 400 rounds of full batches."""
    labels = torch.arange(50_000) % 10
    data = Dataset("labels", torch.zeros(50_000, 1), labels, torch.zeros(1, 1), labels[:1], classes=10)
    sizes = torch.tensor(Dirichlet(alpha=0.1)(data, 100, 0).sizes)
    random = torch.Generator().manual_seed(0)
    shapes, computed, real = set(), 0, 0
    for _ in range(400):
        lengths = sizes[torch.randperm(100, generator=random)[:10]].tolist()
        rows = rounded_up(len(plan(lengths, PIECE)))
        shapes.add(rows)
        computed, real = computed + rows * PIECE, real + sum(lengths)
    assert computed <= 1.25 * real
    assert len(shapes) <= 12


def test_an_oracle_gets_pieces_of_what_is_wide() -> None:
    assert [usual_length(asked) for asked in (1, WIDEST, WIDEST + 1, "full")] == [1, WIDEST, PIECE, PIECE]
