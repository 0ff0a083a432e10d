import pytest

from fedamd.data import load
from fedamd.errors import FedamdError


@pytest.mark.parametrize("name", ["quadratic", "logistic"])
def test_a_problem_too_large_for_any_machine(name):
    """10^6 clients × 10^9 samples × 10 numbers of 8 bytes are 80,000,000 GB, and to make them takes four such arrays.

    Two 10 × 10 matrices a client, which the logistic problem's constants take, are 1.6 GB more.
    """
    size = "320,000,000" if name == "quadratic" else "320,000,001"
    with pytest.raises(FedamdError, match=rf"with 1000000000 samples of dimension 10 need {size} GB, and this machine"):
        load(name, clients=10**6, samples=10**9)
