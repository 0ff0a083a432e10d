"""Numbers as people read them: data in MB and GB, large counts, durations."""

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def data_size(bits: float) -> str:
    """As in 1.25 MB; a kilobyte is 1000 bytes of 8 bits.

    >>> data_size(10_000_000)
    '1.25 MB'
    """
    return _scaled(bits / 8, " ", "B")


def count(number: float) -> str:
    """Three digits are enough to compare by.

    >>> count(1_234_567), count(999)
    ('1.23M', '999')
    """
    return _scaled(number, "", "")


def duration(seconds: float) -> str:
    """In the unit that is not too small.

    >>> duration(7.25), duration(200), duration(7500)
    ('7.2 s', '3 min 20 s', '2 h 05 min')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def _scaled(value: float, gap: str, unit: str) -> str:
    for size, prefix in _PREFIXES:
        if abs(value) >= 0.9995 * size:
            return f"{_brief(value / size)}{gap}{prefix}{unit}"
    return f"{_brief(value)}{gap}{unit}".rstrip()


def _brief(value: float) -> str:
    """Three digits, and all of those before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
