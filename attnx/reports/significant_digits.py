"""Formats measured numbers with the digits that their interval, or else their size, supports; and p-values."""

from __future__ import annotations

import math

MIN_FIXED = 1e-6  # smaller numbers are written with an exponent


def digits_for(low: float, high: float) -> int:
    """Digits after the point that an interval supports: two significant ones of its half width.

    >>> digits_for(0.0831, 0.0942), digits_for(29.6, 35.4), digits_for(1200, 1800)
    (4, 1, 0)
    """
    return max(0, _places((high - low) / 2, 2))


def format_value(value: object, interval: tuple[float, float] | None = None) -> str:
    """A result as text, with the digits that its interval supports.

    Without an interval it has two digits after the point, four significant ones below 1. Integers have none, a missing
    value (None) is a dash, and a nonzero number is never written as zero.

    >>> format_value(0.08861, (0.0831, 0.0942)), format_value(31.5, (29.6, 35.4)), format_value(0.003, (0.0, 1.2))
    ('0.0886', '31.5', '0.003')
    >>> format_value(17814.434), format_value(0.00123456), format_value(29243), format_value(None)
    ('17,814.43', '0.001235', '29,243', '-')
    """
    if not isinstance(value, float) or not math.isfinite(value):
        return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
    return format_fixed(value, _digits(value, interval))


def format_count(count: float) -> str:
    """A large number with three significant digits.

    >>> format_count(8_455_241), format_count(51_200), format_count(3.2e10), format_count(512)
    ('8.46 M', '51.2 k', '32 G', '512')
    >>> format_count(999_700), format_count(999_400)
    ('1 M', '999 k')
    """
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= 0.9995 * size:  # which is rounded to 1
            return f"{max(1.0, count / size):.3g} {unit}"
    return f"{count:.3g}"


def format_fixed(value: float, digits: int) -> str:
    """A number with so many digits after the point, or more if it would be written as zero.

    >>> format_fixed(1234.5, 0), format_fixed(0.034, 0), format_fixed(0.0, 1)
    ('1,234', '0.03', '0.0')
    """
    if value and abs(value) < MIN_FIXED:
        return f"{value:.2g}"
    if value and not round(abs(value), digits):
        digits = _places(value, 1)
    return f"{value + 0.0:,.{digits}f}"


def format_with_interval(value: float, low: float, high: float) -> str:
    """A value and its interval, all with the digits that the interval supports.

    >>> format_with_interval(0.08861, 0.0831, 0.0942), format_with_interval(0, 0, 0.3682)
    ('0.0886 (0.0831 to 0.0942)', '0.00 (0.00 to 0.37)')
    """
    return f"{format_value(float(value), (low, high))} ({format_interval(low, high)})"


def format_interval(low: float, high: float) -> str:
    """An interval with the digits that it supports.

    >>> format_interval(29.6, 35.4), format_interval(1200.4, 1800.4)
    ('29.6 to 35.4', '1,200 to 1,800')
    """
    digits = _digits(max(abs(low), abs(high)), (low, high))
    return f"{format_fixed(low, digits)} to {format_fixed(high, digits)}"


def format_difference(difference: float, low: float, high: float) -> str:
    """A difference and its interval, with signs.

    >>> format_difference(0.0075, 0.0031, 0.0122), format_difference(-1.0, -2.5, 0.5)
    ('+0.0075 (+0.0031 to +0.0122)', '-1.0 (-2.5 to +0.5)')
    """
    digits = _digits(difference, (low, high))
    texts = [f"{'+' * (value > 0)}{format_fixed(value, digits)}" for value in (difference, low, high)]
    return "{} ({} to {})".format(*texts)


def p_text(p: float) -> str:
    """A p-value in a sentence.

    >>> p_text(0.0004), p_text(0.0312), p_text(0.4)
    ('p < 0.001', 'p = 0.031', 'p = 0.40')
    """
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def p_value(p: float) -> str:
    """A p-value in a table.

    >>> p_value(0.0004), p_value(0.0312), p_value(0.4)
    ('< 0.001', '0.031', '0.40')
    """
    if p < 0.001:
        return "< 0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _digits(value: float, interval: tuple[float, float] | None) -> int:
    """Digits after the point, by an interval with a width or else by the number's size."""
    if interval is not None:
        low, high = interval
        # A finite interval that is wider than a rounding error.
        if math.isfinite(high - low) and high > low and not math.isclose(low, high):
            return digits_for(low, high)
    return 2 if not abs(value) < 1 or value == 0 else _places(value, 4)


def _places(value: float, significant: int) -> int:
    """Digits after the point of so many significant ones."""
    return significant - 1 - int(f"{value:.{significant - 1}e}".partition("e")[2])
