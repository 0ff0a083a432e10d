"""What a user is told: the one exception a user can cause, errors inside a user's own code, and the one warning."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

_NOT_THE_USERS = {"fedamd", "torch", "numpy"} | sys.stdlib_module_names  # packages whose lines nobody wants to be shown


class FedamdError(ValueError):
    """A mistake in what the user gave: the command line prints the message and exits with code 2."""


class UserCodeError(FedamdError):
    """An error inside a role, model, metric or other part that a user has written; the error itself is its cause."""


class FedamdWarning(UserWarning):
    """Something that a user should know of, but that stops nothing."""


@contextmanager
def at_work(place: str) -> Iterator[None]:
    """An error in this block is told with `place`, which says who was at work when; outer places come first."""
    try:
        yield
    except UserCodeError as error:
        raise UserCodeError(f"{place}, {error}") from error.__cause__
    except FedamdError:
        raise
    except Exception as error:
        raise UserCodeError(f"{place}: {described(error)}") from error


def described(error: Exception) -> str:
    """An error in one line: its kind, what it says, and the last line of the user's own files that it passed."""
    says = str(error).strip().splitlines()
    lines = [
        f"{frame.f_code.co_filename}, line {number}"
        for frame, number in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _NOT_THE_USERS
    ]
    return type(error).__name__ + (f": {says[0]}" if says else "") + (f" ({lines[-1]})" if lines else "")


def round_named(t: int) -> str:
    """Round t in words; the start-up pass comes before round 0."""
    return f"round {t}" if t >= 0 else "the start-up pass"
