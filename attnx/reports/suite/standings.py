"""Ranks the mechanisms of a suite on each task and over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean

from scipy.stats import rankdata

from attnx.config.suite_file import Suite
from attnx.config.view import choice_text
from attnx.files.parse_number import count_phrase
from attnx.reports.significant_digits import p_text
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL
from attnx.reports.sweep.comparison import unequal_conditions
from attnx.reports.sweep.metrics import COSTS, list_metrics, run_value
from attnx.reports.sweep.ranking import RankedSetting, Ranking, rank_settings
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.settings import Setting, override_choice, range_ends
from attnx.runs.info import RunStatus


def choose_run(runs: Sequence[RunRecord]) -> RunRecord | None:
    """The run of a search that is best in validation, the first of equal ones; None if no run has finished.

    The test has no part in the choice.
    """
    values = {
        index: -value if run.maximize else value
        for index, run in enumerate(runs)
        if run.status == RunStatus.FINISHED and (value := run_value(run, run.monitor)) is not None
    }
    return runs[min(values, key=values.__getitem__)] if values else None


@dataclass(frozen=True)
class Entry:
    """A mechanism on a task, with the runs that count, finished or not.

    ``overrides`` are joined by spaces, as in tables: these do not show where an override that has a space begins.
    ``reason`` says why there is none; ``source`` names the table of runs that it is from, "" if it was trained here.
    """

    task: str
    mechanism: str
    overrides: str
    runs: Sequence[RunRecord] = ()
    failed_searches: int = 0
    reason: str = ""
    source: str = ""

    @property
    def finished(self) -> list[RunRecord]:
        """The runs that have results."""
        return [run for run in self.runs if run.status == RunStatus.FINISHED]

    @property
    def commits(self) -> list[str]:
        """Of the code of its runs."""
        return sorted({run.commit for run in self.finished if run.commit})

    @property
    def costs(self) -> dict[str, float]:
        """The mean of each cost over its runs."""
        values = {key: [run.results[key] for run in self.finished if key in run.results] for key in COSTS}
        return {key: fmean(numbers) for key, numbers in values.items() if numbers}

    @property
    def status(self) -> str:
        """What is wrong with it, or ""."""
        failed = [run for run in self.runs if run.status != RunStatus.FINISHED]
        notes = [self.reason] if self.reason else []
        if failed:
            seeds = ", ".join(str(run.seed) for run in failed)
            notes.append(f"{failed[0].status} with seed {seeds}" + (f": {failed[0].error}" if failed[0].error else ""))
        if self.failed_searches:
            notes.append(f"{self.failed_searches} of the search's runs did not finish")
        return "; ".join(notes)

    def chosen(self, keys: Sequence[str]) -> dict[str, str]:
        """The values that the search chose."""
        choices = self.finished[0].choices if self.finished else {}
        return {key: choice_text(choices[key]) for key in keys if key in choices}


@dataclass(frozen=True)
class Standings:
    """Mechanisms on the tasks of a suite, in its order.

    ``challenger`` is the one that is compared with the others, "" without one.
    """

    suite: Suite
    entries: Sequence[Entry]
    challenger: str = ""
    notes: Sequence[str] = ()

    @property
    def mechanisms(self) -> list[str]:
        """Their names, the challenger first."""
        return [*dict.fromkeys(entry.mechanism for entry in self.entries)]

    @cached_property
    def rankings(self) -> dict[str, Ranking]:
        """The mechanisms by the main metric of each task that has results; a setting's name is a mechanism."""
        rankings = {}
        for task in self.suite.tasks:
            entries = [entry for entry in self.entries if entry.task == task and entry.finished]
            if entries:
                rankings[task] = _rank({entry.mechanism: entry.runs for entry in entries})
        return rankings

    @cached_property
    def ranks(self) -> dict[str, dict[str, float]]:
        """The rank of each mechanism by task, in the order of its rows; equal means share the mean of their ranks."""
        ranks = {}
        for task, ranking in self.rankings.items():
            places = rankdata([fmean(row.on_scale(ranking.scale)) for row in ranking.rows])
            names = [row.setting.name for row in ranking.rows]
            ranks[task] = dict(zip(names, map(float, places), strict=True))
        return ranks

    @cached_property
    def mean_ranks(self) -> dict[str, float]:
        """The mean over all tasks of the ranks of each mechanism with results on all of them, the best first."""
        tasks = [self.ranks.get(task, {}) for task in self.suite.tasks]
        complete = [name for name in self.mechanisms if all(name in ranks for ranks in tasks)]
        means = {name: fmean(ranks[name] for ranks in tasks) for name in complete}
        return dict(sorted(means.items(), key=lambda item: item[1]))

    @cached_property
    def overall(self) -> Ranking | None:
        """The complete mechanisms by the mean over tasks of each seed, if all tasks have one metric.

        A difference is tested over seeds like that on one task.
        """
        metrics = {(ranking.metric.key, ranking.metric.is_higher_better) for ranking in self.rankings.values()}
        if len(metrics) != 1 or not self.mean_ranks:
            return None
        key, _ = metrics.pop()
        runs = {name: self._means(name, key) for name in self.mechanisms if name in self.mean_ranks}
        return _rank(runs) if all(any(run.results for run in means) for means in runs.values()) else None

    def _means(self, mechanism: str, key: str) -> list[RunRecord]:
        """A record for each seed, with the mean over tasks; if it did not finish on some, with the status there."""
        by_seed: dict[int | None, list[RunRecord]] = {}
        for entry in self.entries:
            for run in entry.runs if entry.mechanism == mechanism else ():
                by_seed.setdefault(run.seed, []).append(run)
        means = []
        for seed, runs in by_seed.items():
            status = next((run.status for run in runs if run.status != RunStatus.FINISHED), RunStatus.FINISHED)
            results = {}
            if status == RunStatus.FINISHED and all(key in run.results for run in runs):
                results[key] = fmean(run.results[key] for run in runs)
                results["test_examples"] = sum(run.results.get("test_examples", 1.0) for run in runs)
            if len(runs) == len(self.suite.tasks):
                record = RunRecord(Path(mechanism), mechanism, status, seed, results=results)
                means.append(replace(record, monitor=runs[0].monitor, maximize=runs[0].maximize))
        return means

    @property
    def conclusions(self) -> list[str]:
        """Sentences: where the challenger stands and how surely, then on which tasks it is better and worse."""
        name = self.challenger or next(iter(self.mean_ranks), "")
        if name not in self.mean_ranks:
            missing = [task for task in self.suite.tasks if name not in self.ranks.get(task, {})]
            return [f"**{name}** has no result on {', '.join(missing)}." if name else "There is no result yet."]
        others = {other: mean for other, mean in self.mean_ranks.items() if other != name}
        mean_rank, tasks = self.mean_ranks[name], count_phrase(len(self.suite.tasks), "task")
        rank = 1 + sum(other < mean_rank for other in others.values())
        equals = [f"**{other}**" for other in others if others[other] == mean_rank]
        place = ("first", "second", "third")[rank - 1] if rank <= 3 else f"number {rank}"
        like = f", like {' and '.join(equals)}," if equals else ""
        first = f"**{name}** is {place} of {len(others) + 1}{like} by its mean rank, {mean_rank:.1f} over {tasks}"
        sentences = [f"{first}."]
        if self.overall and (against := against_best(self.overall, name)):
            sentences = [f"{first}: {against}."]
        verdicts: dict[str, list[str]] = {"better": [], "worse": [], "neither": []}
        for task, ranking in self.rankings.items():
            verdicts[verdict(ranking, name)].append(task)
        words = {"better": "better than every other on", "worse": "worse than the best other on"}
        findings = [f"significantly {words[key]} {', '.join(verdicts[key])}" for key in words if verdicts[key]]
        open_tasks = f"; on {', '.join(verdicts['neither'])} neither is sure"
        if others:
            text = " and ".join(findings) or "neither significantly better nor worse than the best other"
            sentences.append(f"By task it is {text}{open_tasks if verdicts['neither'] and findings else ''}.")
        return sentences

    @property
    def caveats(self) -> list[str]:
        """A sentence for each condition in which runs of a task differ, with the tasks."""
        tasks: dict[str, list[str]] = {}
        for task in self.suite.tasks:
            runs = [run for entry in self.entries if entry.task == task for run in entry.finished]
            for sentence in unequal_conditions(runs):
                tasks.setdefault(sentence, []).append(task)
        return [f"{', '.join(names)}: {sentence}" for sentence, names in tasks.items()]

    def keys_at_an_end(self, entry: Entry) -> list[str]:
        """The keys whose chosen value is the lowest or the highest that was tried, so that one beyond may be better."""
        search = self.suite.search
        return [
            key
            for key, value in entry.chosen([*search]).items()
            if value in range_ends(override_choice(key, tried) for tried in search[key])
        ]


