"""Settings: runs that differ by their seed alone, named by the choices that vary, and each at its best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from attnx.config.groups import default_choice
from attnx.config.view import choice_text, names_text
from attnx.errors import UserError
from attnx.files.parse_number import is_number
from attnx.registry.part import MULTI_SELECT_KINDS
from attnx.reports.sweep.metrics import MAX_VALUE, run_value
from attnx.reports.sweep.run_record import EARLIEST, RunRecord
from attnx.runs.info import OPEN_STATUSES, RunStatus

ABSENT = "\N{EN DASH}"
UNCLEAR_VALUES = ("null", "true", "false", "standard", "none")  # without their key
MAX_NAMES = 3  # settings named in one sentence
MIN_RANGE = 3  # numbers of which the least and the greatest are ends


class Setting(NamedTuple):
    """Runs that differ by their seed alone, in the order of seeds, named by the choices in which settings differ.

    ``values`` are the varied choices as text; a dash if a part has no such option. ``unfinished`` has the seeds of
    runs of this setting that failed, or did not finish for another reason, and their status. ``is_default`` says
    whether the varied choices are attnx's defaults. ``best_values`` are those that validation chose, out of so many
    ``tried``.
    """

    name: str
    values: tuple[str, ...]
    runs: list[RunRecord]
    unfinished: Mapping[Any, RunStatus]
    is_default: bool = False
    best_values: tuple[str, ...] = ()
    tried: int = 1

    @property
    def unfinished_seeds(self) -> list[Any]:
        """The seeds of the runs that failed, or did not finish for another reason."""
        return [*self.unfinished]

    @property
    def open_seeds(self) -> list[Any]:
        """Those of them that may still finish: their runs wait, run, or can be resumed."""
        return [seed for seed, status in self.unfinished.items() if status in OPEN_STATUSES]

    @property
    def num_seeds(self) -> int:
        """The seeds of unfinished runs are counted, too."""
        return len(self.runs) + len(self.unfinished)

    @property
    def cells(self) -> tuple[str, ...]:
        """All values as text, of chosen ones also how many were tried."""
        return (*self.values, *self.best_values, *([str(self.tried)] if self.best_values else []))


def override_choice(key: str, value: str) -> str:
    """The value of an override as reports compare it, however it is written.

    >>> override_choice("query", "[token]"), override_choice("scorer.depth", "1e1")
    ('token', '10')
    """
    if key in MULTI_SELECT_KINDS:
        return names_text(value.strip("[]").split(","))
    return choice_text(float(value)) if is_number(value) else value.replace(" ", "")


def short_keys(keys: Sequence[str]) -> list[str]:
    """Keys by their last component if that is unique."""
    last = [key.rpartition(".")[2] for key in keys]
    return [name if last.count(name) == 1 else key for name, key in zip(last, keys, strict=True)]


def group_by_setting(
    runs: Iterable[RunRecord], keys: Sequence[str], unfinished: Iterable[RunRecord] = ()
) -> list[Setting]:
    """Group runs that differ by their seed alone; the latest of several with the same seed counts.

    ``unfinished`` are runs that agree with these in all choices but ``keys``.
    """

    def values_of(run: RunRecord) -> tuple[str, ...]:
        return tuple(choice_text(run.choices[key]) if key in run.choices else ABSENT for key in keys)

    def in_order(seeds: Iterable[Any]) -> list[Any]:
        return sorted(seeds, key=lambda seed: (seed is None, seed))

    by_values: dict[tuple[str, ...], dict[Any, RunRecord]] = {}
    # A run's folder comes after its row in a table: it has the examples.
    for run in sorted(runs, key=lambda run: (run.created_at or EARLIEST, run.examples.num_examples)):
        by_values.setdefault(values_of(run), {})[run.seed] = run
    statuses: dict[tuple[str, ...], dict[Any, RunStatus]] = {}
    for run in unfinished:
        statuses.setdefault(values_of(run), {})[run.seed] = run.status
    defaults = tuple(default_choice(key) or ABSENT for key in keys)
    return [
        Setting(
            setting_name(keys, values),
            values,
            [by_seed[seed] for seed in in_order(by_seed)],
            {seed: statuses[values][seed] for seed in in_order(statuses.get(values, {}).keys() - by_seed.keys())},
            values == defaults,
        )
        for values, by_seed in by_values.items()
    ]


def chosen_values(keys: Sequence[str], setting: Setting) -> dict[str, str]:
    """The values of a setting by key, as text, without those that it does not have."""
    return {key: value for key, value in zip(keys, setting.values, strict=True) if value != ABSENT}


def setting_name(keys: Sequence[str], values: Sequence[str]) -> str:
    """A setting's name: parts by their names, options with their keys.

    >>> setting_name(["scorer", "scorer.depth", "optimizer.lr"], ["mlp", "2", "0.01"])
    'mlp, depth=2, lr=0.01'
    """
    choices = [
        value if "." not in key and value[:1].isalpha() and value not in UNCLEAR_VALUES else f"{name}={value}"
        for key, name, value in zip(keys, short_keys(keys), values, strict=True)
        if value != ABSENT
    ]
    return ", ".join(choices) or "default"


def first_few(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    surplus = len(names) - MAX_NAMES
    return "; ".join([*names[:MAX_NAMES], *([f"and {surplus} more"] if surplus > 0 else [])])


def range_ends(values: Iterable[str]) -> list[str]:
    """The least and the greatest of three numbers or more, beyond which a better one may lie; beyond 0 there is none.

    >>> range_ends(["0.01", "0.1", "0.001"]), range_ends(["0", "0.1", "0.2"]), range_ends(["dot", "mlp", "cosine"])
    (['0.001', '0.1'], ['0.2'], [])
    """
    tried = list(dict.fromkeys(values))
    if len(tried) < MIN_RANGE or not all(map(is_number, tried)):
        return []
    return [end for end in (min(tried, key=float), max(tried, key=float)) if float(end)]


def choose_best(
    runs: Sequence[RunRecord], unfinished: Sequence[RunRecord], keys: Sequence[str], chosen_keys: Sequence[str]
) -> tuple[list[Setting], list[str]]:
    """Keep the best in validation, by the mean over its seeds, of settings that differ in ``chosen_keys`` alone.

    A value with a seed that failed is chosen only if no other is complete. The test has no part in the choice.
    Sentences say what was chosen by what, out of how many, and who had fewer than others.

    Raises:
        UserError: no run has its validation metric.
    """
    monitor, groups = runs[0].monitor, dict[tuple[str, ...], list[Setting]]()
    for setting in group_by_setting(runs, [*keys, *chosen_keys], unfinished):
        groups.setdefault(setting.values[: len(keys)], []).append(setting)
    best, left_out = dict[tuple[str, ...], Setting](), list[str]()
    for values, group in groups.items():
        if scored := [(score, setting) for setting in group if (score := _score(setting, monitor)) is not None]:
            _, best[values] = min(scored, key=lambda entry: entry[0])
        else:
            left_out.append(f"**{group[0].name}**")
    if not best:
        names = " ".join(chosen_keys)
        raise UserError(f"--best-over {names}: no run has {monitor or 'a metric'} of validation, by which it chooses")
    kept_runs = [run for setting in best.values() for run in setting.runs]
    kept_settings = [
        setting._replace(
            unfinished=best[setting.values].unfinished,
            best_values=best[setting.values].values[len(keys) :],
            tried=len(groups[setting.values]),
        )
        for setting in group_by_setting(kept_runs, keys)
    ]
    names, counts = " and ".join(f"`{key}`" for key in chosen_keys), [setting.tried for setting in kept_settings]
    tried = " to ".join(dict.fromkeys(map(str, (min(counts), max(counts)))))
    sentences = [f"Each setting has its best {names} in validation, of {tried} tried; the test had no part in that."]
    if fewer := [f"**{setting.name}** ({setting.tried})" for setting in kept_settings if setting.tried < max(counts)]:
        sentences.append(
            f"Fewer than {max(counts)} were tried of {first_few(fewer)}: more tries find better values, also by chance."
        )
    for place, key in enumerate(chosen_keys):
        ends = {values: range_ends(setting.values[len(keys) + place] for setting in groups[values]) for values in best}
        if at_end := [f"**{item.name}**" for item in kept_settings if item.best_values[place] in ends[item.values]]:
            sentences.append(
                f"The best `{key}` of {first_few(at_end)} is the lowest or the highest tried: one beyond may be better."
            )
    if left_out:
        sentences.append(f"Left out, since they were not validated: {first_few(left_out)}.")
    return kept_settings, sentences


def _score(setting: Setting, monitor: str) -> tuple[bool, float] | None:
    """Whether a seed has failed, and the mean in validation, less being better; None if it was not measured."""
    values = [value for run in setting.runs if (value := run_value(run, monitor)) is not None]
    values = [-value if setting.runs[0].maximize else value for value in values if abs(value) < MAX_VALUE]
    has_failed = len(values) < setting.num_seeds - len(setting.open_seeds)
    return (has_failed, fmean(values)) if values else None
