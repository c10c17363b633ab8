"""docs/claims.md: each claim with what was published and what was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from statistics import fmean

from scipy import stats

from attnx.files.printable import markdown_table
from attnx.reports.metric_names import is_higher_better, metric_label
from attnx.reports.significant_digits import digits_for
from attnx.reports.sweep.run_record import RunRecord
from attnx.sweeps.summary import format_duration
from studies.claims.claim import BASELINES, Claim, validation
from studies.claims.evaluations import EvaluatedClaim
from studies.results import Results

HEAD = (
    "claim",
    "metric",
    "published",
    "aim",
    "measured",
    "95 % interval",
    "runs",
    "training, each",
    "commit",
    "reached",
)
SINGLE_PRECISION = 1e-6  # of results: 3 errors of 1,000 are 0.3000000119 %
NOT_RUN = ["not run", "", "", "", "", ""]
INTRODUCTION = """# Claims

What the experiments of `conf/experiment` claim, and what was measured. *Aim* is what attnx is to reach; it may be
weaker than what was published. *Training* is the mean time of a run on one core. A plus after a commit means
uncommitted changes.

A forecast aims at the best forecast without a model on the same windows: the last value, the last season, or a
[linear map](forecasting.md#metrics-and-baselines). The last column names those that are as good as the model or better.

`python -m studies.claims` trains the missing runs and writes this page; `studies/claims/claims.yaml` says how each
claim is trained. To repeat a row, delete it from `studies/claims/results.csv`. For one run, or the best of several by
validation, the interval is over test examples; for a mean it is over seeds. Where the best of several seeds counts,
seeds are trained until one has no error in validation; "so far" means that seeds are still missing. A claim with a
longer or wider training, such as `babi_2_long`, was added after the shorter one had missed its aim on the same test
set.
"""

SHORT = """
## Short of the aim

These are not tried again, for the reason given.

"""


def claims_page(claims: Sequence[Claim], results: Results, evaluations: Mapping[str, EvaluatedClaim]) -> str:
    """The page's text."""
    rows = [_row(claim, claims, results, evaluations.get(claim.name)) for claim in claims]
    short: dict[str, list[str]] = {}
    for claim, row in zip(claims, rows, strict=True):
        if claim.closed and row[-1].startswith("no"):
            short.setdefault(claim.closed, []).append(f"`{claim.name}`")
    reasons = "".join(f"- {', '.join(names)}: {closed}\n" for closed, names in short.items())
    return f"{INTRODUCTION}\n{markdown_table(HEAD, rows)}\n{SHORT + reasons if short else ''}"


def _row(claim: Claim, claims: Sequence[Claim], results: Results, evaluation: EvaluatedClaim | None) -> list[str]:
    """The cells of a claim."""
    source = next(candidate for candidate in claims if candidate.name == (claim.runs or claim.name))
    finished = source.finished_runs(results)
    baselines = claim.baselines(finished)
    cells = [f"`{claim.name}`: {claim.says}", metric_label(claim.metric), claim.published, _aim(claim, baselines)]
    if not finished or (claim.evaluate and evaluation is None):
        return [*cells, *NOT_RUN]
    value, low, high = (evaluation.value, evaluation.low, evaluation.high) if evaluation else _measured(claim, finished)
    text = f"{{:.{digits_for(low, high) if high > low else 2}f}}".format
    seconds = fmean(run.results["train_seconds"] for run in finished)
    commits = " ".join(dict.fromkeys(run.commit for run in finished))
    trained, planned = len(finished), len(source.jobs)
    count = evaluation.runs if evaluation else str(trained) if trained == planned else f"{trained} of {planned}"
    interval = f"{text(low)} to {text(high)}" if high > low else ""
    is_open = evaluation is None and trained < planned and not claim.is_decided(results)
    reached = ("so far " if is_open else "") + _reached(claim, value, baselines)
    return [*cells, text(value), interval, count, format_duration(seconds), f"`{commits}`", reached]


def _measured(claim: Claim, runs: Sequence[RunRecord]) -> tuple[float, float, float]:
    """The value of a claim, and the ends of its interval; both equal the value if it is unknown."""
    if claim.take == "best" or len(runs) == 1:
        run = min(runs, key=validation)
        return run.results[claim.metric], *run.intervals.get(claim.metric, [run.results[claim.metric]] * 2)
    values = [run.results[claim.metric] for run in runs]
    mean, half = fmean(values), float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))
    return mean, mean - half, mean + half


def _aim(claim: Claim, baselines: Mapping[str, float]) -> str:
    """The aim of a claim, or the best baseline."""
    if not baselines:
        return "" if claim.aim is None else f"{claim.aim:g}"
    name, value = (max if is_higher_better(claim.metric) else min)(baselines.items(), key=itemgetter(1))
    return f"{value:.4g}, {BASELINES[name]}"


def _reached(claim: Claim, value: float, baselines: Mapping[str, float]) -> str:
    is_higher = is_higher_better(claim.metric)
    if baselines:
        as_good = [name for name, error in baselines.items() if not (value > error if is_higher else value < error)]
        names = ", ".join(BASELINES[name] for name in as_good)
        return f"no, not better than {names}" if names else "yes"
    if claim.aim is None:
        return ""
    is_beyond = value > claim.aim if is_higher else value < claim.aim
    return "yes" if is_beyond or math.isclose(value, claim.aim, rel_tol=SINGLE_PRECISION) else "no"
