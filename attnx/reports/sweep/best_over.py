"""For each setting the best value of some choices in validation, so that settings are compared at their best."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from attnx.errors import UserError
from attnx.reports.sweep.caveats import first_few
from attnx.reports.sweep.metrics import run_value
from attnx.reports.sweep.ranking import MAX_VALUE
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.settings import Setting, group_by_setting


class BestOver(NamedTuple):
    """The settings with their chosen values, and sentences on how they were chosen."""

    settings: list[Setting]
    sentences: list[str]


def choose_best(
    runs: Sequence[RunRecord], unfinished: Sequence[RunRecord], keys: Sequence[str], chosen_keys: Sequence[str]
) -> BestOver:
    """Of settings that differ in ``chosen_keys`` alone keep the best in validation, by the mean over its seeds.

    A value with a seed that failed is chosen only if no other is complete. The test has no part in the choice.

    Raises:
        UserError: no run has its validation metric.
    """
    monitor, groups = runs[0].monitor, dict[tuple[str, ...], list[Setting]]()
    for setting in group_by_setting(runs, [*keys, *chosen_keys], unfinished):
        groups.setdefault(setting.values[: len(keys)], []).append(setting)
    settings = [setting for group in groups.values() for setting in group]
    scores = {setting.values: score for setting in settings if (score := _score(setting, monitor)) is not None}
    if not scores:
        names = " ".join(chosen_keys)
        raise UserError(f"--best-over {names}: no run has {monitor or 'a metric'} of validation, by which it chooses")
    best = {
        values: min(scored, key=lambda setting: scores[setting.values])
        for values, group in groups.items()
        if (scored := [setting for setting in group if setting.values in scores])
    }
    kept_runs = [run for setting in best.values() for run in setting.runs]
    kept_settings = [
        setting._replace(
            unfinished_seeds=best[setting.values].unfinished_seeds,
            best_values=best[setting.values].values[len(keys) :],
            tried=len(groups[setting.values]),
        )
        for setting in group_by_setting(kept_runs, keys)
    ]
    left_out = [group[0].name for values, group in groups.items() if values not in best]
    return BestOver(kept_settings, _describe(kept_settings, chosen_keys, left_out))


def _score(setting: Setting, monitor: str) -> tuple[bool, float] | None:
    """Whether a seed has failed, and the mean in validation, less being better; None if it was not measured."""
    values = [value for run in setting.runs if (value := run_value(run, monitor)) is not None]
    values = [-value if setting.runs[0].maximize else value for value in values if abs(value) < MAX_VALUE]
    return (len(values) < setting.num_seeds, fmean(values)) if values else None


def _describe(settings: Sequence[Setting], chosen_keys: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """What was chosen by what, out of how many, and who had fewer than others."""
    names, counts = " and ".join(f"`{key}`" for key in chosen_keys), [setting.tried for setting in settings]
    tried = " to ".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
    sentences = [f"Each setting has its best {names} in validation, of {tried} tried; the test had no part in that."]
    if fewer := [f"**{setting.name}** ({setting.tried})" for setting in settings if setting.tried < max(counts)]:
        sentences.append(
            f"Fewer than {max(counts)} were tried of {first_few(fewer)}: more tries find better values, also by chance."
        )
    if left_out:
        sentences.append(f"Left out, since they were not validated: {first_few([f'**{name}**' for name in left_out])}.")
    return sentences
