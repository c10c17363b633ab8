"""The options in which compared runs differ, and what runs of so many seeds can tell."""

from __future__ import annotations

from collections.abc import Sequence

from attnx.config.view import choice_text, dotted_keys
from attnx.runs.run import Run

LABELS = ("name", "folder")  # options that change no result
ONE_SEED = (
    "one run of each setting: the intervals are of the test examples, not of the seeds, and another seed can change "
    "the order; train several (attnx -m seed=1,2,3 ...), and attnx report tests the settings"
)
SEEDS_ALONE = "the runs differ in their seeds alone: their differences show what chance does"
SAME_OPTIONS = "the runs have the same options and seed"


def option_differences(runs: Sequence[Run]) -> dict[str, list[str | None]]:
    """The options that differ, by dotted key, of each run; None where it has no such option.

    Options that one of several choices has alone follow from the choice and are left out.
    """
    options = [dotted_keys(run.evaluated_run.config) for run in runs]
    keys = [key for key in dict.fromkeys(key for values in options for key in values) if key not in LABELS]
    rows = {key: [choice_text(values[key]) if key in values else None for values in options] for key in keys}
    differing = {key: values for key, values in rows.items() if len(set(values)) > 1}
    return {
        key: values
        for key, values in differing.items()
        if None not in values or key.partition(".")[0] not in differing or "." not in key
    }


def seeds_note(runs: Sequence[Run], differences: dict[str, list[str | None]]) -> str:
    """What the runs can tell of their settings, given how many seeds each has; empty if a setting has several."""
    if any(not run.evaluated_run.config for run in runs) or len({run.evaluated_run.path for run in runs}) == 1:
        return ""
    if not differences:
        return SAME_OPTIONS
    if [*differences] == ["seed"]:
        return SEEDS_ALONE
    options = list(zip(*(values for key, values in differences.items() if key != "seed"), strict=True))
    return ONE_SEED if len(set(options)) == len(runs) else ""
