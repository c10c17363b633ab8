"""How often the conclusion of a sweep names a winner: with no better setting, and with one that is better.

    python benchmarks/verdict_simulation.py --grids 2000
    python benchmarks/verdict_simulation.py --grids 2000 --differences

The second command prints how often any setting differs significantly from a control although none does, of 25 settings.
Noise may be `wild`: that of one setting has thirty times the standard deviation.

The grids are synthetic. The seeds of a setting are noise with a standard deviation of 1, normal or skewed
(exponential); the first setting is better than all others by a number of standard deviations. The report's test is
compared with its predecessor: Student's t paired over seeds, with Holm's correction.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL, compare_with_best, compare_with_control

Noise = Literal["normal", "skewed", "wild"]
Rule = Callable[[NDArray[np.float64]], int | None]
SETTINGS, SEEDS, LEADS = (6, 24), (2, 3, 5), (0, 1, 2, 3)


def dunnett(grid: NDArray[np.float64]) -> int | None:
    """The winner of a grid (settings, seeds) as the report names it; None if there is none."""
    gaps = compare_with_best(grid.tolist())
    gaps_to_best = [gap for gap in gaps if gap is not None]
    is_won = len(gaps_to_best) == len(grid) - 1 and all(gap.p < SIGNIFICANCE_LEVEL for gap in gaps_to_best)
    return gaps.index(None) if is_won else None


def paired_holm(grid: NDArray[np.float64]) -> int | None:
    """The winner by paired t-tests against the best, all of which must be below Holm's level."""
    best = int(grid.mean(axis=1).argmin())
    rivals = np.delete(grid, best, axis=0)
    p = np.sort(stats.ttest_rel(rivals, grid[best], axis=1).pvalue)
    return best if (p * np.arange(len(p), 0, -1) < SIGNIFICANCE_LEVEL).all() else None


def winner_shares(
    settings: int, seeds: int, lead: float, noise: Noise, grids: int, rule: Rule = dunnett, seed: int = 0
) -> tuple[float, float]:
    """The shares of grids in which the first setting is named the winner, and in which another is."""
    random = np.random.default_rng([seed, settings, seeds, round(10 * lead)])
    winners = []
    for _ in range(grids):
        values = draw(random, (settings, seeds), noise)
        values[0] -= lead
        winners.append(rule(values))
    right = sum(winner == 0 for winner in winners)
    wrong = sum(winner not in (0, None) for winner in winners)
    return right / grids, wrong / grids


def draw(random: np.random.Generator, shape: tuple[int, int], noise: Noise) -> NDArray[np.float64]:
    """Values (settings, seeds) without any difference."""
    values = random.exponential(size=shape) if noise == "skewed" else random.normal(size=shape)
    if noise == "wild":
        values[-1] *= 30
    return values


def false_differences(settings: int, seeds: int, noise: Noise, grids: int) -> float:
    """The share of grids without any difference in which some setting differs significantly from the first."""
    random = np.random.default_rng([seeds, settings])
    gaps = (compare_with_control(draw(random, (settings, seeds), noise).tolist()) for _ in range(grids))
    return sum(any(gap is not None and gap.p < SIGNIFICANCE_LEVEL for gap in row) for row in gaps) / grids


def main() -> None:
    """Print the table of docs/reports.md, or that of false differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grids", type=int, default=2000)
    parser.add_argument("--differences", action="store_true", help="how often differences are found where none are")
    arguments = parser.parse_args()
    grids = arguments.grids
    if arguments.differences:
        print("| seeds | normal | skewed | one wild |", "|---|---|---|---|", sep="\n")
        for seeds in SEEDS:
            shares = [false_differences(25, seeds, noise, grids) for noise in ("normal", "skewed", "wild")]
            print("| " + " | ".join([str(seeds), *(f"{100 * share:.1f} %" for share in shares)]) + " |", flush=True)
        return
    print("| settings | seeds | noise | none better | 1 sd | 2 sd | 3 sd |", "|---|---|---|---|---|---|---|", sep="\n")
    for settings in SETTINGS:
        for seeds in SEEDS:
            for noise in ("normal", "skewed"):
                cells = [str(settings), str(seeds), noise]
                for lead in LEADS:
                    shares = [
                        winner_shares(settings, seeds, lead, noise, grids, rule) for rule in (dunnett, paired_holm)
                    ]
                    winners = [right if lead else right + wrong for right, wrong in shares]
                    cells.append(" / ".join(f"{100 * share:.1f} %" for share in winners))
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
