"""Deals pieces of classes to clients so that every client holds exactly k distinct classes."""

import heapq
from collections.abc import Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from fedamd.errors import FedamdError


def apportion(counts: Sequence[int], clients: int, k: int, rng: np.random.Generator) -> list[int]:
    """Into how many pieces each class is cut: M·k in all, none more than M, the pieces as equal as whole cuts allow.

    Every class starts as one piece; then, again and again, the class with the largest pieces gets one more (Adams's
    method of apportionment), with chance deciding between equals. A class of n samples makes at most n pieces.
    """
    _check(counts, clients, k)
    pieces = [1] * len(counts)
    chances = rng.random(len(counts)).tolist()
    heap: list[tuple[float, float, int]] = [(-n, chances[label], label) for label, n in enumerate(counts)]
    heapq.heapify(heap)
    for _ in repeat(None, clients * k - len(counts)):
        while pieces[heap[0][2]] == min(clients, counts[heap[0][2]]):
            heapq.heappop(heap)
        _, chance, label = heap[0]
        pieces[label] += 1
        heapq.heapreplace(heap, (-counts[label] / pieces[label], chance, label))
    return pieces


def assign_pieces(pieces: Sequence[int], clients: int, k: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """For every class, the clients that hold one of its pieces; each client appears in exactly k of them.

    Client after client draws k classes at random, weighted by the pieces left. With r clients to go, r·k pieces are
    left and no class has more than r of them. A class with exactly r must go to every remaining client, so it is taken
    first; there are at most k such, hence the bound holds for r − 1, and at least k classes always have a piece left.
    """
    left = np.array(pieces, dtype=np.float64)
    holders: list[list[int]] = [[] for _ in pieces]
    for done, client in enumerate(rng.permutation(clients).tolist()):
        # Exponential waits over weights: the k smallest are a weighted draw without replacement.
        waits = rng.exponential(size=len(left))
        urgency = np.divide(waits, left, out=np.full(len(left), np.inf), where=left > 0)
        urgency[left == clients - done] = -1.0
        for label in np.argpartition(urgency, k - 1)[:k].tolist():
            left[label] -= 1
            holders[label].append(client)
    return [rng.permutation(np.array(chosen, dtype=np.int64)) for chosen in holders]


def _check(counts: Sequence[int], clients: int, k: int) -> None:
    """The conditions under which an assignment exists: necessary, and by the argument in `assign_pieces` sufficient."""
    present = len(counts)
    if k > present:
        raise FedamdError(f"classes_per_client is {k}, but the data has samples of {present} classes only")
    if clients * k < present:
        raise FedamdError(
            f"{clients} clients with {k} classes each leave some of the {present} classes without an owner; "
            f"use at least {-(-present // k)} clients, or classes_per_client of at least {-(-present // clients)}"
        )
    possible = sum(min(clients, count) for count in counts)
    if possible < clients * k:
        raise FedamdError(
            f"{clients} clients with {k} classes each need {clients * k} pieces of classes, but the samples make "
            f"{possible} at most; with classes_per_client = {k} use at most {_most_clients(counts, k)} clients"
        )


def _most_clients(counts: Sequence[int], k: int) -> int:
    return next(m for m in range(sum(counts) // k, -1, -1) if sum(min(m, count) for count in counts) >= m * k)
