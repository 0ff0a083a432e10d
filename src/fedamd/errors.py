"""What a user is told: the one exception a user can cause, and the one warning."""


class FedamdError(ValueError):
    """A mistake in what the user gave: the command line prints the message and exits with code 2."""


class FedamdWarning(UserWarning):
    """Something that a user should know of, but that stops nothing."""
