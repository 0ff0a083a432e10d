"""The one exception a user can cause: its message says what is wrong, where, and what would be right."""


class FedamdError(ValueError):
    """A mistake in what the user gave: the command line prints the message and exits with code 2."""
