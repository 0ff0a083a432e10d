"""Configs: what is accepted survives a trip through TOML; every mistake is one sentence that names the key."""

import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedamd.cli.main import app
from fedamd.errors import FedamdError
from fedamd.runs.config import Config, load_config, parse_setting, to_toml

# TOML text → what the sentence must say: the key, and what would be right.
MISTAKES = [
    ('target = "high"', [" target: should be a valid number", "or should be a valid dictionary"]),
    ("devices = [1]", [" devices: should be a valid dictionary or should be a valid string"]),
    ("clientz = 10", ["clientz: unknown key (did you mean clients?)", "allowed are", "cohort"]),
    ("[algorithm]\neta = 0.1", ["algorithm.eta: unknown key (did you mean eta_", "allowed are", "eta_l"]),
    ("[partition]\nclasses = 2", ["partition.classes: unknown key", "classes_per_client"]),
    ("[data]\nsamples = 5", ["digits", "no option samples", "takes none"]),
    ('[data]\nname = "quadratic"\nsigmaa = 5', ["quadratic", "no option sigmaa (did you mean sigma?)"]),
    ("[model]\nhiden = 5", ["model mlp has no option hiden (did you mean hidden?)"]),
    ('data = "digits"', ["data: should be a section, as in data.name = \"…\", not 'digits'"]),
    ('model = "mlp"\n[data]\nname = "logistic"', ["model", "should be a section, as in model.name"]),
    ("algorithm = 3", ['algorithm: should be a section, as in algorithm.name = "…", not 3']),
    ("[data]\nname = [1]", ["data.name", "valid string"]),
    ("[algorithm]\nname = 7", ["algorithm.name", "valid string"]),
    ('rounds = "many"', ["rounds", "valid integer", "'many'"]),
    ("rounds = 2.5", ["rounds", "valid integer", "2.5"]),
    ("rounds = true", ["rounds: should be a number or a word, not true"]),
    ("[algorithm]\neta_l = true", ["algorithm.eta_l: should be a number or a word, not true"]),
    ("rounds = 0", ["rounds", "greater than or equal to 1", "not 0"]),
    ("clients = -1", ["clients", "greater than or equal to 1"]),
    ("cohort = 0", ["cohort", "greater than or equal to 1"]),
    ("clients = 10\ncohort = 11", ["cohort (A = 11) must not exceed clients (M = 10)"]),
    ("seed = -1", ["seed", "greater than or equal to 0", "not -1"]),
    ("failure_rate = 1", ["failure_rate", "less than 1"]),
    ("failure_rate = nan", ["failure_rate"]),
    ("target_accuracy = 75", ["target_accuracy", "less than or equal to 1"]),
    ("evaluate_every = 0", ["evaluate_every", "greater than or equal to 1"]),
    ("micro_batch = 0", ["micro_batch", "greater than or equal to 1"]),
    ('engine = "vectr"', ["engine", "'loop'", "'vector'"]),
    ('oracle = "magic"', ["oracle: there is no 'magic'", "native, stacked"]),
    ('device = "tpu"', ["device", "'cpu'", "'cuda'"]),
    ('dtype = "float16"', ["dtype", "'float32'", "'float64'"]),
    ("[algorithm]\np = 0.0", ["algorithm", "p must lie strictly between 0 and 1"]),
    ("[algorithm]\np = 1.0", ["algorithm", "p must lie strictly between 0 and 1"]),
    ('[algorithm]\np = "best"', ["algorithm.p", "valid number", "'optimal'", "not 'best'"]),
    ("[algorithm]\ntau = 1", ["algorithm", "tau must be a whole number of at least 2"]),
    ("[algorithm]\ntau = 2\np = 0.5", ["algorithm", "give one of p, tau and pattern, not p and tau"]),
    ('[algorithm]\npattern = "0;1"', ["algorithm", "pattern", "0,0,1"]),
    ('[algorithm]\npattern = "0,0"', ["algorithm", "pattern", "only anchors or only miners"]),
    ("[algorithm]\nsmall_batch = 100\nlarge_batch = 50", ["small_batch (b' = 100) must not exceed large_batch"]),
    ('[algorithm]\nlarge_batch = "huge"', ["algorithm.large_batch", "full", "'huge'"]),
    ("[algorithm]\neta_l = 0", ["algorithm", "eta_l must be a finite number above 0"]),
    ('[algorithm]\neta_l = "fast"', ["algorithm.eta_l", "valid number", "'fast'"]),
    ("[algorithm]\nsteps = 0", ["algorithm", "steps must be a whole number of at least 1"]),
    ('[algorithm]\ncache = "disk"', ["algorithm.cache", "server", "client"]),
    ('[algorithm]\nname = "fedmad"', ["algorithm.name: there is no 'fedmad' (did you mean fedamd?)"]),
    ('[data]\nname = "digit"', ["data.name: there is no 'digit' (did you mean digits?)"]),
    ('[model]\nname = "mpl"', ["model.name: there is no 'mpl' (did you mean mlp?)"]),
    ('[partition]\nname = "clases"', ["partition.name: there is no 'clases' (did you mean classes?)"]),
    ("[partition]\nclasses_per_client = 0", ["partition", "classes_per_client"]),
    ('[algorithm]\np = "no_such_module_here:p"', ["algorithm.p", "cannot import no_such_module_here"]),
    ("[model]\nhidden = -2", ["model.hidden must be a whole number of at least 1"]),
    ('[data]\nname = "quadratic"\nsigma = "x"', ["data", "quadratic", "wrong type"]),
    ('[data]\nname = "quadratic"\nmu = [1]', ["data", "quadratic", "wrong type"]),
    ('clients = 100\n[data]\nname = "quadratic"\nclients = 3', ["has 3 clients of its own, but 100 are asked for"]),
    ('[model]\nname = "lenet5"', ["lenet5 needs images of at least 16", "digits"]),
    ('oracle = "native"\ndtype = "float64"\n[data]\nname = "quadratic"', ["oracle = native cannot be used"]),
    ("rounds = ", ["not valid TOML"]),
    ("[algorithm\n", ["not valid TOML"]),
]


