"""Learning rates left to theory become numbers before a run begins, and are recorded as numbers."""

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from fedamd import FedAvg, KnownProblem, TheoryValues
from fedamd.campaigns.grid import Grid
from fedamd.campaigns.sweep import plan, sweep
from fedamd.data.base import Dataset, Partition
from fedamd.errors import FedamdError
from fedamd.models import Softmax
from fedamd.runs.api import resume, run
from fedamd.runs.config import Config, load_config
from fedamd.runs.experiment import build_experiment

ROOT = 2 * math.sqrt(6)
BOTH = {"eta_l": "theory", "eta_s": "theory"}


def quadratic(**algorithm: Any) -> Config:
    """M = 20, A = 5 on a quadratic with L = 2 and L_σ = 0, μ = 0.2."""
    options = {"eta_l": "theory", "eta_s": "theory", "steps": 2, "small_batch": 2} | algorithm
    return load_config(
        {
            "data": {"name": "quadratic", "samples": 4, "dimension": 3, "L": 2.0, "mu": 0.2},
            "algorithm": options,
            "clients": 20,
            "cohort": 5,
            "rounds": 2,
            "dtype": "float64",
        }
    )


def rates(config: Config) -> tuple[float, float]:
    options = build_experiment(config).config.algorithm.options
    return options["eta_l"], options["eta_s"]


def test_constant_p() -> None:
    """Theorem 4.8 with K·L = 4: η_l = 1/(8√6); p* = (2/7)^{1/5}, 1 − p*^5 = 5/7, 2M/(Ap) = 8/p*."""
    best = (2 / 7) ** (1 / 5)
    assert rates(quadratic()) == pytest.approx((1 / (4 * ROOT), ROOT / (1 + 8 / best * math.sqrt(5 / 7))))


def test_given_p() -> None:
    """p = ½: 1 − p^5 = 31/32, 2M/(Ap) = 16."""
    assert rates(quadratic(p=0.5)) == pytest.approx((1 / (4 * ROOT), ROOT / (1 + 16 * math.sqrt(31 / 32))))


def test_sequential() -> None:
    """Theorem 4.6, τ = 3: η_s·η_l = 1/(KL)/(1 + 2·20·3/5) = 1/100."""
    eta_l, eta_s = rates(quadratic(tau=3))
    assert eta_l == pytest.approx(1 / (4 * ROOT))
    assert eta_l * eta_s == pytest.approx(1 / 100)


def test_under_pl() -> None:
    """Theorem 4.11 with μ/L = 0.1, p = ½: the second term is 2√6/(1 + 16·20/(0.1·2.5)) = 2√6/1281, the smaller one."""
    assert rates(quadratic(p=0.5, mu=0.1)) == pytest.approx((1 / (4 * ROOT), ROOT / 1281))


def test_one_rate_given_the_other_follows_from_their_product() -> None:
    """Theorem 4.8 fixes η_s·η_l = 1/(K·L·(1 + 16·sqrt(31/32))) with K·L = 4, and η_l up to 1/(8√6) = 0.051."""
    product = 1 / (4 * (1 + 16 * math.sqrt(31 / 32)))
    assert rates(quadratic(eta_l=0.05, p=0.5)) == pytest.approx((0.05, product / 0.05))
    assert rates(quadratic(eta_s=3.0, p=0.5)) == pytest.approx((product / 3, 3.0))


def test_a_given_rate_beyond_the_theorem_is_told_and_recorded(caplog: pytest.LogCaptureFixture) -> None:
    facts = build_experiment(quadratic(eta_l=0.5, p=0.5)).theory
    assert "eta_l = 0.5 is above the theorem's limit of 0.05103" in facts["beyond"]
    assert facts["beyond"] in caplog.text
    assert "beyond" not in build_experiment(quadratic(eta_l=0.05, p=0.5)).theory


def test_estimates_where_nothing_is_known_exactly() -> None:
    """Softmax regression at x = 0, on inputs z with p_k = ¼: ∇²ℓ = (diag(p) − ppᵀ) ⊗ zzᵀ has spectral norm ‖z‖²/4.

    All of a client's inputs are the same z here, ‖z‖² = 5 with the bias: L = 5/4 and L_σ = 0.
    """
    config = load_config(
        {
            "model": {"name": "softmax"},
            "algorithm": {"eta_l": "theory", "eta_s": "theory"},
            "clients": 3,
            "cohort": 2,
            "dtype": "float64",
        }
    )
    inputs = torch.ones(12, 4, dtype=torch.float64)
    targets = torch.arange(12) % 4
    owners = Partition.of([range(4), range(4, 8), range(8, 12)])
    model = Softmax(4, 4)
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)
    experiment = build_experiment(
        config, dataset=Dataset("ones", inputs, targets, inputs, targets, 4, owners), model=model
    )
    assert experiment.theory["constants"] == "estimated"
    assert experiment.theory["L"] == pytest.approx(5 / 4)
    assert experiment.config.algorithm.options["eta_l"] == pytest.approx(1 / (ROOT * 10 * 5 / 4), rel=1e-6)


def test_a_model_of_another_regularisation_is_not_the_known_problem() -> None:
    sizes = {"data": {"name": "logistic", "samples": 8, "dimension": 2}, "clients": 4, "cohort": 2, "dtype": "float64"}
    options = {"algorithm": {"eta_l": "theory", "steps": 50}}
    own = build_experiment(load_config(sizes | options))
    other = build_experiment(load_config(sizes | options | {"model": {"name": "logistic", "regularisation": 0.5}}))
    assert own.theory["constants"] == "exact"
    assert other.theory["constants"] == "estimated"


