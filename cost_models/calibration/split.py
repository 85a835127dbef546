"""How a fitted rate becomes the two numbers of a record, and the least values a fit may give."""

LEAST_TIME_S = 1e-9
"""Least latency or floor, in seconds: a record's numbers are positive; less is not told from zero."""

LEAST_RATE_INVERSE = 1e-18
"""Least seconds per byte or operation: an exabyte or exaflop a second."""


def split_rate(rate: float, peak: float, peak_key: str, efficiency_key: str) -> dict[str, float]:
    """An achieved rate as a peak and the fraction of it that is achieved.

    Args:
        rate: what was achieved, B/s or FLOP/s.
        peak: what the base record says, in the same unit.
        peak_key: the record's key of the peak.
        efficiency_key: that of the fraction.

    Returns:
        The fraction rate / peak alone, so that the peak keeps its value and source; where more was achieved
        than the base thinks possible, a peak of the rate and a fraction of 1.
    """
    return {efficiency_key: rate / peak} if rate <= peak else {peak_key: rate, efficiency_key: 1.0}
