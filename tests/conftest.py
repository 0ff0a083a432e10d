"""What all tests share: Ctrl-C works, and the native library is built where there is a compiler."""

import signal

import pytest
from hypothesis import HealthCheck, settings

from fedamd.oracles.native import available, build
from fedamd.oracles.native import library as library_module

# how long an example takes says something of the machine, nothing of the code
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Tests that are started in the background, or by nohup, ignore Ctrl-C or a hang-up, and so do their processes."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def library() -> None:
    """Built for these sources if it is not yet; without a compiler the tests that need it are skipped."""
    if available() is None:
        return
    if build.compiler() is None or not build.runnable():
        pytest.skip("no C++ compiler or no CPU for it, and the native library is not built")
    build.build(library_module.candidates()[0])
    available.cache_clear()
    assert available() is None
