"""A plug-in of pytest: seconds of CPU of each test file with its processes, those of waiting and of others left out.

``python -m pytest -q -p benchmarks.seconds_of_tests tests/runs`` prints them after the tests. Without ``-n``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest

SECONDS: defaultdict[str, float] = defaultdict(float)
SHOWN_FILES = 40


def cpu_seconds() -> float:
    """Of this process, and of those it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add a test's seconds to its file."""
    start = cpu_seconds()
    result = yield
    SECONDS[item.nodeid.partition("::")[0]] += cpu_seconds() - start
    return result


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the files that take longest, then all."""
    slowest = sorted(SECONDS.items(), key=lambda item: -item[1])[:SHOWN_FILES]
    for file, seconds in [*slowest, ("all tests", sum(SECONDS.values()))]:
        terminalreporter.write_line(f"{seconds:8.1f} s  {file}")
    terminalreporter.write_line(f"{cpu_seconds():8.1f} s  with collection and imports")
