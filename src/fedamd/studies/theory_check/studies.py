"""All studies: run what they need, every problem in one lockstep, and let each of them conclude."""

from collections.abc import Callable, Sequence
from typing import Protocol

from fedamd.studies.theory_check.accuracy import NonConvex, PolyakLojasiewicz
from fedamd.studies.theory_check.batch import OverBatch
from fedamd.studies.theory_check.protocol import Results, Scale, grounds
from fedamd.studies.theory_check.rates import OverRates, TunedRates
from fedamd.studies.theory_check.results import StudyResult
from fedamd.studies.theory_check.schedules import OverCohort, OverP, OverTau
from fedamd.studies.theory_check.trajectory import Arm, watch

Progress = Callable[[str, float], None]  # which problem, and how far it is (0 … 1)


class Study(Protocol):
    """A question: the runs that it needs, and what they say. Its expectations are attributes of its class."""

    name: str
    problem: str
    arms: list[Arm]

    def conclude(self, results: Results, scale: Scale) -> StudyResult: ...


STUDIES = (NonConvex, PolyakLojasiewicz, OverP, OverTau, OverCohort, OverBatch, TunedRates, OverRates)


def measure(scale: Scale, progress: Progress = lambda *_: None) -> list[StudyResult]:
    """Run all studies."""
    fields = grounds()
    studies: Sequence[Study] = [make(scale, fields[make.problem]) for make in STUDIES]
    results: dict[str, Results] = {}
    for name, problem in fields.items():
        arms = [arm for study in studies if study.problem == name for arm in study.arms]
        results[name] = watch(problem, arms, scale.seeds, lambda share, name=name: progress(name, share))  # type: ignore[misc]
    return [study.conclude(results[study.problem], scale) for study in studies]
