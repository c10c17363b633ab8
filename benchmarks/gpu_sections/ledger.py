"""The ledger: what the card's data sheet predicts, what was measured, and whether it is as good as was aimed at.

A prediction is what arithmetic and memory allow: operations over the card's rate, or bytes over its bandwidth.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import mean
from typing import NamedTuple

import torch
from training_speed import flop_of_a_word

from attnx.data.readers.cmudict import read_cmudict
from gpu_sections import row_names as names
from gpu_sections.cards import CARDS, Card, find_card
from gpu_sections.cases import Figures
from gpu_sections.results import Results
from gpu_sections.transformer import SIZES, flop_of_a_token

Rows = Mapping[tuple[str, str], Figures]
"""The figures by section and row."""
CPU_SECTION = "main_cpu"
"""Its rows need no GPU, so that they may be of another machine."""
PASS, MISS, NOT_RUN = "PASS", "MISS", "not run"
FLOAT32_BYTES = 4
PASSES = 11
"""Times that the broadcast form reads or writes a tensor of all pairs and units, forward and backward.

Forward: the sum is written; tanh reads and writes; the product with v reads. Backward: the product writes; the gradient
of v reads; that of tanh reads twice and writes; the sums over queries and over positions read.
"""


class Line(NamedTuple):
    """A figure of the ledger, its prediction, and its bound from below or from above."""

    name: str
    figure: Callable[[Rows], float]
    """From the rows of one file; a KeyError if one is missing or failed."""
    prediction: Callable[[Card], float] | None = None
    least: float = -math.inf
    most: float = math.inf

    @property
    def aim(self) -> str:
        """The bound in words; empty without."""
        if self.least > -math.inf:
            return f"at least {self.least:g}"
        return f"at most {self.most:g}" if self.most < math.inf else ""


class Entry(NamedTuple):
    """A line beside what was measured."""

    line: Line
    figure: float | None
    machine: Mapping[str, str]
    """That of the measurement; empty without."""

    @property
    def verdict(self) -> str:
        """PASS, MISS or ``not run``; empty without an aim."""
        if self.figure is None:
            return NOT_RUN
        return {True: PASS, False: MISS}[self.line.least <= self.figure <= self.line.most] if self.line.aim else ""

    @property
    def prediction(self) -> float | None:
        """For the card that measured, or for the first of ``CARDS`` if none did; None for another card."""
        card = find_card(self.machine["card"]) if self.machine else CARDS[0]
        return None if card is None or self.line.prediction is None else self.line.prediction(card)


def entries(measured: Sequence[Results]) -> list[Entry]:
    """Every line, each from the latest results that have its rows."""
    latest_first = sorted(measured, key=lambda results: results.machine["date"], reverse=True)
    cpu_rows = {key: figures for results in reversed(latest_first) for key, figures in _rows(results, True).items()}
    return [_find(line, latest_first, cpu_rows) for line in lines()]


def _rows(results: Results, is_cpu: bool) -> Rows:
    rows = (row for row in results.rows if row.figures and (row.section == CPU_SECTION) == is_cpu)
    return {(row.section, row.name): row.figures for row in rows}


def _find(line: Line, latest_first: Sequence[Results], cpu_rows: Rows) -> Entry:
    for results in latest_first:
        try:
            return Entry(line, line.figure({**cpu_rows, **_rows(results, False)}), results.machine)
        except KeyError:
            continue
    return Entry(line, None, {})


def value(section: str, row: str, figure: str) -> Callable[[Rows], float]:
    """A figure of a row."""
    return lambda rows: rows[section, row][figure]


def ratio(section: str, figure: str, numerator: str, denominator: str) -> Callable[[Rows], float]:
    """A figure of a row over the same figure of another row."""
    return lambda rows: rows[section, numerator][figure] / rows[section, denominator][figure]


def lines() -> Iterator[Line]:
    """All lines, in the order of the sections."""
    for shape in names.SHAPES:
        yield from operator_lines(shape)
    yield from training_lines()
    for search in names.SEARCHES:
        rows = [names.search_row(row, search) for row in (names.ATTNX, names.BY_HAND)]
        speed = ratio("decoding", names.WORDS, *rows)
        yield Line(f"decoding, {search}: times the loop by hand", speed, least=3)
    loop = names.training_row(names.WITH_GRAPHS, names.LOOP, names.FLOAT32)
    yield Line(f"{loop}: idle %", value("idle", loop, names.IDLE), most=10)
    difference = "main command: PER on the GPU less PER on the CPU, without its sign"
    yield Line(difference, phone_error_difference, lambda card: 0.0, most=0.3)
    for length in names.LENGTHS:
        yield from transformer_lines(length)
    yield from mixer_lines()
    for row, most in ((names.FOUR_AT_A_TIME, 4.0), (names.ALL_AT_A_TIME, 16.0)):
        speed = ratio("jobs", names.SECONDS, names.ONE_AT_A_TIME, row)
        yield Line(f"16 jobs, {row}: times one after another", speed, partial(_constant, most))


def _constant(number: float, card: Card) -> float:
    return number


def phone_error_difference(rows: Rows) -> float:
    """The distance between the phone error rates of the main command on both devices, in percent points."""
    gpu, cpu = (rows[section, names.MAIN][names.PHONE_ERRORS] for section in ("main_run", CPU_SECTION))
    return abs(gpu - cpu)


def operator_lines(shape: names.Shape) -> Iterator[Line]:
    """Additive attention, forward and backward."""
    units = torch.Size(shape).numel()
    attnx, broadcast = (names.operator_row(form, "both", shape) for form in (names.ATTNX, names.BROADCAST))

    def attnx_ms(card: Card) -> float:  # one reciprocal of a pair and unit forward, one backward
        return 1000 * 2 * units / card.reciprocals

    def broadcast_ms(card: Card) -> float:
        return 1000 * PASSES * FLOAT32_BYTES * units / card.memory_bytes

    for row, prediction in ((attnx, attnx_ms), (broadcast, broadcast_ms)):
        kernels = value("operators", row, names.KERNEL_MILLISECONDS)
        yield Line(f"{row}: {names.KERNEL_MILLISECONDS}", kernels, prediction)
    speed = ratio("operators", names.MILLISECONDS, broadcast, attnx)
    predicted = lambda card: broadcast_ms(card) / attnx_ms(card)  # noqa: E731
    yield Line(f"{attnx}: times as fast as the broadcast form", speed, predicted, least=20)
    distance = value("operators", attnx, names.TIMES_RECIPROCALS)
    yield Line(f"{attnx}: {names.TIMES_RECIPROCALS}", distance, partial(_constant, 1.0), most=2.5)


def training_lines() -> Iterator[Line]:
    """Training in float32: the speeds of attnx, and how they compare with the loop by hand."""
    for row, schedule, least in (
        (names.ATTNX, names.RUN_THEN_ATTEND, 0.9),
        (names.WITH_GRAPHS, names.LOOP, 3.0),
    ):
        attnx, by_hand = (names.training_row(name, schedule, names.FLOAT32) for name in (row, names.BY_HAND))
        words = partial(_words_per_second, schedule)
        yield Line(f"{attnx}: {names.WORDS}", value("training", attnx, names.WORDS), words)
        speed = ratio("training", names.WORDS, attnx, by_hand)
        yield Line(f"{attnx}: times the loop by hand", speed, least=least)


def _words_per_second(schedule: str, card: Card) -> float:
    return card.float32_flop / flop_of_a_word(schedule, *_mean_lengths())


@functools.cache
def _mean_lengths() -> tuple[float, float]:
    """Letters and phones (the end included) of a word of the dictionary."""
    pairs = read_cmudict()
    return mean(len(pair.source) for pair in pairs), mean(len(pair.references[0]) + 1 for pair in pairs)


def transformer_lines(length: int) -> Iterator[Line]:
    """The decoder-only transformer at a length; both forms compute half of all pairs."""
    attnx, by_hand = (names.transformer_row(row, length) for row in (names.ATTNX, names.BY_HAND))

    def tokens(card: Card) -> float:
        return card.bfloat16_flop / flop_of_a_token(SIZES, length / 2)

    for row in (attnx, by_hand):
        yield Line(f"{row}: {names.TOKENS}", value("transformer", row, names.TOKENS), tokens)
    yield Line(f"{attnx}: {names.UTILIZATION}", value("transformer", attnx, names.UTILIZATION))
    speed = ratio("transformer", names.TOKENS, attnx, by_hand)
    yield Line(f"{attnx}: times the model by hand", speed, partial(_constant, 1.0), least=0.95)
    for form in (names.WINDOW, names.ALIBI, names.SOFTCAP):
        row = names.transformer_row(form, length)
        yield Line(f"{row}: {names.TOKENS}", value("transformer", row, names.TOKENS))


def mixer_lines() -> Iterator[Line]:
    """Mixers in the layers of the transformer: their kernels beside their definitions."""
    for mixer in names.MIXERS:
        fla, own = (names.mixer_row(mixer, way, names.MIXER_LENGTH) for way in (names.WITH_FLA, names.OWN))
        yield Line(f"{fla}: {names.TOKENS}", value("mixers", fla, names.TOKENS))
        yield Line(f"{fla}: times its definition", ratio("mixers", names.TOKENS, fla, own))
