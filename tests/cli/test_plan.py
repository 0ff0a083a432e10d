"""`fedamd plan` from the command line."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fedamd.cli.plan import register
from fedamd.errors import FedamdError
from fedamd.runs.planning import NEEDED

FLAGS = (
    "plan --clients 100 --cohort 20 --steps 10 --small-batch 4 --epsilon 0.01 --L 2 --L-sigma 3 --sigma 5 --delta 1.5"
)


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return app


def invoke(app: typer.Typer, flags: str) -> str:
    result = CliRunner().invoke(app, flags.split(), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_table(app: typer.Typer) -> None:
    """M/(Aε) = 5·300 rounds at p* = 0.887, with b = 25/(100·0.01)."""
    told = invoke(app, FLAGS)
    assert "Cheapest first by rounds" in told
    assert "FedAMD (constant): p = 0.887, b = 25" in told
    assert "Minibatch SGD: no number, needs all M = 100 clients, the cohort is A = 20" in told
    assert "1500" in told


def test_json_and_plot(app: typer.Typer, tmp_path: Path) -> None:
    picture = tmp_path / "cost.png"
    flags = f" --parameters 1000 --cost seconds --bandwidth 1e6 --compute 1e3 --json --plot {picture}"
    told = json.loads(invoke(app, FLAGS + flags))
    assert told["cost"] == "seconds"
    assert told["plot"] == str(picture)
    assert picture.stat().st_size > 0
    assert {entry["method"] for entry in told["entries"]} >= {"fedavg", "fedamd-constant"}
    assert told["entries"][0]["seconds"] > 0


def test_what_if(app: typer.Typer) -> None:
    told = json.loads(
        invoke(app, FLAGS + " --p 0.3 --tau 4 --large-batch 100 --samples 100 --parameters 10 --cost bits --json")
    )
    settings = {entry["method"]: entry["settings"] for entry in told["entries"]}
    assert settings["fedamd-constant"]["p"] == 0.3
    assert settings["fedamd-sequential"]["tau"] == 4
    assert settings["fedamd-constant"]["b"] == 100


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (" --p 1", "never moves"),
        (" --bandwidth 5", "both --bandwidth"),
        (" --cost bits", "give d"),
        (" --cost euros", "not known"),
        (" --c 0.5", "c is 0.5"),
    ],
)
def test_mistakes_are_sentences(app: typer.Typer, flags: str, says: str) -> None:
    with pytest.raises(FedamdError, match=says):
        invoke(app, FLAGS + flags)


CONFIG = """
clients = 20
cohort = 5
dtype = "float64"
[data]
name = "quadratic"
samples = 4
dimension = 3
[algorithm]
steps = 2
small_batch = 2
"""


def test_estimate(app: typer.Typer, tmp_path: Path) -> None:
    """The quadratic's L = 1, μ = 0.1 and σ = 1 are found; sizes are the config's."""
    config = tmp_path / "config.toml"
    config.write_text(CONFIG)
    told = invoke(app, f"plan --estimate {config} --epsilon 0.001")
    assert "Estimates at x_0" in told
    assert "planned for M = 20, A = 5, K = 2, b' = 2, n = 4, d = 3; PL with μ = 0.1" in told
    assert "anchored momentum, at eta_l = " in told
    found = json.loads(invoke(app, f"plan --estimate {config} --epsilon 0.001 --cohort 10 --budget 9000 --json"))
    assert found["problem"]["A"] == 10
    assert found["anchored"]["refresh"] in ("miners", "anchors")
    assert 0 < found["anchored"]["a"] <= 1
    assert found["estimates"]["L"]["value"] == pytest.approx(1.0)
    assert found["estimates"]["L"]["low"] <= 1.0 <= found["estimates"]["L"]["high"] + 1e-9


def test_with_clients_and_cohort_alone_the_plan_says_what_it_can(app: typer.Typer) -> None:
    told = invoke(app, "plan --clients 100 --cohort 20")
    assert "FedAMD (constant): p = 0.887" in told
    assert "need --steps, --small-batch, --epsilon, --L, --L-sigma, --sigma, --delta; --estimate CONFIG finds" in told
    found = json.loads(invoke(app, "plan --clients 100 --cohort 20 --json"))
    assert found["outline"]["constant"]["p"] == pytest.approx(0.887, abs=5e-4)
    assert found["missing"][0] == "--steps"


def test_the_plan_says_what_is_printed_and_what_is_proved(app: typer.Typer) -> None:
    told = invoke(app, FLAGS)
    assert "eta_s as proved =" in told
    assert "as printed in the paper" in told
    assert "12σ²/(Mb)" in told


def test_without_estimates_the_flags_are_needed(app: typer.Typer) -> None:
    for flags in ("plan --clients 100", FLAGS.replace("--L 2 --L-sigma 3", "--plot cost.png")):
        with pytest.raises(FedamdError, match=r"a plan needs .* as well; --estimate CONFIG finds all but --epsilon"):
            invoke(app, flags)
    command = typer.main.get_command(app).commands["plan"]
    assert set(NEEDED.values()) <= {word for option in command.params for word in option.opts}
