"""Running from Python: a user's own model, data, partition and method; divergence; what the result holds."""

import pytest
import torch
from torch import nn

import fedamd
from fedamd import Dataset, FedAMD, Partition
from fedamd.errors import FedamdError
from fedamd.runs import api
from fedamd.runs.config import load_config
from fedamd.runs.experiment import build_experiment

OWNED = [[0, 1, 2], [3, 4, 5, 6, 7], [8, 9], [10, 11, 12, 13]]


@pytest.fixture
def line() -> Dataset:
    """y = 3z − 1 without noise, four clients of different sizes."""
    inputs = torch.linspace(-1, 1, 14).unsqueeze(-1)
    targets = 3 * inputs[:, 0] - 1
    return Dataset("line", inputs, targets, inputs, targets, classes=0, clients=Partition.of(OWNED))


def test_own_model_data_partition_and_method(line):
    """A regression: FedAMD finds slope 3 and intercept −1."""
    model = nn.Linear(1, 1)
    seen = []
    result = fedamd.run(
        clients=4,
        cohort=3,
        rounds=150,
        dataset=line,
        model=model,
        algorithm=FedAMD(eta_l=0.2, steps=5, small_batch="full", tau=2),
        listen=lambda run, record: seen.append((run.t, record.round)),
    )
    assert not torch.equal(model.weight, result.model.weight)  # the user's object is as it was
    torch.testing.assert_close(result.x, torch.tensor([3.0, -1.0]), rtol=0, atol=1e-3)
    assert (result.model.weight.item(), result.model.bias.item()) == tuple(result.x.tolist())
    assert seen == [(t, t - 1) for t in range(151)]
    assert len(result.metrics) == 151
    assert result.summary["status"] == "finished"
    assert result.summary["final_accuracy"] is None  # there are no classes
    assert result.summary["final_test_loss"] < 1e-5
    assert result.summary["start_up"]["gradient_samples"] == 14
    assert result.folder is None


def test_the_clients_are_those_of_the_data_given(line):
    """One round of anchors, everyone: 14 samples, client by client."""
    run_clients = []
    fedamd.run(
        clients=4,
        cohort=4,
        rounds=1,
        dataset=line,
        model=nn.Linear(1, 1),
        listen=lambda run, _: run_clients.append([run.site.clients.samples(i).tolist() for i in range(4)]),
    )
    assert run_clients[0] == OWNED
    with pytest.raises(FedamdError, match="line has 4 clients of its own, but 3 are asked for"):
        fedamd.run(clients=3, cohort=3, dataset=line, model=nn.Linear(1, 1))


def test_data_without_clients_is_partitioned_as_the_config_says(line):
    classes = torch.arange(14) % 2
    plain = Dataset("plain", line.inputs, classes, line.inputs, classes, classes=2)
    result = fedamd.run(clients=7, cohort=2, rounds=1, dataset=plain, partition={"name": "iid"})
    assert result.summary["start_up"]["gradient_samples"] == 14


def test_a_huge_step_diverges_and_says_so(tmp_path):
    """L = 1 and η_l = 1e30: x leaves float32 within a few rounds, and the run stops there."""
    result = fedamd.run(
        data={"name": "quadratic"},
        clients=6,
        cohort=3,
        rounds=50,
        algorithm=FedAMD(eta_l=1e30, steps=3, tau=2),
        out=tmp_path / "run",
    )
    assert result.summary["status"] == "diverged"
    assert result.summary["rounds"] < 50
    assert result.summary["algorithm"] == "fedamd"
    again = fedamd.resume(tmp_path / "run", algorithm=FedAMD(eta_l=1e30, steps=3, tau=2))
    assert again.summary["status"] == "diverged"
    assert again.summary["rounds"] == result.summary["rounds"]


