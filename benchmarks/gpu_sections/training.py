"""Training speed of the three schedules: attnx, with CUDA graphs where there is a loop, and the loop by hand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from gpu_sections.cases import Case, Figures, NotRunError, Setting
from gpu_sections.row_names import ATTNX, BY_HAND, FLOAT32, GRAPHS, LOOP, WITH_GRAPHS, WORDS, training_row
from gpu_sections.steps import PRECISIONS, SCHEDULES, Train, train_attnx, train_by_hand, words_per_second

SECONDS = {BY_HAND: 5.0, ATTNX: 8.0, WITH_GRAPHS: 40.0}
"""Planned for a training: its start, 300 steps, and compilation and recording of graphs."""


def cases(setting: Setting) -> Iterator[Case]:
    """Every schedule in every precision, float32 first; graphs in float32 and bfloat16."""
    for precision, schedule in product([FLOAT32] if setting.is_check else PRECISIONS, SCHEDULES):
        for row, train in trainings(setting, schedule, precision).items():
            if row != WITH_GRAPHS or precision != "tf32":
                measure = partial(_measure, setting, train)
                yield Case(training_row(row, schedule, precision), measure, SECONDS[row])


def trainings(setting: Setting, schedule: str, precision: str) -> dict[str, Train]:
    """What is measured of a schedule."""
    trains: dict[str, Train] = {
        BY_HAND: partial(train_by_hand, setting, schedule, precision),
        ATTNX: partial(train_attnx, setting, schedule, precision, ()),
    }
    if schedule == LOOP:
        trains[WITH_GRAPHS] = partial(_train_with_graphs, setting, schedule, precision)
    return trains


def _train_with_graphs(setting: Setting, schedule: str, precision: str, updates: int) -> None:
    if setting.device.type != "cuda":
        raise NotRunError("CUDA graphs need a GPU")
    train_attnx(setting, schedule, precision, (GRAPHS,), updates)


def _measure(setting: Setting, train: Train) -> Figures:
    return {WORDS: words_per_second(setting, train)}
