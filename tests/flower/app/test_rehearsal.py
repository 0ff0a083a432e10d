"""What a reply must look like, found without data."""

import pytest
import torch

from fedamd.algorithms import VRMarina
from fedamd.algorithms.base import Batches
from fedamd.algorithms.fedamd import aim, aim_and_keep, mine
from fedamd.algorithms.scaffold import walk_option_i
from fedamd.flower.app import rehearsal
from fedamd.flower.app.rehearsal import Rehearsals, rehearse

X = torch.ones(8, dtype=torch.float64)
VECTOR, NUMBER = (torch.Size([8]), torch.float64), (torch.Size([1]), torch.float64)


def test_the_roles_of_fedamd() -> None:
    full, small = Batches(1, "full"), Batches(3, 16)
    assert rehearse(aim.to([0], full, x=X))[0].values == {"v": VECTOR}
    assert rehearse(aim_and_keep.to([0], full, x=X))[0].values == {"change": VECTOR, "fresh": NUMBER}
    form, bits = rehearse(mine.to([0], small, x=X, bullseye=X, eta_l=0.1))
    assert (form.values, form.has_loss, bits) == ({"delta": VECTOR}, True, {})


def test_a_role_that_reads_what_it_holds_and_unpacks_its_batches() -> None:
    order = walk_option_i.to([0], Batches(3, 16), Batches(1, "full"), x=X, c=X, eta_l=0.1)
    assert rehearse(order)[0].values == {"delta": VECTOR, "change": VECTOR}


def test_the_bits_of_a_compressed_reply_are_known_beforehand() -> None:
    """rand-k with k/d = ¼ of d = 8 sends 2 numbers of 64 bits."""
    compress = VRMarina(compressor="rand-k", fraction=0.25).compress
    assert rehearse(compress.to([0], Batches(1, 4), x=X, previous=X))[1] == {"change": 128}


def test_orders_of_one_kind_are_rehearsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    monkeypatch.setattr(rehearsal, "rehearse", lambda order: (played.append(order), rehearse(order))[1])
    rehearsals, batches = Rehearsals(), Batches(3, 16)
    first = rehearsals.of(mine.to([0], batches, x=X, bullseye=X, eta_l=0.1))
    assert rehearsals.of(mine.to([1, 2], batches, x=2 * X, bullseye=X, eta_l=0.1)) == first
    assert len(played) == 1
    other = torch.ones(5)
    assert rehearsals.of(mine.to([0], batches, x=other, bullseye=other, eta_l=0.1)) != first
    assert rehearsals.of(aim.to([0], Batches(1, "full"), x=X)) != first
    assert len(played) == 3