def test_the_folder_has_numbers_and_where_they_came_from(tmp_path: Path) -> None:
    """Resuming reads the numbers, whatever they are by then."""
    whole = run(quadratic(), out=tmp_path / "whole", rounds=4)
    run(quadratic(), out=tmp_path / "parts", rounds=2)
    recorded = json.loads((tmp_path / "parts" / "environment.json").read_text())["theory"]
    assert recorded["p"] == pytest.approx((2 / 7) ** (1 / 5))
    assert (recorded["L"], recorded["L_sigma"], recorded["constants"]) == (2.0, 0.0, "exact")
    written = load_config(tmp_path / "parts" / "config.toml")
    assert written.by_theory == ()
    assert written.algorithm.options["eta_s"] == recorded["eta_s"]
    assert torch.equal(resume(tmp_path / "parts", rounds=4).x, whole.x)


def test_a_sweep_resolves_every_point(tmp_path: Path) -> None:
    result = sweep(plan(quadratic().plain(), Grid({"algorithm.p": [0.5, 0.8]}), tmp_path))
    found = [load_config(tmp_path / "runs" / f"p={p}" / "config.toml").algorithm.options["eta_s"] for p in (0.5, 0.8)]
    assert [entry.statuses for entry in result.entries] == [["finished"], ["finished"]]
    assert found[0] == pytest.approx(ROOT / (1 + 16 * math.sqrt(31 / 32)))
    assert found[1] == pytest.approx(ROOT / (1 + 10 * math.sqrt(1 - 0.8**5)))


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        ({"pattern": "0,0,1"}, "no other schedule"),
        ({"server": "adam"}, 'server = "plain"'),
        ({"weights": "samples"}, 'weights = "uniform"'),
    ],
)
def test_what_has_no_theorem(algorithm: dict[str, Any], says: str) -> None:
    with pytest.raises(FedamdError, match=says):
        build_experiment(quadratic(**algorithm))


def test_too_few_local_steps_for_the_theorem() -> None:
    """Inputs of the logistic problem differ, so L_σ > 0 and K = 1 step on one sample is below 2·L_σ²/L²."""
    config = {"data": {"name": "logistic"}, "algorithm": BOTH | {"steps": 1, "small_batch": 1}}
    with pytest.raises(FedamdError, match="take K ≥"):
        build_experiment(load_config(config))


def test_other_methods_have_no_theory() -> None:
    with pytest.raises(FedamdError, match=r"algorithm.eta_l: .*fedavg has it for nothing; give a number"):
        load_config({"algorithm": {"name": "fedavg", "eta_l": "theory"}})


def test_as_proved() -> None:
    """p = ½: 2√2 in place of the theorem's 2, which are 8√2·2 and 8·2 after M/(Ap) = 8."""
    both = {"eta_l": "theory-proved", "eta_s": "theory-proved"}
    assert rates(quadratic(p=0.5, **both)) == pytest.approx(
        (1 / (4 * ROOT), ROOT / (1 + 16 * math.sqrt(2) * math.sqrt(31 / 32)))
    )
    assert build_experiment(quadratic(p=0.5, **both)).theory["version"] == "proved"
    assert build_experiment(quadratic(p=0.5)).theory["version"] == "printed"


def test_printed_and_proved_are_not_mixed() -> None:
    with pytest.raises(FedamdError, match='eta_l and eta_s are left to "theory" and "theory-proved": use one'):
        build_experiment(quadratic(eta_s="theory-proved"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bold(FedAvg):
    """A method with a theory of its own: η_l = 1/(K·L)."""

    has_theory_for: ClassVar[tuple[str, ...]] = ("eta_l",)

    def by_theory(self, names: Sequence[str], problem: KnownProblem) -> TheoryValues:
        return TheoryValues(dict.fromkeys(names, 1 / (self.steps * problem.smoothness.L)))

    def worked_out(self, cohort: int) -> dict[str, float]:
        return {"share": 1 / cohort}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Silent(Bold):
    """It promises a number and gives none."""

    def by_theory(self, names: Sequence[str], problem: KnownProblem) -> TheoryValues:  # noqa: ARG002
        return TheoryValues({})


def own_theory(kind: type, **options: Any) -> Config:
    named = {"name": f"{__name__}:{kind.__name__}", "eta_s": 1.0} | options
    return quadratic().told({"algorithm": {"steps": 4, "small_batch": 2} | named})


def test_a_users_own_method_offers_theory() -> None:
    """L = 2 and K = 4: η_l = 1/8."""
    experiment = build_experiment(own_theory(Bold, eta_l="theory"))
    assert experiment.config.algorithm.options["eta_l"] == experiment.algorithm.eta_l == 1 / 8
    assert (experiment.theory["eta_l"], experiment.theory["share"]) == (1 / 8, 1 / 5)


def test_what_a_users_own_theory_does_not_cover() -> None:
    with pytest.raises(FedamdError, match=r"algorithm.eta_s: .*:Bold has it for eta_l; give a number"):
        own_theory(Bold, eta_s="theory")
    with pytest.raises(FedamdError, match="Silent gave no eta_l"):
        build_experiment(own_theory(Silent, eta_l="theory"))


def test_what_has_no_theorem_is_told_before_constants_are_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedamd.runs.theory_rates.exact_constants", lambda *_: pytest.fail("sought"))
    with pytest.raises(FedamdError, match="no other schedule"):
        build_experiment(quadratic(pattern="0,0,1"))


def test_an_unresolved_config_builds_no_algorithm() -> None:
    with pytest.raises(FedamdError, match="needs the data and the model"):
        quadratic().build_algorithm()


def test_other_options_are_still_checked() -> None:
    with pytest.raises(FedamdError, match="steps"):
        quadratic(steps=0)
