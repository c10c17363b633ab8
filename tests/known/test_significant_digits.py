"""Numbers as text have the digits that their intervals support, and no false zero."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnx.reports.significant_digits import (
    digits_for,
    format_difference,
    format_interval,
    format_value,
    format_with_interval,
)

NUMBERS = st.floats(-1e9, 1e9, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "low", "high", "message"),
    [
        (0.08861, 0.0831, 0.0942, "0.0886 (0.0831 to 0.0942)"),
        (0.0000712, 0.0000583, 0.000084, "0.000071 (0.000058 to 0.000084)"),
        (28.6, 25.8, 31.4, "28.6 (25.8 to 31.4)"),
        (85.71, 42.1, 99.6, "86 (42 to 100)"),
        (17814.43, 16200.0, 19000.0, "17,814 (16,200 to 19,000)"),
        (0.0, 0.0, 0.3682, "0.00 (0.00 to 0.37)"),
        # Two digits of 0.996 are 1.0.
        (12.345, 11.349, 13.341, "12.3 (11.3 to 13.3)"),
        # What is small for its interval is shown all the same.
        (0.003, 0.0004, 1.2, "0.003 (0.0004 to 1.20)"),
        (-0.4, -1.234, 0.00021, "-0.40 (-1.23 to 0.0002)"),
        # An interval without a width, but for rounding, says nothing of digits.
        (0.1, 0.1, 0.1 + 1e-16, "0.1000 (0.1000 to 0.1000)"),
        (34.0, 34.0, 34.0, "34.00 (34.00 to 34.00)"),
        (34.0, float("nan"), float("inf"), "34.00 (nan to inf)"),
    ],
)
def test_digits_follow_the_interval(value, low, high, message):
    assert format_with_interval(value, low, high) == message


@given(NUMBERS, NUMBERS, NUMBERS)
def test_only_zero_reads_as_zero(value, low, high):
    for text in (format_value(value), format_value(value, (min(low, high), max(low, high)))):
        assert (float(text.replace(",", "")) == 0) == (value == 0), text


@given(st.floats(-1e3, 1e3), st.floats(1e-5, 1e6))
def test_the_half_width_has_two_digits(low, width):
    """It is from 10 to 99 of their last place once it is rounded, or more where there is nothing behind the point."""
    digits = digits_for(low, low + width)
    half = (low + width - low) / 2 * 10**digits
    assert half >= 9.5
    assert half <= 99.5 or digits == 0


def test_differences_have_signs():
    assert format_difference(0.0, -0.012, 0.034) == "0.000 (-0.012 to +0.034)"
    assert format_difference(-30.0, -30.0, -30.0) == "-30.00 (-30.00 to -30.00)"
    assert format_interval(-0.0, 3.7) == "0.0 to 3.7"
