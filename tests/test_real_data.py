"""The paper's setting on the real Fashion-MNIST, where its files are installed."""

import pytest
import torch

import fedamd
from fedamd.data import where

pytestmark = pytest.mark.skipif(where("fashion-mnist") is None, reason="Fashion-MNIST is not installed")


@pytest.fixture(scope="module")
def dataset():
    return fedamd.load("fashion-mnist")


def test_sizes_and_normalisation(dataset):
    assert dataset.inputs.shape == (60_000, 1, 28, 28)
    assert dataset.test_inputs.shape == (10_000, 1, 28, 28)
    assert torch.bincount(dataset.targets).tolist() == [6_000] * 10
    assert torch.bincount(dataset.test_targets).tolist() == [1_000] * 10
    assert dataset.inputs.min().item() == pytest.approx((0 - 0.1307) / 0.3081, abs=1e-5)
    assert dataset.inputs.max().item() == pytest.approx((1 - 0.1307) / 0.3081, abs=1e-5)


@pytest.mark.slow
def test_lenet5_on_a_hundred_clients_of_two_classes(dataset):
    """21 rounds {0, 1} begin and end with miners. Costs by the paper's count with A = 10, K = 10, b' = 64, n = 600:
    11·10·2·10·64 + 10·10·600 gradients, 11·30 + 10·20 vectors of 44,426 float32; and it learns."""
    partitions = []
    result = fedamd.run(
        data={"name": "fashion-mnist"},
        clients=100,
        cohort=10,
        rounds=21,
        evaluate_every=21,
        algorithm={"name": "fedamd", "pattern": "0,1", "eta_l": 0.03},  # far from chaos: one descent on every CPU
        listen=lambda run, _: partitions.append(run.site.clients),
    )
    assert result.x.shape == (44_426,)
    owners = partitions[0]
    assert set(owners.sizes) == {600}
    assert all(len(dataset.targets[owners.samples(i)].unique()) == 2 for i in range(100))
    assert torch.cat([owners.samples(i) for i in range(100)]).sort().values.equal(torch.arange(60_000))
    summary = result.summary
    assert summary["gradient_samples"] == 11 * 10 * 2 * 10 * 64 + 10 * 10 * 600
    assert summary["bits_up"] + summary["bits_down"] == (11 * 30 + 10 * 20) * 44_426 * 32
    assert summary["start_up"]["gradient_samples"] == 60_000
    losses = [record.test_loss for record in result.metrics if record.test_loss is not None]
    assert losses[0] == pytest.approx(2.3, abs=0.03)  # log 10, before any step
    assert losses[-1] < losses[0] - 0.01
