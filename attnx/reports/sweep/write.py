"""Writes the report of runs: report.html, report.md, report.csv, report.tex, report.effects.csv and report.runs.csv."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from attnx.errors import UserError
from attnx.files.atomic_files import refuse_foreign, write_text
from attnx.files.printable import printable
from attnx.reports.pages.html_template import BEGINNING, fill_page
from attnx.reports.sweep.ablations import parse_reference
from attnx.reports.sweep.effects_table import effects_spreadsheet
from attnx.reports.sweep.latex_tables import latex
from attnx.reports.sweep.page_data import page_data
from attnx.reports.sweep.ranking_tables import spreadsheet
from attnx.reports.sweep.report import report
from attnx.reports.sweep.run_table import table_text
from attnx.runs.status import RunStatus

STEM = "report"
SUFFIXES = (".html", ".md", ".csv", ".tex", ".effects.csv", ".runs.csv")
PAGE = Path(__file__).parents[1] / "pages" / "sweep_page.html"


def write_report(
    folders: Sequence[Path | str],
    out: Path | str | None = None,
    reference: Sequence[str] = (),
    filters: Sequence[str] = (),
    best_over: Sequence[str] = (),
) -> list[Path]:
    """Write the report of all runs in some folders, replacing an older one, and return its files, the page first.

    Folders are of runs, of sweeps, or with some in them; a file is a table of runs. Unreadable runs are left out with a
    warning. ``out`` is a folder, or the path of the page (``.html``); by default the common parent folder.
    ``reference`` are choices, ``scorer=additive``, of the setting whose ablations are listed; ``filters`` select runs,
    and ``best_over`` chooses the best value of its keys for each setting, in validation.

    Raises:
        UserError: a folder holds no run, cannot be read, ``out`` cannot be written, no setting is the reference, no
            run passes the filters, or ``best_over`` has nothing to choose from; a file of the report is a table
            that it reads.
    """
    choices = parse_reference(reference)  # refused before any run is read
    page = _page(folders, out)
    files = [page.with_suffix(suffix) for suffix in SUFFIXES]
    if tables := {path.resolve() for path in files} & {Path(folder).resolve() for folder in folders}:
        raise UserError(f"{tables.pop()}: the report would replace the table that it reads; name a folder with --out")
    _refuse_foreign(files)
    result = report(folders, filters, best_over)
    for run in result.runs:
        if run.status == RunStatus.UNREADABLE:
            print(f"attnx: left out: {printable(run.error)}", file=sys.stderr)
    data = page_data(result.title, result.runs, result.comparisons, page.parent)
    texts = (
        fill_page(PAGE, f"{result.title}: report", data, ["symbols"]),
        result.markdown(choices),
        spreadsheet(result.comparisons),
        latex(result.comparisons),
        effects_spreadsheet(result.comparisons),
        table_text(result.runs, result.keys),
    )
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        for path, text in zip(files, texts, strict=True):
            write_text(path, text)
        return files
    except OSError as error:
        raise UserError(f"{page}: cannot be written ({error.strerror}); name another with --out FOLDER") from error


def _refuse_foreign(files: Sequence[Path]) -> None:
    """Refuse to replace a file that is no report: what lies beside a page by attnx is of the same report."""
    page, *tables = files
    refuse_foreign(page, BEGINNING)
    if not page.exists() and (file := next((table for table in tables if table.exists()), None)):
        raise UserError(f"{file}: is there already without {page.name}; move it away, or name a folder with --out")


def _page(folders: Sequence[Path | str], out: Path | str | None) -> Path:
    if out is None:
        paths = [Path(folder).resolve() for folder in folders]
        home = Path(os.path.commonpath([path.parent if path.is_file() else path for path in paths]))
        if home == Path(home.anchor):
            raise UserError("these folders have no common parent for a report; name a folder with --out FOLDER")
        current = Path.cwd()
        return (home.relative_to(current) if home.is_relative_to(current) else home) / f"{STEM}.html"
    path = Path(out)
    return path if path.suffix == ".html" and not path.is_dir() else path / f"{STEM}.html"
