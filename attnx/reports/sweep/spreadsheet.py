"""The ranking as CSV, for a spreadsheet: a row a setting, with every measure and cost."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from statistics import fmean

from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.page_data import COSTS
from attnx.reports.sweep.ranking import RankedSetting
from attnx.reports.sweep.settings import Setting

SUFFIXES = ("", "_sd", "_low", "_high", "_behind", "_behind_low", "_behind_high", "_p")


def spreadsheet(compared: Sequence[Comparison]) -> str:
    """The whole of it; ``rank`` is by the main measure."""
    keys = list(dict.fromkeys(key for one in compared for key in one.keys))
    measured = list(dict.fromkeys(judged.measure.key for one in compared for judged in one.judged))
    figures = [f"{key}{suffix}" for key in measured for suffix in SUFFIXES]
    text = io.StringIO()
    head = ["test", "rank", *keys, "seeds", *figures, *COSTS, "folders"]
    writer = csv.DictWriter(text, head, restval="", lineterminator="\n")
    writer.writeheader()
    for one in compared:
        for rank, row in enumerate(one.judged[0].rows if one.judged else [], start=1):
            writer.writerow({"test": one.title, "rank": rank, **_fields(one, row.place)})
    return text.getvalue()


def _fields(one: Comparison, place: int) -> dict[str, str]:
    setting = one.settings[place]
    fields = dict(zip(one.keys, setting.values, strict=True))
    fields["seeds"] = " ".join(str(run.seed) for run in setting.runs)
    fields["folders"] = " ".join(str(run.path) for run in setting.runs)
    for judged in one.judged:
        for row in judged.rows:
            if row.place == place:
                fields |= _figures(judged.measure.key, row)
    return fields | _costs(setting)


def _figures(key: str, row: RankedSetting) -> dict[str, str]:
    low, high = row.interval or (None, None)
    behind = row.behind[:-1] if row.behind else [None] * 4
    told = dict(zip(SUFFIXES, [row.mean, row.sd, low, high, *behind], strict=True))
    return {f"{key}{suffix}": f"{value:.6g}" for suffix, value in told.items() if value is not None}


def _costs(setting: Setting) -> dict[str, str]:
    held = {key: [run.results[key] for run in setting.runs if key in run.results] for key in COSTS}
    return {key: f"{fmean(values):.6g}" for key, values in held.items() if values}
