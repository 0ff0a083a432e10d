"""`python -m fedamd.oracles.native`: builds the library in place."""

import sys

from fedamd.oracles.native.build import BuildError, build

try:
    print(build())
except BuildError as error:
    sys.exit(str(error))
