"""What ends a run: a state that is not finite, or every reply dropped round after round, not one bad sample."""

import dataclasses

import torch

from fedamd.algorithms import FedAvg
from fedamd.engines.loop import LoopEngine
from fedamd.oracles.autograd import AutogradOracle
from fedamd.runs.rounds import HOPELESS
from fedamd.runs.run import Run
from fedamd.runs.session import Session
from support import PAIR, experiment


def played(bad_rounds, rounds=8):
    """FedAvg with one client a round, whose samples are not numbers in the given rounds."""
    one = Run(experiment(FedAvg(eta_l=0.1, steps=1), PAIR, rounds=rounds, cohort=1))
    data = one.experiment.dataset
    spoilt = dataclasses.replace(data, inputs=torch.full_like(data.inputs, torch.nan))
    good, bad = (LoopEngine(AutogradOracle(one.experiment.model, which)) for which in (data, spoilt))

    class Sometimes(LoopEngine):
        def execute(self, requests):
            return (bad if requests[0].t in bad_rounds else good).execute(requests)

    Session([one], Sometimes(AutogradOracle(one.experiment.model, data))).run()
    return one


def test_a_round_whose_only_reply_is_not_a_number_is_no_divergence():
    one = played({1, 2, 5})
    assert one.status == "finished"
    assert [record.rejected for record in one.records[1:]] == [0, 1, 1, 0, 0, 1, 0, 0]
    assert torch.isfinite(one.state.x).all()


def test_nothing_but_bad_replies_is_divergence():
    one = played(range(2, 8))
    assert (one.status, one.t) == ("diverged", 2 + HOPELESS)