def test_the_seed_decides_everything():
    config = {"clients": 6, "cohort": 3, "rounds": 3, "model": {"hidden": 4}, "oracle": "autograd"}
    first, again, other = (fedamd.run(config, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, other.x)
    torch.manual_seed(0)
    before = torch.rand(1)
    torch.manual_seed(0)
    fedamd.run(config, seed=5)
    assert torch.equal(torch.rand(1), before)  # the caller's own generator is left alone


def test_a_target_is_reported_when_it_is_first_reached():
    result = fedamd.run(clients=10, cohort=5, rounds=8, target_accuracy=0.5, seed=1)
    reached = result.summary["to_target"]
    accuracies = [record.accuracy for record in result.metrics[1:]]
    first = next(t for t, accuracy in enumerate(accuracies) if accuracy >= 0.5)
    assert reached == {"rounds": first + 1} | {
        cost: result.metrics[first + 1].costs[cost] for cost in ("gradient_samples", "bits_up", "bits_down")
    }
    assert result.summary["best_accuracy"] == max(accuracies)
    never = fedamd.run(clients=10, cohort=5, rounds=1, target_accuracy=1.0)
    assert never.summary["to_target"] is None


def test_a_target_can_be_of_anything_measured(tmp_path):
    """The test loss of this quadratic falls from round to round."""
    quadratic = {"data": {"name": "quadratic"}, "clients": 4, "cohort": 4, "rounds": 6}
    losses = [record.test_loss for record in fedamd.run(quadratic).metrics[1:]]
    result = fedamd.run(quadratic, target=losses[3], out=tmp_path / "run")  # of what it is judged by
    assert result.summary["to_target"]["rounds"] == 1 + next(t for t, one in enumerate(losses) if one <= losses[3])
    assert result.summary["target"]["measure"] == {"name": "test_loss", "higher_is_better": False}
    assert result.summary["target_accuracy"] is None
    assert fedamd.run(quadratic, target={"loss": -1e9}).summary["to_target"] is None
    resumed = fedamd.resume(tmp_path / "run", rounds=7, target={"loss": 1e9})
    assert resumed.summary["to_target"]["rounds"] == 1
    with pytest.raises(fedamd.FedamdError, match="target: there is no 'accuracy'"):
        fedamd.run(quadratic, target={"accuracy": 0.5})
    with pytest.raises(fedamd.FedamdError, match="target: name one metric and its value"):
        fedamd.run(quadratic, target={"loss": 1, "test_loss": 2})


def test_evaluations_are_made_when_asked_and_at_the_end():
    result = fedamd.run(data={"name": "logistic"}, clients=4, cohort=2, rounds=7, evaluate_every=3)
    evaluated = [record.round for record in result.metrics if record.test_loss is not None]
    assert evaluated == [-1, 2, 5, 6]


def test_a_config_object_can_be_run_and_changed():
    config = fedamd.load_config({"data": {"name": "quadratic"}, "clients": 4, "cohort": 2, "rounds": 2})
    assert fedamd.run(config).summary["rounds"] == 2
    assert fedamd.run(config, rounds=3).summary["rounds"] == 3


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10)), "use nn.GroupNorm"),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.RReLU()), "neither resumed nor repeated"),
        (nn.Flatten(), "no parameters to train"),
    ],
)
def test_models_that_cannot_be_federated_leave_no_folder(model, says, tmp_path):
    with pytest.raises(FedamdError, match=says):
        fedamd.run(rounds=1, model=model, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_keyword_arguments_are_unknown_keys():
    with pytest.raises(FedamdError, match=r"roundz: unknown key \(did you mean rounds\?\)"):
        fedamd.run(roundz=3)


def test_sections_can_be_given_in_place_of_objects():
    small = {"data": {"name": "quadratic"}, "clients": 4, "cohort": 2, "rounds": 2}
    by_section = fedamd.run(small, algorithm={"name": "fedamd", "tau": 2, "eta_l": 0.2})
    assert torch.equal(by_section.x, fedamd.run(small, algorithm=FedAMD(tau=2, eta_l=0.2)).x)
    with pytest.raises(FedamdError, match=r"algorithm\.etal: unknown key"):
        fedamd.run(small, algorithm={"etal": 0.2})
    with pytest.raises(FedamdError, match="lenet5 needs images"):
        fedamd.run(small, model={"name": "lenet5"})


def test_a_users_model_is_never_changed_and_frozen_parameters_stay(line):
    """Two runs of one object are one and the same; what is frozen is neither trained nor sent."""
    model = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    runs = [fedamd.run(clients=4, cohort=3, rounds=2, dataset=line, model=model, dtype="float64") for _ in range(2)]
    assert torch.equal(runs[0].x, runs[1].x)
    assert runs[0].x.shape == (3,)
    assert model[0].weight.dtype == torch.float32
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(runs[0].model[0].weight, before["0.weight"].double())
    assert not torch.equal(runs[0].model[1].weight, before["1.weight"].double())
    assert runs[0].metrics[-1].costs["bits_up"] % (3 * 32) == 0


def test_a_run_with_dropout_goes_on_as_if_it_had_never_stopped(tmp_path):
    def net() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 10))

    settings = {"clients": 6, "cohort": 3, "checkpoint_every": 2}
    whole = fedamd.run(settings, model=net(), rounds=4)
    fedamd.run(settings, model=net(), rounds=2, out=tmp_path / "run")
    resumed = fedamd.resume(tmp_path / "run", model=net(), rounds=4)
    assert torch.equal(resumed.x, whole.x)


@pytest.mark.parametrize(("size", "told"), [(32, 32), ("full", "full"), (None, "full"), (0.5, "full")])
def test_an_engine_is_told_of_batches_only_what_is_a_number_of_samples(line, monkeypatch, size, told):
    """A method's own `small_batch` may be anything; kernels are compiled for a length."""
    experiment = build_experiment(load_config({"clients": 4, "cohort": 3}), dataset=line, model=nn.Linear(1, 1))
    object.__setattr__(experiment.algorithm, "small_batch", size)
    asked = []
    monkeypatch.setattr(api, "choose_engine", lambda *given: asked.append(given[-1]))
    api.resolve_engine(experiment)
    assert asked == [told]
