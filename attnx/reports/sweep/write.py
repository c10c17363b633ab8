"""Writes the report of runs: report.html to look into, report.md to read, report.csv to count with, report.tex."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from attnx.errors import UserError
from attnx.files.atomic_files import whole_file
from attnx.files.printable import printable
from attnx.reports.pages.html_template import filled
from attnx.reports.sweep.comparison import comparisons
from attnx.reports.sweep.latex import latex
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.markdown import markdown
from attnx.reports.sweep.page_data import content
from attnx.reports.sweep.spreadsheet import spreadsheet
from attnx.runs.status import RunStatus

STEM = "report"
PAGE = Path(__file__).parents[1] / "pages" / "sweep_page.html"


def write_report(folders: Sequence[Path | str], out: Path | str | None = None) -> list[Path]:
    """Write the report of all runs in some folders, over an older one, and return its files, the page first.

    Args:
        folders: of runs, of sweeps, or that hold such; a run that cannot be read is left out, with a line.
        out: a folder, or the page's own name, ``.html``; left out, the deepest folder that holds all.

    Raises:
        UserError: a folder holds no run, cannot be read, or ``out`` cannot be written.
    """
    found = load_runs(folders)
    for run in found:
        if run.status == RunStatus.UNREADABLE:
            print(f"attnx: left out: {printable(run.error)}", file=sys.stderr)
    page = _page(folders, out)
    title = " and ".join(dict.fromkeys(Path(folder).resolve().name for folder in folders))
    compared = comparisons(found)
    texts = {
        ".html": filled(PAGE, title, content(title, found, compared, page.parent)),
        ".md": markdown(title, found, compared),
        ".csv": spreadsheet(compared),
        ".tex": latex(compared),
    }
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        return [_put(page.with_suffix(suffix), text) for suffix, text in texts.items()]
    except OSError as error:
        raise UserError(f"{page}: cannot be written ({error.strerror}); say where: --out FOLDER") from error


def _page(folders: Sequence[Path | str], out: Path | str | None) -> Path:
    if out is None:
        home = Path(os.path.commonpath([Path(folder).resolve() for folder in folders]))
        if home == Path(home.anchor):
            raise UserError("these folders have none in common that a report could lie in; say where: --out FOLDER")
        here = Path.cwd()
        return (home.relative_to(here) if home.is_relative_to(here) else home) / f"{STEM}.html"
    path = Path(out)
    return path if path.suffix == ".html" and not path.is_dir() else path / f"{STEM}.html"


def _put(path: Path, text: str) -> Path:
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="")
    return path
