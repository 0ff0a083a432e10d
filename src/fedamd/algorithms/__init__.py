"""Federated methods, one file each, and their names in configs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedamd.algorithms.anchored import Anchored
from fedamd.algorithms.base import Algorithm
from fedamd.algorithms.bvr_l_sgd import BVRLSGD
from fedamd.algorithms.fedacg import FedACG
from fedamd.algorithms.fedamd import FedAMD
from fedamd.algorithms.fedavg import FedAvg
from fedamd.algorithms.fedavg_m_vr import FedAvgMVR
from fedamd.algorithms.fedcm import FedCM
from fedamd.algorithms.feddyn import FedDyn
from fedamd.algorithms.fedexp import FedExP
from fedamd.algorithms.fedlesam import FedLESAM
from fedamd.algorithms.fedlin import FedLin
from fedamd.algorithms.fednova import FedNova
from fedamd.algorithms.fedpage import FedPAGE
from fedamd.algorithms.fedprox import FedProx
from fedamd.algorithms.fedvarp import FedVARP
from fedamd.algorithms.marina import PPMarina, VRMarina
from fedamd.algorithms.mifa import MIFA
from fedamd.algorithms.mime import Mime, MimeLite
from fedamd.algorithms.mime_mvr import MimeMVR
from fedamd.algorithms.minibatch_sgd import MinibatchSGD
from fedamd.algorithms.rg_saga import RGSAGA
from fedamd.algorithms.scaffold import Scaffold
from fedamd.algorithms.scaffold_m import ScaffoldM, ScaffoldMVR
from fedamd.algorithms.space import Linear, Log, Range, Space
from fedamd.algorithms.stem import STEM
from fedamd.errors import FedamdError
from fedamd.registry import Registry

__all__ = [
    "ALGORITHMS",
    "BVRLSGD",
    "COMPARED_BY_DEFAULT",
    "DEFAULT_ALGORITHM",
    "MIFA",
    "RGSAGA",
    "STEM",
    "Algorithm",
    "Anchored",
    "FedACG",
    "FedAMD",
    "FedAvg",
    "FedAvgMVR",
    "FedCM",
    "FedDyn",
    "FedExP",
    "FedLESAM",
    "FedLin",
    "FedNova",
    "FedPAGE",
    "FedProx",
    "FedVARP",
    "Method",
    "Mime",
    "MimeLite",
    "MimeMVR",
    "MinibatchSGD",
    "PPMarina",
    "Scaffold",
    "ScaffoldM",
    "ScaffoldMVR",
    "VRMarina",
]


@dataclass(frozen=True)
class Method:
    """A method that can be named in a config, with the settings its name stands for."""

    description: str
    make: Callable[..., Algorithm]
    presets: tuple[tuple[str, object], ...] = ()
    own_space: tuple[tuple[str, Range], ...] = ()  # what the presets make worth searching, or search elsewhere

    @property
    def space(self) -> Space:
        """Where its hyper-parameters are searched when it is tuned."""
        return {**getattr(self.make, "space", {}), **dict(self.own_space)}


_CAREFUL = ("eta_s", 0.1)  # an adaptive step is of size η_s in every coordinate: 1 would be far too much
_MOMENTUM = (("eta_s", Log(0.03, 3.0)), ("beta_1", Linear(0.5, 0.99)))
_ADAPTIVE = (("eta_s", Log(0.001, 0.3)), ("adaptivity", Log(0.0001, 0.1)))


def _adopted(name: str, found: Any) -> Method:
    """A user's own class, or function that makes an algorithm."""
    if not callable(found) or (isinstance(found, type) and not issubclass(found, Algorithm)):
        raise FedamdError(f"{name} is neither a subclass of fedamd.Algorithm nor a function that makes one")
    return Method(next(iter((found.__doc__ or name).splitlines())), found)


_OURS: dict[str, Method] = {
    "fedamd": Method("FedAMD: anchors and miners in one round (Wu et al., 2023)", FedAMD),
    "fedavg": Method("FedAvg: the mean of local SGD (McMahan et al., 2017)", FedAvg),
    "fedavgm": Method(
        "FedAvgM: FedAvg with server momentum (Hsu et al., 2019)", FedAvg, (("server", "momentum"),), _MOMENTUM
    ),
    "fedadam": Method(
        "FedAdam: FedAvg with Adam on the server (Reddi et al., 2021)",
        FedAvg,
        (("server", "adam"), _CAREFUL),
        _ADAPTIVE,
    ),
    "fedyogi": Method(
        "FedYogi: FedAvg with Yogi on the server (Reddi et al., 2021)",
        FedAvg,
        (("server", "yogi"), _CAREFUL),
        _ADAPTIVE,
    ),
    "fedadagrad": Method(
        "FedAdaGrad: FedAvg with AdaGrad on the server (Reddi et al., 2021)",
        FedAvg,
        (("server", "adagrad"), _CAREFUL),
        _ADAPTIVE,
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
    "fedcm": Method("FedCM: momentum on the clients (Xu et al., 2021); FedAvg-M (Cheng et al., 2024)", FedCM),
    "fedavg-m-vr": Method("FedAvg-M-VR: FedCM with a momentum brought along (Cheng et al., 2024)", FedAvgMVR),
    "scaffold-m": Method("SCAFFOLD-M: control variates and momentum (Cheng et al., 2024)", ScaffoldM),
    "scaffold-m-vr": Method("SCAFFOLD-M-VR: the same with variance reduction (Cheng et al., 2024)", ScaffoldMVR),
    "fedvarp": Method("FedVARP: a step reduced by everyone's last update (Jhunjhunwala et al., 2022)", FedVARP),
    "mifa": Method("MIFA: the mean of everyone's last update (Gu et al., 2021)", MIFA),
    "fedexp": Method("FedExP: FedAvg with an extrapolated step (Jhunjhunwala et al., 2023)", FedExP),
    "fedacg": Method("FedACG: local steps from where momentum leads (Kim et al., 2024)", FedACG),
    "stem": Method("STEM: STORM on clients and server (Khanduri et al., 2021)", STEM),
    "mime-mvr": Method("MimeMVR: Mime with STORM on the server (Karimireddy et al., 2021)", MimeMVR),
    "rg-saga": Method("RG-SAGA: a recursive gradient around SAGA's (Jiang et al., 2026)", RGSAGA),
    "fedlesam": Method("FedLESAM: sharpness-aware steps at no extra gradient (Fan et al., 2024)", FedLESAM),
    "anchored": Method("Anchored momentum: momentum, drift correction and a cache with a price", Anchored),
}

ALGORITHMS: Registry[Method] = Registry("algorithm", _OURS, _adopted)
DEFAULT_ALGORITHM = "fedamd"  # where a config names none
COMPARED_BY_DEFAULT = ("fedamd", "fedavg", "scaffold")