def _rank(runs_of: Mapping[str, Sequence[RunRecord]]) -> Ranking:
    settings = []
    for name, runs in runs_of.items():
        finished = [run for run in runs if run.status == RunStatus.FINISHED]
        unfinished = {run.seed: run.status for run in runs if run.status != RunStatus.FINISHED}
        settings.append(Setting(name, (name,), finished, unfinished))
    used = [run for setting in settings for run in setting.runs]
    return rank_settings(settings, list_metrics(used)[0])


def row_of(ranking: Ranking, mechanism: str) -> RankedSetting | None:
    """The row of a mechanism."""
    return next((row for row in ranking.rows if row.setting.name == mechanism), None)


def verdict(ranking: Ranking, mechanism: str) -> str:
    """Whether a mechanism is significantly ``better`` than each other, ``worse`` than the best, or ``neither``."""
    row = row_of(ranking, mechanism)
    if row is not None and row is ranking.rows[0]:
        return "better" if ranking.has_winner else "neither"
    return "worse" if row and row.difference and row.difference.p < SIGNIFICANCE_LEVEL else "neither"


def against_best(ranking: Ranking, mechanism: str) -> str:
    """A mechanism's mean, and its distance from the best other one with interval and p, as a clause."""
    row, metric = row_of(ranking, mechanism), ranking.metric
    if row is None:
        return ""
    interval = f" ({metric.interval_cell(*row.interval)})" if row.interval else ""
    mean = f"{metric.label} {metric.format(ranking.scale_mean(row))}{metric.percent_sign}{interval} in the mean"
    if len(ranking.rows) < 2:
        return mean
    is_first = row is ranking.rows[0]
    other = ranking.rows[1 if is_first else 0]
    gap = other.difference if is_first else row.difference
    if ranking.scale_mean(row) == ranking.scale_mean(other):
        return f"{mean}, equal to that of {ranking.name(other)}"
    side = "ahead of the best other" if is_first else "behind the best"
    if gap is None:
        return f"{mean}, {side}, {ranking.name(other)}"
    distance = f"{metric.format(gap.difference)} ({metric.interval_cell(gap.low, gap.high)}), {p_text(gap.p)}"
    doubt = f", but {ranking.doubt}" if is_first and ranking.doubt else ""
    if gap.p >= SIGNIFICANCE_LEVEL:
        doubt = ", which chance may explain"
    return f"{mean}, {side}, {ranking.name(other)}, by {distance}{doubt}"
