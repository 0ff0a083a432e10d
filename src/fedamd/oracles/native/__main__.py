"""`python -m fedamd.oracles.native [--all]`: builds the library in place, for this CPU, or for all CPUs of its kind."""

import sys

from fedamd.oracles.native.build import BuildError, build_all, build_best

try:
    print(*(build_all() if "--all" in sys.argv[1:] else [build_best()]), sep="\n")
except BuildError as error:
    sys.exit(str(error))
