"""A run's numbers as TensorBoard events, for those who watch their runs there."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedamd.errors import FedamdError
from fedamd.report.curves import MEASURES
from fedamd.runs.records import Record
from fedamd.runs.run import Run


class TensorBoardListener:
    """Listens to a run and writes scalars into `folder`; the step is the number of rounds done.

    with TensorBoardListener(out / "tensorboard") as listen:
        run(config, out=out, listen=listen)
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise FedamdError(
                "TensorBoard events need the package tensorboard: pip install 'fedamd[tensorboard]'"
            ) from None
        self._make = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def __call__(self, run: Run, record: Record) -> None:  # noqa: ARG002  what every listener is told
        step = record.round + 1
        if self._writer is None:  # not before the run has made its folder; what a resumed run repeats is discarded
            self._writer = self._make(str(self._folder), purge_step=step)
        for place, value in _scalars(record).items():
            if value is not None:
                self._writer.add_scalar(place, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Everything is on disk when this returns."""
        if self._writer is not None:
            self._writer.close()


def _scalars(record: Record) -> dict[str, float | None]:
    """The numbers of a record by their place; of the start-up only what was measured, as its costs are in no total."""
    names = ["loss", *record.metrics]
    told = {f"measured/{MEASURES.get(name, name)}": record.measured(name) for name in names}
    if record.round < 0:
        return told
    clients = {f"{role}s": count for role, count in record.roles.items()}
    clients |= {"missing": record.missing, "rejected": record.rejected}
    return (
        told
        | {f"clients/{name}": count for name, count in clients.items()}
        | {f"cost/{cost.replace('_', ' ')}": total for cost, total in record.costs.items()}
        | {f"engine/{name.replace('_', ' ')}": value for name, value in record.extras.items()}
        | {"cost/seconds of the round": record.seconds}
    )
