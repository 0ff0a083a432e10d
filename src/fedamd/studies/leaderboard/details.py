"""What a reported run tells beside its curve: how the worst-off clients fare, simulated time, and memory.

A client's accuracy is that of the test set's classes, weighted by the classes the client has: what differs between the
clients of a leaderboard are their shares of the classes, and no sample has to be kept from training for it.
"""

from typing import Any

import torch

from fedamd.runs.clients_file import samples_by_class
from fedamd.runs.evaluation import spread
from fedamd.runs.run import Run


def details(run: Run) -> dict[str, Any]:
    """Worst decile, memory and, where the clients have devices, the seconds until each evaluation."""
    told: dict[str, Any] = {"worst_decile": worst_decile(run), "memory": memory(run)}
    start = run.start_up.simulated_seconds or 0.0
    evaluated = [record for record in run.records if record.round >= 0 and record.accuracy is not None]
    if run.experiment.simulated_time is not None:
        told["seconds"] = [round(start + record.costs["simulated_seconds"], 2) for record in evaluated]
    return told


def worst_decile(run: Run) -> float | None:
    """The mean accuracy of the tenth of the clients that fare worst; none where the model is not finite."""
    experiment = run.experiment
    x = experiment.algorithm.evaluated(run.state)
    if not bool(torch.isfinite(x).all()):
        return None
    by_class = torch.tensor(experiment.evaluation.by_class(x), dtype=torch.float64)
    known = by_class.isfinite()  # a class may have no test sample
    everybody = range(len(experiment.clients))
    counts = samples_by_class(experiment.dataset, experiment.clients, everybody)[:, known].double()
    of_clients = (counts @ by_class[known]) / counts.sum(1)
    worst = spread(of_clients.tolist(), higher_is_better=True).get("worst_decile")
    return round(worst, 4) if isinstance(worst, float) else None


def memory(run: Run) -> list[float]:
    """What the server keeps between two rounds, and what a client keeps: so many numbers for each of the model's."""
    d = run.state.x.numel()
    server = sum(value.numel() for _, value in run.state.items())
    stacks = [stack for stack in run.site.store.tensors().values() if stack.dim() == 2]
    return [round(server / d, 2), round(sum(stack.shape[1] for stack in stacks) / d, 2)]
