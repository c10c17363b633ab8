"""The report of runs: as an object, in a notebook, and as files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attnx.errors import UserError, check_words
from attnx.files.printable import printable
from attnx.registry.plugin_files import current_folder
from attnx.reports.pages.html_template import fill_page, refuse_foreign, write_files
from attnx.reports.pages.notebook import escaped, html_table, note
from attnx.reports.run_filters import apply_filters, check_keys, parse_filter
from attnx.reports.sweep.ablations import Reference, parse_reference
from attnx.reports.sweep.comparison import Comparison, RankingAnalysis, comparisons
from attnx.reports.sweep.front import draw_front, parse_cost
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.page_data import page_data
from attnx.reports.sweep.run_record import RunRecord, group_failures
from attnx.reports.sweep.run_table import table_text
from attnx.reports.sweep.texts import (
    describe_runs,
    effects_csv,
    latex,
    markdown,
    ranking_csv,
    ranking_head,
    ranking_rows,
)
from attnx.runs.info import RunStatus

TASK = "task"
STEM = "report"
SUFFIXES = (".html", ".md", ".csv", ".tex", ".effects.csv", ".runs.csv")
PAGE = Path(__file__).parents[1] / "pages" / "sweep_page.html"
ADVICE = "a report filters by choices, results, name, path, seed, status, created and duration"


@dataclass(frozen=True, repr=False)
class Report:
    """Settings ranked, and their differences tested; as text the conclusions in Markdown, in a notebook tables."""

    title: str  #: the names of the folders, and the filters
    runs: list[RunRecord]  #: all runs in them, also those that did not finish
    best_over: Sequence[str] = ()  #: keys of which each setting has its best value in validation

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """A comparison of the runs of each test, the largest first."""
        return comparisons(self.runs, self.best_over)

    @property
    def ranking(self) -> RankingAnalysis | None:
        """The settings of the first comparison by its main metric, best first, with verdict, tests and effects."""
        rankings = self.comparisons[0].rankings if self.comparisons else []
        return rankings[0] if rankings else None

    @property
    def keys(self) -> list[str]:
        """The task, the choices that differ in some comparison, and all others: another report may vary them."""
        varied = [key for item in self.comparisons for key in (*item.keys, *item.chosen_keys)]
        return list(dict.fromkeys([TASK, *varied, *sorted({key for run in self.runs for key in run.choices})]))

    def markdown(self, reference: Reference | None = None, against: str | None = None) -> str:
        """The conclusions; with a ``reference`` also its ablations, for which one setting must have its values.

        With a cost, ``against``, also the settings that no other one beats in quality and cost.
        """
        return markdown(self.title, self.runs, self.comparisons, reference, against)

    def __str__(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.runs)} runs)"

    def _repr_html_(self) -> str:
        """The conclusions and the ranking of each comparison, then what did not finish, as a fragment of HTML."""
        blocks = [f"<div><b>{escaped(self.title)}</b>: {escaped(describe_runs(self.runs))}</div>"]
        for comparison in self.comparisons:
            blocks.append(f"<p><b>{escaped(comparison.title)}</b></p>")
            if comparison.rankings:
                for sentence in comparison.rankings[0].verdict:  # names in double asterisks, commands in backquotes
                    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escaped(sentence))
                    blocks.append("<p>" + re.sub(r"`(.+?)`", r"<code>\1</code>", bold) + "</p>")
                blocks.append(html_table(ranking_head(comparison), ranking_rows(comparison)))
        blocks += [note(failure.describe()) for failure in group_failures(self.runs)]
        return f"<div>{''.join(blocks)}</div>"


def report(
    folders: Path | str | Sequence[Path | str], filters: Sequence[str] = (), best_over: Sequence[str] = ()
) -> Report:
    """Compare the runs in a folder, or in several: a run, a sweep, or a folder of such. Nothing is written.

    A file is a table of runs, as a report writes it. ``filters`` select runs as in ``attnx runs``:
    ``["scorer=dot,additive", "optimizer.lr<0.01"]``. With ``best_over`` choices such as ``["optimizer.lr"]`` each
    setting has the value that is best in validation.

    Raises:
        UserError: a folder holds no run, nothing in it can be read, or no run passes the filters. The comparisons raise
            it if the runs do not differ in a key of ``best_over``, or were not validated.
    """
    paths = [folders] if isinstance(folders, Path | str) else folders
    if not isinstance(paths, Sequence) or not paths or not all(isinstance(path, Path | str) for path in paths):
        raise UserError(f"{folders!r}: name a folder, or a list of folders, as in report('multirun/scorers')")
    check_words(filters, "filters", f"report({folders!r}, ['scorer=dot'])")
    check_words(best_over, "choices", f"report({folders!r}, best_over=['optimizer.lr'])")
    names = " and ".join(dict.fromkeys(Path(current_folder(), folder).resolve().name for folder in paths))
    title = " ".join([names, *filters, *(f"best over {key}" for key in best_over)])
    return Report(title, filter_records(load_runs(paths), filters), best_over)


def filter_records(records: Sequence[RunRecord], words: Sequence[str]) -> list[RunRecord]:
    """The runs that pass all filters, and those that cannot be read, which the report names.

    Raises:
        UserError: a word is no filter, no run has its key, or none passes.
    """
    if not words:
        return list(records)
    unreadable = [record for record in records if record.status == RunStatus.UNREADABLE]
    readable = [record for record in records if record.status != RunStatus.UNREADABLE]
    filters = list(map(parse_filter, words))
    known_keys = {key for record in readable for key in record.filtered_values}
    check_keys([condition.key for condition in filters], known_keys, ADVICE)
    passed, reason = apply_filters(readable, filters, lambda record, key: record.filtered_values.get(key))
    if not passed:
        raise UserError(f"no run passes {reason}")
    return [*passed, *unreadable]


def write_report(
    folders: Sequence[Path | str],
    out: Path | str | None = None,
    reference: Sequence[str] = (),
    filters: Sequence[str] = (),
    best_over: Sequence[str] = (),
    against: str | None = None,
) -> list[Path]:
    """Write the report of all runs in some folders, replacing an older one, and return its files, the page first.

    Folders, ``filters`` and ``best_over`` are as in :func:`report`; unreadable runs are left out with a warning.
    ``out`` is a folder, or the path of the page (``.html``); by default the common parent folder. ``reference`` are
    choices, ``scorer=additive``, of the setting whose ablations are listed; ``against`` is a cost, such as ``flops``,
    against which the page, report.md and a picture show the quality.

    Raises:
        UserError: a folder holds no run, cannot be read, ``out`` cannot be written, no setting is the reference, no
            run passes the filters, or ``best_over`` has nothing to choose from; a file of the report is a table
            that it reads.
    """
    choices = parse_reference(reference)  # refused before any run is read
    cost = against and parse_cost(against)
    page = _page(folders, out)
    files = [page.with_suffix(suffix) for suffix in SUFFIXES]
    if tables := {path.resolve() for path in files} & {Path(folder).resolve() for folder in folders}:
        raise UserError(f"{tables.pop()}: the report would replace the table that it reads; name a folder with --out")
    refuse_foreign(page)
    # What lies beside a page by attnx is of the same report.
    if not page.exists() and (file := next((file for file in files if file.exists()), None)):
        raise UserError(f"{file}: is there already without {page.name}; move it away, or name a folder with --out")
    result = report(folders, filters, best_over)
    for run in result.runs:
        if run.status == RunStatus.UNREADABLE:
            print(f"attnx: left out: {printable(run.error)}", file=sys.stderr)
    data = {**page_data(result.title, result.runs, result.comparisons, page.parent), "against": cost}
    texts = (
        fill_page(PAGE, f"{result.title}: report", data, ["document", "paper", "symbols"]),
        result.markdown(choices, cost),
        ranking_csv(result.comparisons),
        latex(result.comparisons),
        effects_csv(result.comparisons),
        table_text(result.runs, result.keys),
    )
    write_files(dict(zip(files, texts, strict=True)), advice="; name another with --out FOLDER")
    if cost and result.ranking:
        picture = draw_front(result.comparisons[0], cost, page.with_suffix(f".{against}.png"))
        files += [picture] if picture else []
    return files


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
