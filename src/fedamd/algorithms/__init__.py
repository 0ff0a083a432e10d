"""Federated methods, one file each, and their names in configs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedamd.algorithms.base import Algorithm
from fedamd.algorithms.bvr_l_sgd import BVRLSGD
from fedamd.algorithms.fedamd import FedAMD
from fedamd.algorithms.fedavg import FedAvg
from fedamd.algorithms.feddyn import FedDyn
from fedamd.algorithms.fedlin import FedLin
from fedamd.algorithms.fednova import FedNova
from fedamd.algorithms.fedpage import FedPAGE
from fedamd.algorithms.fedprox import FedProx
from fedamd.algorithms.marina import PPMarina, VRMarina
from fedamd.algorithms.mime import Mime, MimeLite
from fedamd.algorithms.minibatch_sgd import MinibatchSGD
from fedamd.algorithms.scaffold import Scaffold
from fedamd.errors import FedamdError
from fedamd.registry import Registry

__all__ = [
    "ALGORITHMS",
    "BVRLSGD",
    "Algorithm",
    "FedAMD",
    "FedAvg",
    "FedDyn",
    "FedLin",
    "FedNova",
    "FedPAGE",
    "FedProx",
    "Method",
    "Mime",
    "MimeLite",
    "MinibatchSGD",
    "PPMarina",
    "Scaffold",
    "VRMarina",
]


@dataclass(frozen=True)
class Method:
    """A method that can be named in a config, with the settings its name stands for."""

    description: str
    make: Callable[..., Algorithm]
    presets: tuple[tuple[str, object], ...] = ()


_CAREFUL = ("eta_s", 0.1)  # an adaptive step is of size η_s in every coordinate: 1 would be far too much


def _adopted(name: str, found: Any) -> Method:
    """A user's own class, or function that makes an algorithm."""
    if not callable(found) or (isinstance(found, type) and not issubclass(found, Algorithm)):
        raise FedamdError(f"{name} is neither a subclass of fedamd.Algorithm nor a function that makes one")
    return Method(next(iter((found.__doc__ or name).splitlines())), found)


_OURS: dict[str, Method] = {
    "fedamd": Method("FedAMD: anchors and miners in one round (Wu et al., 2023)", FedAMD),
    "fedavg": Method("FedAvg: the mean of local SGD (McMahan et al., 2017)", FedAvg),
    "fedavgm": Method("FedAvgM: FedAvg with server momentum (Hsu et al., 2019)", FedAvg, (("server", "momentum"),)),
    "fedadam": Method(
        "FedAdam: FedAvg with Adam on the server (Reddi et al., 2021)", FedAvg, (("server", "adam"), _CAREFUL)
    ),
    "fedyogi": Method(
        "FedYogi: FedAvg with Yogi on the server (Reddi et al., 2021)", FedAvg, (("server", "yogi"), _CAREFUL)
    ),
    "fedadagrad": Method(
        "FedAdaGrad: FedAvg with AdaGrad on the server (Reddi et al., 2021)", FedAvg, (("server", "adagrad"), _CAREFUL)
    ),
    "fedprox": Method("FedProx: local SGD held near the server's model (Li et al., 2020)", FedProx),
    "fednova": Method("FedNova: normalised means of unequal numbers of steps (Wang et al., 2020)", FedNova),
    "feddyn": Method("FedDyn: dynamic regularisation of the clients (Acar et al., 2021)", FedDyn),
    "mime": Method("Mime: server momentum and SVRG on the clients (Karimireddy et al., 2021)", Mime),
    "mimelite": Method("MimeLite: server momentum on the clients (Karimireddy et al., 2021)", MimeLite),
    "fedlin": Method("FedLin: local steps corrected by gradients at x_t (Mitra et al., 2021)", FedLin),
    "scaffold": Method("SCAFFOLD: local steps corrected by control variates (Karimireddy et al., 2020)", Scaffold),
    "fedpage": Method("FedPAGE: full gradients of everyone or recursive local steps (Zhao et al., 2021)", FedPAGE),
    "bvr-l-sgd": Method("BVR-L-SGD: bias-variance reduced local SGD (Murata & Suzuki, 2021)", BVRLSGD),
    "minibatch-sgd": Method("Minibatch SGD: one large-batch step a round (Woodworth et al., 2020)", MinibatchSGD),
    "vr-marina": Method("VR-MARINA: compressed gradient differences of everyone (Gorbunov et al., 2021)", VRMarina),
    "pp-marina": Method("PP-MARINA: compressed gradient differences of a cohort (Gorbunov et al., 2021)", PPMarina),
}

ALGORITHMS: Registry[Method] = Registry("algorithm", _OURS, _adopted)
