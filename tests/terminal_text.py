"""What a terminal shows of tables."""

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from attnx.reports.sweep.compare import compare


def terminal_text(table: Any, width: int = 300) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return file.getvalue()


def compare_folders(*folders: str | Path) -> tuple[dict[str, list[str]], str]:
    """The rows of the comparison by their names, and all of it as text with single spaces."""
    text = terminal_text(compare(folders), 500)
    lines = (re.split("[│┃]", line)[1:-1] for line in text.splitlines() if line[:1] in "│┃")
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in lines}, " ".join(text.split())
