"""The keys of a config as the shell completes them after --set: `algorithm.e` and tab.

They are written down here for the reason `names` gives; a test holds them to what can really be set.
"""

from fedamd.cli import names

TOP = [
    "clients",
    "cohort",
    "rounds",
    "seed",
    "failure_rate",
    "devices",
    "deadline",
    "target",
    "target_accuracy",
    "evaluate_every",
    "metrics",
    "test_share",
    "evaluate_clients_every",
    "callbacks",
    "checkpoint_every",
    "engine",
    "oracle",
    "device",
    "dtype",
    "precision",
    "micro_batch",
    "client_store",
]
SECTIONS = {
    "data": [
        "name",
        "path",
        "augment",
        "shape",
        "classes",
        "test_share",
        "target",
        "client",
        "columns",
        "test_path",
        "tokens",
        "size",
        "samples",
        "dimension",
        "mu",
        "L",
        "sigma",
        "heterogeneity",
        "regularisation",
    ],
    "partition": ["name", "classes_per_client", "alpha", "min_size", "source", "samples_per_client"],
    "model": [
        "name",
        "hidden",
        "dropout",
        "groups",
        "embedding",
        "states",
        "width",
        "heads",
        "layers",
        "regularisation",
    ],
    "algorithm": [
        "name",
        "eta_s",
        "server",
        "beta_1",
        "beta_2",
        "adaptivity",
        "eta_l",
        "steps",
        "small_batch",
        "large_batch",
        "p",
        "tau",
        "pattern",
        "c",
        "mu",
        "cache",
        "start_up",
        "weights",
        "epochs",
        "alpha",
        "beta",
        "option",
        "period",
        "participation",
        "synchronise",
        "compressor",
        "fraction",
        "levels",
        "epsilon",
        "lookahead",
        "a",
        "rho",
        "s",
        "refresh",
        "reduced",
        "ahead",
    ],
    "sampler": ["name", "groups", "leaves", "comes", "path"],
    "stop": ["metric", "target", "patience", "max_gradients", "max_bits", "max_simulated_seconds", "max_seconds"],
}
FEDERATION = [  # in a run over Flower alone
    "task",
    "folder",
    "deadline",
    "close_at",
    "min_replies",
    "attempts",
    "retry_after",
    "start_clients",
    "start_wait",
    "renew",
    "wire_dtype",
    "metrics_port",
    "keys",
]
SCHEDULED = ("eta_l", "eta_s", "p", "steps", "small_batch", "large_batch")  # what is usually scheduled
VALUES = {
    "data.name": names.DATASETS,
    "partition.name": names.PARTITIONERS,
    "model.name": names.MODELS,
    "algorithm.name": names.ALGORITHMS,
    "sampler.name": names.SAMPLERS,
    "metrics": names.METRICS,
    "callbacks": names.CALLBACKS,
    "engine": names.ENGINES,
    "oracle": names.ORACLES,
    "device": names.DEVICES,
    "federation.wire_dtype": ("float16", "bfloat16"),
} | {f"schedules.{name}": names.SCHEDULES for name in SCHEDULED}


def keys() -> list[str]:
    """All that can be set."""
    options = [f"{section}.{name}" for section, own in SECTIONS.items() for name in own]
    return [*TOP, *options, *(f"schedules.{name}" for name in SCHEDULED)]


def setting(incomplete: str) -> list[str]:
    """Completes KEY=, and then its value where there are few."""
    key, equals, begun = incomplete.partition("=")
    if equals:
        return [f"{key}={value}" for value in VALUES.get(key, ()) if value.startswith(begun)]
    return [f"{one}=" for one in keys() if one.startswith(key)]


def federation_setting(incomplete: str) -> list[str]:
    """The same for a run over Flower."""
    own = [f"federation.{name}=" for name in FEDERATION]
    return [*setting(incomplete), *(one for one in own if one.startswith(incomplete))]
