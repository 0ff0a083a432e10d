"""The theory's constants for a run's problem: exact where its data knows them, estimated at x_0 otherwise."""

from torch import Tensor, nn

from fedamd.data.base import Clients, Constants, Dataset
from fedamd.models import Logistic, Quadratic, Softmax
from fedamd.theory.estimate import Estimates, Progress, estimate_constants

LEAST_BUDGET = 200_000  # gradient samples
WHOLE_CLIENTS = 75  # a budget of so many times the largest client pays for the heterogeneity of three whole clients


def exact_constants(model: nn.Module, dataset: Dataset) -> Constants | None:
    """What a synthetic data set knows of its problem; None where the model is not the one these constants are of."""
    known = dataset.constants
    if known is None:
        return None
    own = isinstance(model, Quadratic) or (isinstance(model, Logistic) and model.regularisation == known.mu)
    return known if own else None


def estimated_constants(
    model: nn.Module,
    dataset: Dataset,
    clients: Clients,
    x0: Tensor,
    *,
    budget: int | None = None,
    progress: Progress | None = None,
) -> Estimates:
    """Estimates at x_0, the same at every call; F* is the problem's own where it is known, else 0, which no loss is
    below. μ is estimated where the model is convex."""
    known = exact_constants(model, dataset)
    return estimate_constants(
        model,
        dataset,
        clients,
        x0,
        budget=max(LEAST_BUDGET, WHOLE_CLIENTS * max(clients.sizes)) if budget is None else budget,
        convex=isinstance(model, Quadratic | Logistic | Softmax),
        minimum=known.minimum if known else 0.0,
        progress=progress,
    )
