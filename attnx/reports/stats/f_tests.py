"""F-tests of the terms of a linear model: each factor, and each interaction of two factors.

All terms of a grid are tested together, against the variance of runs over seeds. A fraction of a grid has too few
settings for that: what one interaction does is partly what others do. Against the variance over seeds, which does not
contain these others, almost everything would be significant. In a fraction a term is therefore tested against the lack
of fit, the variance of settings about the model; its degrees of freedom count settings, not runs. If another
interaction is significant, the term must be so in a model with it as well.

Sources: Searle 1971, Linear Models, chapter 7 (type II sums of squares); Draper and Smith 1998, Applied Regression
Analysis, section 2.1 (lack of fit); Hamada and Wu 1992, Journal of Quality Technology 24, pages 130 to 137 (partly
aliased interactions); Berger 1982, Technometrics 24, pages 295 to 300 (a test by the largest p).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scipy import stats

from attnx.reports.stats.least_squares import LeastSquares, Model, ModelFits, Term
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL, adjust_by_holm
from attnx.reports.stats.pooled_variance import PooledVariance


class FTest(NamedTuple):
    """An F-test: the statistic, the degrees of freedom of the term and of the error, and the p-value.

    ``adjusted_p`` is adjusted by Holm for all tests of main effects, or of interactions.
    """

    f: float
    degrees: int
    error_degrees: int
    p: float
    adjusted_p: float


class TermTest(NamedTuple):
    """The test of a term, with the fit in which it was tested and the error."""

    test: FTest
    fit: LeastSquares
    error: PooledVariance


def is_fraction(fits: ModelFits) -> bool:
    """Whether an interaction that could be estimated without the others is lost among them, at least in part."""
    return any(fits.degrees(pair, fits.additive | {pair}) > fits.degrees(pair, fits.full) for pair in fits.pairs)


def residual_variance(fit: LeastSquares, pooled: PooledVariance) -> PooledVariance:
    """The lack of fit: the variance of settings about a model; with one seed each this is the residual.

    ``pooled`` is the variance of runs over seeds. Without degrees of freedom the variance is 0.
    """
    degrees = len(fit.values) - fit.rank - pooled.degrees
    squares = max(0.0, fit.squares - pooled.variance * pooled.degrees)
    return PooledVariance(squares / degrees if degrees else 0.0, degrees, None)


def test_grid(fits: ModelFits, error: PooledVariance) -> dict[Term, TermTest]:
    """The tests of interactions in the model of all terms, and of main effects in that of all terms without theirs.

    A term is left out if it adds no rank, or the error is unknown. Interactions are part of the error, and not tested,
    if the model of all terms has as many parameters as there are runs; main effects are then tested without them.
    """
    if error.variance <= 0:
        return {}
    models = dict.fromkeys(fits.main, fits.additive)
    if fits[fits.full].rank < len(fits.values):
        models = {term: fits.full - {pair for pair in fits.pairs if set(term) < set(pair)} for term in fits.main}
        models |= dict.fromkeys(fits.pairs, fits.full)
    models = {term: model for term, model in models.items() if fits.degrees(term, model)}
    return _adjust({term: _test(fits, term, model, error) for term, model in models.items()})


def test_fraction(fits: ModelFits, pooled: PooledVariance) -> dict[Term, TermTest]:
    """The tests of all terms against the lack of fit, each with the largest p of several models.

    These are the model of main effects and the term, and that model with one interaction more: each that is significant
    in its first model and does not contain the term. Left out is a term that cannot be separated from one of these
    interactions, or whose first model leaves no degrees of freedom.
    """
    models = {term: [fits.additive | {term}] for term in [*fits.main, *fits.pairs]}
    first = {term: test for term in models if (test := _least_significant(fits, term, models[term], pooled))}
    significant = [pair for pair in fits.pairs if pair in first and first[pair].test.p < SIGNIFICANCE_LEVEL]
    for term in first:
        models[term] += [fits.additive | {term, pair} for pair in significant if not set(term) <= set(pair)]
    tests = {term: _least_significant(fits, term, models[term], pooled) for term in first}
    return _adjust({term: test for term, test in tests.items() if test})


def _least_significant(fits: ModelFits, term: Term, models: Sequence[Model], pooled: PooledVariance) -> TermTest | None:
    """The test with the largest p of models with a lack of fit; None without, or if the term adds no rank to one."""
    errors = {model: error for model in models if (error := residual_variance(fits[model], pooled)).variance > 0}
    if not all(fits.degrees(term, model) for model in errors):
        return None
    tests = [_test(fits, term, model, error) for model, error in errors.items()]
    return max(tests, key=lambda test: test.test.p, default=None)


def _test(fits: ModelFits, term: Term, model: Model, error: PooledVariance) -> TermTest:
    degrees, fit = fits.degrees(term, model), fits[model]
    f = max(0.0, fits[model - {term}].squares - fit.squares) / degrees / error.variance
    p = float(stats.f.sf(f, degrees, error.degrees))
    return TermTest(FTest(f, degrees, error.degrees, p, p), fit, error)


def _adjust(tests: Mapping[Term, TermTest]) -> dict[Term, TermTest]:
    """Holm's correction, of main effects and of interactions apart."""
    adjusted: dict[Term, float] = {}
    for factors in (1, 2):
        terms = [term for term in tests if len(term) == factors]
        adjusted |= zip(terms, adjust_by_holm([tests[term].test.p for term in terms]), strict=True)
    return {term: test._replace(test=test.test._replace(adjusted_p=adjusted[term])) for term, test in tests.items()}
