"""The native library, built for these sources if it is not yet; without a compiler tests that need it are skipped."""

import pytest

from fedamd.native import available, build


@pytest.fixture(scope="session")
def library() -> None:
    if available() is None:
        return
    if build.compiler() is None:
        pytest.skip("no C++ compiler, and the native library is not built")
    build.build()
    available.cache_clear()
    assert available() is None
