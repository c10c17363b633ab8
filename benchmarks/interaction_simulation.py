"""How often an interaction is reported, in a fraction of a grid: one that does not exist, and one that does.

    python benchmarks/interaction_simulation.py --samples 200

The values are synthetic: main effects, some interactions, and noise over three seeds with a standard deviation of 1. A
design is a random fraction of all combinations, or a grid of two factors, in which all others have their first level,
with such a fraction. The second is harder: the first levels meet so often that interactions resemble each other.
"""

from __future__ import annotations

import argparse
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnx.reports.stats.f_tests import test_fraction
from attnx.reports.stats.least_squares import ModelFits
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL
from attnx.reports.stats.pooled_variance import within_variance

SIZES = (5, 4, 3, 3, 2)
SEEDS, FRACTION = 3, 50
PAIRS = list(combinations(range(len(SIZES)), 2))
INTERACTIONS = ((0, 0.0), (1, 1.0), (1, 2.0), (3, 1.0), (3, 2.0), (9, 1.0))  # their number and standard deviation


class Shares(NamedTuple):
    """Shares of missing interactions with p < 0.05, of samples with one after Holm's correction, of true ones found."""

    false: float
    any_false: float
    power: float


def sample_settings(has_grid: bool, random: np.random.Generator) -> NDArray[np.int_]:
    """(settings, factors) the level of each factor in each setting."""
    settings = np.array(list(product(*map(range, SIZES))))
    is_chosen = np.zeros(len(settings), dtype=bool)
    is_chosen[random.choice(len(settings), FRACTION, replace=False)] = True
    if has_grid:
        is_chosen |= (settings[:, 2:] == 0).all(axis=1)
    return settings[is_chosen]


def sample_values(
    settings: NDArray[np.int_], pairs: list[tuple[int, int]], deviation: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """(settings, seeds) values with main effects and with the interactions of some pairs."""
    means = sum(random.normal(size=size)[settings[:, factor]] for factor, size in enumerate(SIZES))
    for a, b in pairs:
        cells = random.normal(size=(SIZES[a], SIZES[b]))
        cells -= cells.mean(axis=0)
        cells -= cells.mean(axis=1, keepdims=True)
        means = means + deviation * cells[settings[:, a], settings[:, b]]
    return np.asarray(means)[:, None] + random.normal(size=(len(settings), SEEDS))


def significant_shares(has_grid: bool, true_pairs: int, deviation: float, samples: int, seed: int = 0) -> Shares:
    """The shares over random designs, interactions and noise."""
    random = np.random.default_rng([seed, has_grid, true_pairs, round(10 * deviation)])
    false: list[bool] = []
    any_false: list[bool] = []
    detected: list[bool] = []
    for _ in range(samples):
        settings = sample_settings(has_grid, random)
        true = [PAIRS[index] for index in random.choice(len(PAIRS), true_pairs, replace=False)]
        values = sample_values(settings, true, deviation, random)
        fits = ModelFits(list(np.repeat(settings, SEEDS, axis=0).T), SIZES, values.ravel())
        results = test_fraction(fits, within_variance(values.tolist()))
        tests = {pair: results[pair].test for pair in PAIRS if pair in results}
        wrong = [test for pair, test in tests.items() if pair not in true]
        false += [test.p < SIGNIFICANCE_LEVEL for test in wrong]
        any_false.append(any(test.adjusted_p < SIGNIFICANCE_LEVEL for test in wrong))
        detected += [pair in tests and tests[pair].adjusted_p < SIGNIFICANCE_LEVEL for pair in true]
    return Shares(*(float(np.mean(events)) if events else 0.0 for events in (false, any_false, detected)))


def main() -> None:
    """Print the table of docs/reports.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    samples = parser.parse_args().samples
    print(
        "| design | interactions | false, p < 0.05 | any false, Holm | found, Holm |", "|---|---|---|---|---|", sep="\n"
    )
    for has_grid in (False, True):
        for true_pairs, deviation in INTERACTIONS:
            shares = significant_shares(has_grid, true_pairs, deviation, samples)
            design = "grid and fraction" if has_grid else "fraction"
            count = f"{true_pairs} of {deviation:.0f} sd" if true_pairs else "none"
            cells = [design, count, *(f"{100 * share:.1f} %" for share in shares[: 3 if true_pairs else 2])]
            print("| " + " | ".join(cells) + (" |" if true_pairs else " | |"), flush=True)


if __name__ == "__main__":
    main()
