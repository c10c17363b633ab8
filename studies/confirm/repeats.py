"""Equal seeds on another machine: the first setting of each suite is trained again, to say how far numbers move.

    python -m studies.confirm.repeats --seeds 5

writes a suite of each, and how to train it at the commit of its results. No comparison of settings reads these runs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import yaml

from attnx.config.suite_file import Suite, read_suite
from attnx.reports.sweep.metrics import list_metrics
from attnx.runs.info import RunStatus
from studies.confirm.comparisons import Runs, read_runs

REPEAT_HEAD = ("task", "setting", "equal seeds", "first machine", "second machine", "sd of seeds", "a seed moves by")
HERE, WRITTEN = Path(__file__).parent, Path("build/repeats")


def main() -> None:
    """Write the suites, and say how to train each."""
    parser = argparse.ArgumentParser("python -m studies.confirm.repeats", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many of those that count (5)")
    arguments = parser.parse_args()
    for suite in (read_suite(str(file)) for file in sorted((HERE / "suites").glob("*.yaml"))):
        runs = read_runs(sorted((HERE / "results").glob(f"{suite.name}.csv")), [suite])
        if runs:
            file = write_repeat(suite, runs, arguments.seeds, WRITTEN)
            commit = next(iter(runs.values()))[0].commit
            print(f"in a clone at {commit}: attnx suite {file.resolve()}")
            print(f"then: cp multirun/suites/{suite.name}/baselines.runs.csv {HERE}/repeated/{suite.name}.csv")


def read_repeated(suites: Sequence[Suite]) -> Runs:
    """The runs of other machines, however many seeds they have."""
    tables = sorted((HERE / "repeated").glob("*.csv"))
    return read_runs(tables, [replace(suite, seeds=0) for suite in suites])


def write_repeat(suite: Suite, runs: Runs, num_seeds: int, folder: Path) -> Path:
    """Write a suite of the first setting alone, with what its search chose and its first ``num_seeds`` that count."""
    setting, *_ = suite.baselines
    tasks = {
        task: [*words, *(f"{key}={runs[f'{suite.name}/{task}', setting][0].choices[key]}" for key in suite.search)]
        for task, words in suite.tasks.items()
        if (f"{suite.name}/{task}", setting) in runs
    }
    fields = {"base": suite.base, "tasks": tasks, "baselines": {setting: suite.baselines[setting]}, "seeds": num_seeds}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{suite.name}.yaml"
    file.write_text(yaml.safe_dump(fields, sort_keys=False), encoding="utf-8")
    return file


def repeat_rows(suites: Sequence[Suite], runs: Runs, repeated: Runs) -> list[list[str]]:
    """A row for each task whose first setting was trained twice with equal seeds.

    It has the means on both machines, the standard deviation over seeds on the first, and by how much the results of
    one seed differ: the mean, and the most.
    """
    rows = []
    for suite in suites:
        setting, *_ = suite.baselines
        for task in (f"{suite.name}/{name}" for name in suite.tasks):
            first, second = (
                {run.seed: run for run in table.get((task, setting), ()) if run.status == RunStatus.FINISHED}
                for table in (runs, repeated)
            )
            seeds = [seed for seed in suite.counted_seeds if seed in first and seed in second]
            if len(seeds) < 2:
                continue
            metric = list_metrics([*first.values()])[0]
            before, after = ([group[seed].results[metric.key] for seed in seeds] for group in (first, second))
            moves = [abs(new - old) for old, new in zip(before, after, strict=True)]
            numbers = [metric.format(number) for number in (fmean(before), fmean(after), stdev(before), fmean(moves))]
            mean, other_mean, deviation, move = numbers
            moved = f"{move}, at most {metric.format(max(moves))}"
            rows.append([task, f"`{setting}`", str(len(seeds)), f"{metric.label} {mean}", other_mean, deviation, moved])
    return rows


if __name__ == "__main__":
    main()
