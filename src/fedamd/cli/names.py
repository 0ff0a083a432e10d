"""Names that the shell completes with tab.

They are written down here once more because their homes import PyTorch, for which a person who presses tab should not
have to wait. A test holds them to what can really be named.
"""

from collections.abc import Callable, Iterable

ALGORITHMS = (
    "fedamd",
    "fedavg",
    "fedavgm",
    "fedadam",
    "fedyogi",
    "fedadagrad",
    "fedprox",
    "fednova",
    "feddyn",
    "mime",
    "mimelite",
    "fedlin",
    "scaffold",
    "fedpage",
    "bvr-l-sgd",
    "minibatch-sgd",
    "vr-marina",
    "pp-marina",
    "fedcm",
    "fedavg-m-vr",
    "scaffold-m",
    "scaffold-m-vr",
    "fedvarp",
    "mifa",
    "fedexp",
    "fedacg",
    "stem",
    "mime-mvr",
    "rg-saga",
    "fedlesam",
    "anchored",
)
FETCHED = ("fashion-mnist", "mnist", "emnist-digits", "cifar-10", "cifar-100")  # data sets that have to be downloaded
DATASETS = (
    *("digits", "fashion-mnist", "mnist", "emnist-digits", "cifar-10", "cifar-10-jpeg", "cifar-100", "femnist", "leaf"),
    *("csv", "npz", "pictures", "quadratic", "logistic"),
)
MODELS = (
    *("lenet5", "mlp", "cnn", "cnn-pfl", "resnet18-gn", "resnet18-gn-cifar", "vgg11-gn", "charlstm", "transformer"),
    *("softmax", "logistic", "quadratic"),
)
PARTITIONERS = ("auto", "classes", "dirichlet", "iid", "lists", "natural", "virtual")
SAMPLERS = ("uniform", "weighted", "cyclic", "markov", "trace")
SCHEDULES = ("constant", "step", "cosine", "exponential")
METRICS = ("accuracy", "f1", "auc", "mse", "mae", "r2")
CALLBACKS = ("csv", "tensorboard", "wandb", "mlflow")
COMPRESSORS = ("identity", "rand-k", "quantise")
ENGINES = ("auto", "loop", "vector", "distributed")
ORACLES = ("auto", "native", "stacked", "graph", "autograd")
DEVICES = ("cpu", "cuda")
COSTS = ("rounds", "gradients", "bits", "seconds")
LISTED = {  # what `fedamd list` has of each kind
    "algorithms": ALGORITHMS,
    "datasets": DATASETS,
    "models": MODELS,
    "partitioners": PARTITIONERS,
    "samplers": SAMPLERS,
    "schedules": SCHEDULES,
    "metrics": METRICS,
    "callbacks": CALLBACKS,
    "compressors": COMPRESSORS,
    "engines": ENGINES[1:],
    "oracles": ORACLES[1:],
}

Completion = Callable[[str], list[str]]


def one_of(names: Iterable[str]) -> Completion:
    """Completes a name."""
    known = tuple(names)

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


def some_of(names: Iterable[str]) -> Completion:
    """Completes the last of several names with commas between them."""
    last = one_of(names)

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [before + comma + name for name in last(begun)]

    return complete
