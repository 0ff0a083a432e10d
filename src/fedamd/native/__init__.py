"""The C++ library (`kernels/`) behind whatever is faster in native code on a CPU: gradients, and the draws of batches.

Installing the package with a C++ compiler at hand builds it, and so does `python -m fedamd.native`. Without it
everything works, only slower.
"""

from fedamd.native.library import available

__all__ = ["available"]
