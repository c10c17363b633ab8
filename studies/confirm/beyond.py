"""Learning rates beyond those that were tried, for each setting whose best one is the lowest or the highest of them.

    python -m studies.confirm.beyond

writes a suite of each task with such settings, and how to train it. No comparison of settings reads these runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from attnx.config.suite_file import Suite, read_suite
from attnx.reports.metric_names import MAX_PERCENT
from attnx.reports.suite.standings import Entry, Standings
from attnx.reports.sweep.metrics import list_metrics, run_value
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from studies.confirm.comparisons import Runs, read_runs

BEYOND_HEAD = ("task", "best rate at an end", "better beyond", "the largest gain, in validation")
TINY = 1e-9
HERE, WRITTEN = Path(__file__).parent, Path("build/beyond")


def main() -> None:
    """Write the suites, and say how to train each."""
    suites = [read_suite(str(file)) for file in sorted((HERE / "suites").glob("*.yaml"))]
    runs = read_runs(sorted((HERE / "results").glob("*.csv")), suites)
    for suite in suites:
        for task, standings in standings_by_task(suite, runs).items():
            if file := write_beyond(standings, task, WRITTEN):
                table = f"multirun/suites/{file.stem}/baselines.runs.csv"
                print(f"attnx suite {file} && cp {table} {HERE}/beyond/{file.stem}.csv")


def read_beyond(suites: Sequence[Suite]) -> Runs:
    """The runs beyond, by ``SUITE-TASK/TASK`` and the name of the setting."""
    named = [replace(suite, name=f"{suite.name}-{task}", seeds=0) for suite in suites for task in suite.tasks]
    return read_runs(sorted((HERE / "beyond").glob("*.csv")), named)


def standings_by_task(suite: Suite, runs: Runs) -> dict[str, Standings]:
    """The settings of each task of a suite by its counted runs."""
    return {
        task: Standings(
            replace(suite, tasks={task: suite.tasks[task]}),
            [
                Entry(task, name, " ".join(words), runs.get((f"{suite.name}/{task}", name), []))
                for name, words in suite.baselines.items()
            ],
        )
        for task in suite.tasks
    }


def write_beyond(standings: Standings, task: str, folder: Path) -> Path | None:
    """Write a suite of the settings that chose an end, each one step beyond, with the first seed that counts.

    None if no setting did.
    """
    suite, settings = standings.suite, dict[str, list[str]]()
    for entry in standings.entries:
        chosen = entry.chosen([*suite.search])
        for key in standings.keys_at_an_end(entry):
            values = [float(value) for value in suite.search[key]]
            end, neighbor = values[:2] if float(chosen[key]) == values[0] else values[:-3:-1]
            words = settings.setdefault(entry.mechanism, [*suite.baselines[entry.mechanism]])
            words.append(f"{key}={end * end / neighbor:.2g}")
    if not settings:
        return None
    fields = {"base": suite.base, "tasks": suite.tasks, "baselines": settings, "seeds": 1}
    if suite.match:  # all are as large as the first one
        first = next(iter(suite.baselines))
        fields |= {"match": suite.match, "baselines": {first: suite.baselines[first], **settings}}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{suite.name}-{task}.yaml"
    file.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return file


def beyond_rows(suites: Sequence[Suite], runs: Runs, beyond: Runs) -> list[list[str]]:
    """A row for each task with settings that chose an end.

    It says of how many of these the run beyond is better in validation than the counted run of its seed, and where it
    gains most, with the values of both.
    """
    rows = []
    for suite in suites:
        for task, standings in standings_by_task(suite, runs).items():
            finished = [entry for entry in standings.entries if entry.finished]
            ends = [entry for entry in finished if standings.keys_at_an_end(entry)]
            pairs = [
                (counted, run, f"`{entry.mechanism}`")
                for entry in ends
                for run in beyond.get((f"{suite.name}-{task}/{task}", entry.mechanism), ())
                for counted in entry.finished
                if counted.seed == run.seed and run.status == RunStatus.FINISHED
            ]
            gains = [_gain(counted, run, name) for counted, run, name in pairs]
            if ends:
                better, text = sum(gain > 1 for gain, _ in gains), max(gains, default=(0.0, ""))[1]
                counts = [f"{len(ends)} of {len(finished)}", f"{better} of {len(gains)}" if gains else "not tried"]
                rows.append([f"{suite.name}/{task}", *counts, text if better else ""])
    return rows


def _gain(counted: RunRecord, run: RunRecord, name: str) -> tuple[float, str]:
    """How many times the error in validation the counted run has, and the values of both as text."""
    metric = list_metrics([counted])[-1]
    old, new = (run_value(one, run.monitor) or 0.0 for one in (counted, run))
    errors = [MAX_PERCENT - value if run.maximize else value for value in (old, new)]
    return errors[0] / max(errors[1], TINY), f"{name}: {metric.format(new)}, not {metric.format(old)}"


if __name__ == "__main__":
    main()
