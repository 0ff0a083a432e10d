"""The samples, and whose they are."""

from pathlib import Path

from fedamd import Dataset


def patients(file: str = "patients.csv") -> Dataset:
    """Patients of six hospitals; a fifth of each hospital's is kept for the test."""
    path = Path(__file__).parent / file
    data = Dataset.of(path, target="outcome", client="hospital", test_share=0.2)
    mean, scale = data.inputs.mean(0), data.inputs.std(0)
    data.inputs.sub_(mean).div_(scale)
    data.test_inputs.sub_(mean).div_(scale)
    return data