@pytest.mark.parametrize(("text", "says"), MISTAKES, ids=[text.replace("\n", " ") for text, _ in MISTAKES])
def test_mistakes_end_the_command_with_one_sentence_and_nothing_written(text, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(text)
    result = CliRunner().invoke(app, ["run", "run.toml"])
    assert isinstance(result.exception, FedamdError), result.exception
    sentence = str(result.exception)
    assert "\n" not in sentence
    assert "pydantic" not in sentence
    for part in says:
        assert part in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(FedamdError, match=r"there is no config file .*nowhere\.toml"):
        load_config(tmp_path / "nowhere.toml")
    with pytest.raises(FedamdError, match=r"cannot read .*: it is a folder, and a config is a TOML file"):
        load_config(tmp_path)
    (tmp_path / "latin.toml").write_bytes("# caf\xe9\n".encode("latin-1"))
    with pytest.raises(FedamdError, match=r"cannot read .*latin\.toml: it is not text in UTF-8"):
        load_config(tmp_path / "latin.toml")


def test_a_mistake_says_which_file_it_is_in(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("rounds = 0")
    with pytest.raises(FedamdError, match=r"mine\.toml: rounds"):
        load_config(path)
    with pytest.raises(FedamdError, match="the configuration: rounds"):
        load_config({"rounds": 0})


# --- what is accepted ---


def test_the_default_is_fedamd_on_the_digits():
    config = load_config()
    assert (config.data.name, config.partition.name, config.model.name) == ("digits", "classes", "mlp")
    assert config.algorithm.name == "fedamd"
    assert (config.clients, config.cohort) == (100, 20)


@pytest.mark.parametrize(
    ("data", "partition", "model"),
    [
        ("fashion-mnist", "classes", "lenet5"),
        ("quadratic", "natural", "quadratic"),
        ("logistic", "natural", "logistic"),
        ("mnist", "classes", "mlp"),
    ],
)
def test_data_sets_bring_their_usual_company(data, partition, model):
    config = load_config({"data": {"name": data}})
    assert (config.partition.name, config.model.name) == (partition, model)
    assert load_config({"data": {"name": data}, "model": {"name": "softmax"}}).model.name == "softmax"


def test_the_logistic_model_takes_the_regularisation_of_its_data():
    config = load_config({"data": {"name": "logistic", "regularisation": 0.5}})
    assert config.model.options == {"regularisation": 0.5}


def test_changes_are_made_on_top_and_leave_the_source_alone():
    source = {"rounds": 3, "algorithm": {"name": "fedamd", "eta_l": 0.5}}
    config = load_config(source, {"rounds": 7, "algorithm.steps": 4})
    assert (config.rounds, config.build_algorithm().steps, config.build_algorithm().eta_l) == (7, 4, 0.5)
    assert source == {"rounds": 3, "algorithm": {"name": "fedamd", "eta_l": 0.5}}


@pytest.mark.parametrize("order", [1, -1])
def test_naming_another_method_drops_the_options_of_the_former_but_not_the_new_ones(order):
    """`--set algorithm.name=fedavg --set algorithm.steps=4` in any order: τ goes, steps stay."""
    changes = dict([("algorithm.name", "fedavg"), ("algorithm.steps", 4)][::order])
    config = load_config({"algorithm": {"name": "fedamd", "tau": 3}}, changes)
    assert config.algorithm.options == {"steps": 4}


def test_a_value_is_not_a_section():
    with pytest.raises(FedamdError, match=r"rounds\.fast: rounds is a value, not a section"):
        load_config({"rounds": 3}, {"rounds.fast": 1})


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("rounds=5", ("rounds", 5)),
        ("algorithm.eta_l = 1e-3", ("algorithm.eta_l", 1e-3)),
        ("algorithm.name=fedavg", ("algorithm.name", "fedavg")),
        ('algorithm.pattern="0,1"', ("algorithm.pattern", "0,1")),
        ("algorithm.pattern=0,1", ("algorithm.pattern", "0,1")),
        ("algorithm.pattern=[0,1]", ("algorithm.pattern", [0, 1])),
        ("a=b=c", ("a", "b=c")),
    ],
)
def test_settings_of_the_command_line(text, setting):
    assert parse_setting(text) == setting


