"""How often a report calls settings different that are equal, and how often it names the better one.

    python benchmarks/verdict_simulation.py --grids 400
    python benchmarks/verdict_simulation.py --grids 2000 --settings 6 --seeds 3 --noise normal --spread half

A grid is synthetic: some settings with some seeds each, whose values are noise about the setting's mean. In most cells
no setting is better. The table says in how many grids some setting is called worse than the best, though none is
(``false difference``), in how many a winner is named that is none (``false winner``), and where the first setting is
better than all others by some standard deviations, in how many it is named (``winner``).

The spreads are the standard deviations of settings: ``equal``; ``half``, half of the settings have four times that of
the others; ``quarter``, a quarter has three times; ``best``, the first has four times; ``wide`` and ``narrow``, inverse
chi with 2.3 and 8 degrees of freedom; ``mean``, proportional to the mean, with means from 1 to 3, two settings each,
compared on logarithms; and the names of the tasks of the study, whose settings' own deviations are drawn. ``pair`` has
two equal settings far ahead of all others, and ``bad`` has half of the settings far behind, with wild deviations.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL, compare_with_best

Numbers = NDArray[np.float64]
NOISES = ("normal", "skewed", "t3", "lognormal")
TASKS = {"g2p": "test_per", "g2p_multilingual": "test_per_macro", "translation": "test_bleu", "etth1": "test_mse"}
SPREADS = ("equal", "half", "quarter", "best", "wide", "narrow", "mean", "pair", "bad", *TASKS)
FAR = 40.0  # standard deviations
STUDY = Path(__file__).parents[1] / "studies" / "atlas" / "results.csv"


class Cell(NamedTuple):
    """What is simulated: settings, seeds, noise, their standard deviations, the lead of the first, failing seeds."""

    settings: int
    seeds: int
    noise: str = "normal"
    spread: str = "equal"
    lead: float = 0.0
    failing: float = 0.0


class Shares(NamedTuple):
    """The shares of grids with a false difference, with a false winner, and with the first setting named."""

    false_difference: float
    false_winner: float
    winner: float


def simulate(cell: Cell, grids: int, seed: int = 0) -> Shares:
    """The shares over so many grids."""
    random = np.random.default_rng([seed, *map(ord, repr(cell))])
    counts = np.zeros(3)
    for _ in range(grids):
        means, deviations = draw_settings(cell, random)
        values = means[:, None] + deviations[:, None] * draw_noise(cell.noise, (cell.settings, cell.seeds), random)
        values = np.log(np.maximum(values, 0.01)) if cell.spread == "mean" else values
        groups = [row[random.random(cell.seeds) >= cell.failing] for row in values]
        indices = [index for index, group in enumerate(groups) if len(group) > 1]
        if len(indices) < 2:
            continue
        result = compare_with_best([groups[index].tolist() for index in indices])
        best = indices[result.differences.index(None)]
        is_false = [
            gap is not None and gap.p < SIGNIFICANCE_LEVEL and means[i] <= means[best]
            for i, gap in zip(indices, result.differences, strict=True)
        ]
        is_won = result.is_sole_best and len(groups[best]) == cell.seeds
        is_right = cell.lead > 0 and best == 0
        counts += any(is_false), is_won and not is_right, is_won and is_right
    return Shares(*(counts / grids).tolist())


def draw_settings(cell: Cell, random: np.random.Generator) -> tuple[Numbers, Numbers]:
    """(settings,) means, less is better, and standard deviations."""
    settings = cell.settings
    means, deviations = np.zeros(settings), np.ones(settings)
    match cell.spread:
        case "half":
            deviations[: settings // 2] = 4
        case "quarter":
            deviations[: settings // 4] = 3
        case "best":
            deviations[0] = 4
        case "wide" | "narrow":
            degrees = 2.3 if cell.spread == "wide" else 8.0
            deviations = np.sqrt(degrees / random.chisquare(degrees, settings))
        case "mean":
            means = np.repeat(random.uniform(1, 3, -(-settings // 2)), 2)[:settings]
            deviations = 0.05 * means
        case "pair":
            means[2:] = FAR
        case "bad":
            bad = settings // 2
            means[bad:] = 5 + random.exponential(FAR / 2, settings - bad)
            deviations[bad:] = 4 * np.sqrt(2.3 / random.chisquare(2.3, settings - bad))
        case task if task in TASKS:
            deviations = random.choice(study_deviations(task), settings)
    means[0] -= cell.lead * deviations[0]
    return means, deviations


def draw_noise(noise: str, shape: tuple[int, int], random: np.random.Generator) -> Numbers:
    """Noise of mean 0 and variance 1."""
    match noise:
        case "skewed":
            return random.exponential(size=shape) - 1
        case "t3":
            return random.standard_t(3, shape) / math.sqrt(3)
        case "lognormal":
            return (random.lognormal(size=shape) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)
        case _:
            return random.normal(size=shape)


@cache
def study_deviations(task: str) -> Numbers:
    """The standard deviations over seeds of the study's settings, of logarithms but for BLEU."""
    values = defaultdict(list)
    with STUDY.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["task"] == task and row[TASKS[task]]:
                choices = tuple(
                    cell
                    for key, cell in row.items()
                    if key.partition(".")[0]
                    in ("scorer", "scope", "query", "normalizer", "model", "attention", "optimizer")
                )
                values[choices].append(float(row[TASKS[task]]))
    groups = [group if task == "translation" else np.log(group) for group in values.values() if len(group) > 1]
    return np.array([np.std(group, ddof=1) for group in groups])


def cells(settings: list[int], seeds: list[int], noises: list[str], spreads: list[str]) -> Iterator[Cell]:
    """The cells of the table: all noises with equal deviations, all deviations with normal noise, failures, leads."""
    for size, count in product(settings, seeds):
        yield from (Cell(size, count, noise) for noise in noises)
        yield from (Cell(size, count, spread=spread) for spread in spreads if spread != "equal")
        if "normal" in noises and "equal" in spreads:
            yield Cell(size, count, failing=0.1)
            yield from (Cell(size, count, lead=lead) for lead in (1.0, 2.0, 3.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", type=int, default=400)
    parser.add_argument("--settings", type=int, nargs="+", default=[6, 24])
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--noise", nargs="+", choices=NOISES, default=list(NOISES))
    parser.add_argument("--spread", nargs="+", choices=SPREADS, default=list(SPREADS))
    arguments = parser.parse_args()
    print(
        "| settings | seeds | noise | deviations | lead | false difference | false winner | winner |",
        "|---" * 8 + "|",
        sep="\n",
    )
    for cell in cells(arguments.settings, arguments.seeds, arguments.noise, arguments.spread):
        shares = simulate(cell, arguments.grids)
        spread = f"{cell.spread}, {cell.failing:.0%} failing" if cell.failing else cell.spread
        lead = f"{cell.lead:.0f} sd" if cell.lead else "none"
        winner = f"{shares.winner:.1%}" if cell.lead else ""
        figures = [f"{shares.false_difference:.1%}", f"{shares.false_winner:.1%}", winner]
        print(
            "| " + " | ".join([str(cell.settings), str(cell.seeds), cell.noise, spread, lead, *figures]) + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
