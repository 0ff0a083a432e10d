"""Hand-written C++ for a CPU (`kernels/`): gradients of small networks, and the draws of batches.

As many samples as a vector register holds lie side by side in one, so that convolutions as small as LeNet-5's use the
whole CPU. For `nn.Sequential`s of Conv2d, ReLU, MaxPool2d, Dropout, Flatten and Linear with softmax
cross-entropy, in float32.
The models of a stack are spread over threads; results are the same bit for bit for every number of threads.

Installing the package with a C++ compiler at hand builds the library, and so does `python -m fedamd.oracles.native`.
Without it everything works, only slower.

library.py   finds and loads the library         build.py     compiles it
oracle.py    gradients through it                layers.py    which models it takes
batches.py   the draws of `fedamd.draw`
"""

from fedamd.oracles.native.library import available

__all__ = ["available"]
