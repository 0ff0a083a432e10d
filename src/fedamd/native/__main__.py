"""`python -m fedamd.native`: builds the library in place."""

import sys

from fedamd.native.build import BuildError, build

try:
    print(build())
except BuildError as error:
    sys.exit(str(error))
