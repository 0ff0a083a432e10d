"""A run's numbers as TensorBoard events, for those who watch their runs there."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedamd.errors import FedamdError
from fedamd.report.curves import MEASURES
from fedamd.runs.run import Record, Run
from fedamd.runs.summary import COSTS

_PLACES = {  # of the numbers that do not count clients
    **{measure: f"measured/{name}" for measure, name in MEASURES.items()},
    **{cost: f"cost/{cost.replace('_', ' ')}" for cost in COSTS},
    "seconds": "cost/seconds of the round",
}


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
        step = record["round"] + 1
        if self._writer is None:  # not before the run has made its folder; what a resumed run repeats is discarded
            self._writer = self._make(str(self._folder), purge_step=step)
        told = MEASURES if step == 0 else record.keys() - {"round"}  # the start-up's costs are in no total
        for name in sorted(told):
            if record[name] is not None:
                self._writer.add_scalar(_PLACES.get(name, f"clients/{name}"), record[name], step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
