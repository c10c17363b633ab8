"""The report of runs as an object: their comparisons, with the ranking and the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attnx.reports.notebook.report import report_html
from attnx.reports.sweep.ablations import Reference
from attnx.reports.sweep.comparison import Comparison, RankingAnalysis, comparisons
from attnx.reports.sweep.load_runs import load_runs
from attnx.reports.sweep.markdown import markdown
from attnx.reports.sweep.record_filters import filter_records
from attnx.reports.sweep.run_record import RunRecord

TASK = "task"


@dataclass(frozen=True, repr=False)
class Report:
    """Settings ranked, and their differences tested; as text the conclusions in Markdown, in a notebook tables.

    Attributes:
        title: the names of the folders, and the filters.
        runs: all runs in them, also those that did not finish.
        best_over: keys of which each setting has its best value in validation.
    """

    title: str
    runs: list[RunRecord]
    best_over: Sequence[str] = ()

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """Of runs with the same test, the largest first."""
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

    def markdown(self, reference: Reference | None = None) -> str:
        """The conclusions; with a ``reference`` also its ablations, for which one setting must have its values."""
        return markdown(self.title, self.runs, self.comparisons, reference)

    def __str__(self) -> str:
        return self.markdown()

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.runs)} runs)"

    def _repr_html_(self) -> str:
        return report_html(self)


def report(
    folders: Path | str | Sequence[Path | str], filters: Sequence[str] = (), best_over: Sequence[str] = ()
) -> Report:
    """Compare the runs in a folder, or in several: of a run, of a sweep, or with some in them. Nothing is written.

    A file is a table of runs, as a report writes it. ``filters`` select runs, as those of ``attnx runs`` do:
    ``["scorer=dot,additive", "optimizer.lr<0.01"]``. Of choices such as ``["optimizer.lr"]`` each setting has the value
    that is ``best_over`` all that were tried with it, in validation.

    Raises:
        UserError: a folder holds no run, nothing in it can be read, or no run passes the filters. The comparisons raise
            it if the runs do not differ in a key of ``best_over``, or were not validated.
    """
    paths = [folders] if isinstance(folders, Path | str) else folders
    names = " and ".join(dict.fromkeys(Path(folder).resolve().name for folder in paths))
    title = " ".join([names, *filters, *(f"best over {key}" for key in best_over)])
    return Report(title, filter_records(load_runs(paths), filters), best_over)
