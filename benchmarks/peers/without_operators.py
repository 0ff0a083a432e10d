"""Lets torchvision be imported where its compiled operators cannot be loaded; import this before it.

The torchvision of the registry is built for CUDA and does not load beside a PyTorch without. While it is imported it
describes two of its operators to PyTorch, which must know them by then: they are declared here, without any code.
FedLab and fluke import torchvision for their data sets; W uses none of it.
"""

import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
