"""Standings by hand: budgets, intervals, ties, divergence and costs to targets."""

import math

from fedamd.studies.leaderboard.board import LeaderboardSetting
from fedamd.studies.leaderboard.ranking import interval, rank

SETTING = LeaderboardSetting("s", "S", {}, {}, (0.5, 0.9), 1, (4,), (9,), (1, 2))


def line(label: str, seed: int, accuracy: list[float], cost: list[int], start_up=(0, 0), status="finished"):
    """A run of four rounds, evaluated after each, that costs the same in each."""
    common = {"label": label, "seed": seed, "status": status, "start_up": list(start_up)}
    evaluated = list(range(1, len(accuracy) + 1))
    curve = {"accuracy": accuracy, "evaluated": evaluated, "costs": [cost], "rounds_cost": [0] * len(accuracy)}
    return common | curve


CHEAP = [line("fedavg", 1, [0.1, 0.3, 0.5, 0.7], [10, 100]), line("fedavg", 2, [0.3, 0.3, 0.5, 0.5], [10, 100])]
DEAR = [line("dear", 1, [0.8, 0.8, 0.8, 0.8], [20, 400]), line("dear", 2, [0.4, 0.8, 0.8, 0.8], [20, 400])]


def test_equal_costs_by_hand():
    """The budget is fedavg's: 4 rounds, 40 gradients, 400 bits. For `dear` that is 4 rounds, 2 rounds, 1 round.

    fedavg: seeds 0.4 and 0.4.  dear: at equal rounds 0.8 and 0.7; gradients 0.8 and 0.6; bits 0.8 and 0.4.
    """
    told = rank(SETTING, {"fedavg": CHEAP, "dear": DEAR})
    seeds = {cost: {one.label: one.seeds for one in standings} for cost, standings in told.items()}
    assert [round(value, 9) for value in seeds["rounds"]["fedavg"]] == [0.4, 0.4]
    assert [round(seeds[cost]["dear"][1], 9) for cost in ("rounds", "gradients", "bits")] == [0.7, 0.6, 0.4]
    assert [one.label for one in told["rounds"]] == ["dear", "fedavg"]


def test_a_start_up_is_charged():
    """200 bits before round 1 leave half of fedavg's budget: two rounds of 100."""
    late = [line("late", seed, [0.2, 0.4, 0.9, 0.9], [10, 100], (0, 200)) for seed in (1, 2)]
    told = rank(SETTING, {"fedavg": CHEAP, "late": late})
    assert [round(one.mean, 9) for one in told["bits"] if one.label == "late"] == [0.3]


def test_costs_to_targets():
    """0.5 is reached after 3 rounds by both seeds of fedavg, 0.9 never; `dear` reaches 0.5 after 1 and 2 rounds."""
    told = {one.label: one for one in rank(SETTING, {"fedavg": CHEAP, "dear": DEAR})["gradients"]}
    assert told["fedavg"].to_targets == (30, None)
    assert told["dear"].to_targets == (30, None)


def test_a_seed_that_diverged_counts_as_nothing():
    bad = [line("bad", 1, [0.9, 0.9], [10, 100], status="diverged"), line("bad", 2, [0.9] * 4, [10, 100])]
    told = {one.label: one for one in rank(SETTING, {"fedavg": CHEAP, "bad": bad})["rounds"]}
    assert told["bad"].diverged == 1
    assert not told["bad"].tied
    assert told["bad"].worst == 0.0
    assert told["bad"].mean == 0.45


def test_intervals_and_ties():
    """Two values 0.2 apart: 12.706·(0.2/√2)/√2 = 1.2706. Differences of 0.4 and 0.3 are within their interval."""
    assert math.isclose(interval([0.5, 0.7]), 1.2706)
    assert interval([0.5]) == math.inf
    assert all(one.tied for one in rank(SETTING, {"fedavg": CHEAP, "dear": DEAR})["rounds"])
    sure = [line("sure", seed, [0.9 - shift] * 4, [10, 100]) for seed, shift in ((1, 0.0), (2, 0.0))]
    flat = [line("fedavg", seed, [0.4] * 4, [10, 100]) for seed in (1, 2)]
    assert [one.tied for one in rank(SETTING, {"fedavg": flat, "sure": sure})["rounds"]] == [True, False]


def test_simulated_seconds_to_targets():
    """0.5 is reached at the third evaluation of both seeds, after 30 and 36 s; without seconds nothing is said."""
    timed = [
        one | {"seconds": seconds} for one, seconds in zip(CHEAP, ([10, 20, 30, 40], [12, 24, 36, 48]), strict=True)
    ]
    told = {one.label: one for one in rank(SETTING, {"fedavg": timed, "dear": DEAR})["rounds"]}
    assert told["fedavg"].seconds == (33, None)
    assert told["dear"].seconds == (None, None)