@pytest.mark.parametrize("text", ["rounds", "=5", ""])
def test_a_setting_without_key_or_value_is_refused(text):
    with pytest.raises(FedamdError, match="expected key=value"):
        parse_setting(text)


# --- through TOML and back ---


def again(config: Config) -> Config:
    return load_config(tomllib.loads(to_toml(config.plain())))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"algorithm.pattern": "0,0,1", "target_accuracy": 0.75, "micro_batch": 7},
        {"algorithm.pattern": [0.25, 1.0], "algorithm.eta_l": 1e-7},
        {"algorithm.name": "scaffold"},
        {"data.name": "quadratic", "data.mu": 0.2, "clients": 10, "cohort": 2},
        {"model.name": "here:net", "model.widths": [3, 4], "model.inner": {"a b": "ü“\n😀", "deep": {"x": 1.5}}},
    ],
)
def test_a_config_survives_toml_and_has_every_default(changes):
    config = load_config({}, changes)
    assert again(config).plain() == config.plain()
    assert again(config).build_algorithm() == config.build_algorithm()
    assert config.plain()["clients"] >= 1
    if config.algorithm.name == "fedamd":
        assert {"eta_l", "eta_s", "steps", "start_up"} <= config.plain()["algorithm"].keys()


def test_a_schedule_of_the_users_own_survives_toml(tmp_path, monkeypatch):
    (tmp_path / "own_schedule.py").write_text("def often(t):\n    return 0.25 * (1 + t % 2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    config = again(load_config({"algorithm": {"p": "own_schedule:often"}}))
    assert config.plain()["algorithm"]["p"] == "own_schedule:often"
    assert [config.build_algorithm().schedule(20)(t) for t in range(3)] == [0.25, 0.5, 0.25]
    with pytest.raises(FedamdError, match=r"own_schedule has no 'oftn' \(did you mean often\?\)"):
        load_config({"algorithm": {"p": "own_schedule:oftn"}})


values = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text('ab é."-', min_size=1), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.text("abc_-1é. ", min_size=1), values, max_size=4))
def test_any_section_is_written_as_valid_toml(section):
    assert tomllib.loads(to_toml({"rounds": 3, "section": section})) == {"rounds": 3, "section": section}
