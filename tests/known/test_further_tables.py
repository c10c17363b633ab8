"""Errors by source length, effects and ablations, counted by hand."""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from attnx.errors import UserError
from attnx.reports.run.evaluated_examples import EvaluatedExamples, LengthErrors
from attnx.reports.sweep.ablations import ablation_section, ablations, parse_reference
from attnx.reports.sweep.comparison import comparisons, group_lengths
from attnx.reports.sweep.report import Report
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.texts import length_section
from attnx.runs.info import RunStatus
from tests.refusal import refused

REFERENCE = ["scorer=dot", "scope=global"]


def record(
    scorer: str, seed: int, value: float, task: str = "g2p", monitor: str = "valid_per", **errors: Any
) -> RunRecord:
    return RunRecord(
        Path(f"{task}/{scorer}/{seed}"), scorer, RunStatus.FINISHED, seed,
        {"task": task, "scorer": scorer, "attention": "none" if scorer == "no" else "standard"},
        {monitor.replace("valid", "test"): value}, monitor=monitor, maximize=monitor == "valid_bleu",
        examples=EvaluatedExamples(digest=task, **errors))  # fmt: skip


def test_errors_by_length_are_means_over_seeds():
    """Of short sources 2 edits of 20 symbols and 4 of 20, of long ones 10 of 40 and none of 40: 15 % and 12.5 %."""
    errors = [{2: LengthErrors(10, 1, 2, 20), 9: LengthErrors(10, 5, 10, 40)}]
    errors += [{2: LengthErrors(10, 1, 4, 20), 9: LengthErrors(10, 0, 0, 40)}]
    runs = [record("dot", seed, 12.0, length_errors=errors[seed]) for seed in (0, 1)]
    runs += [record("no", seed, 50.0, length_errors=errors[0]) for seed in (0, 1)]
    (comparison,) = comparisons(runs)
    rates = comparison.length_rates
    assert (rates.label, rates.labels, rates.examples) == ("symbol error rate", ["2", "9"], [10, 10])
    assert list(rates.rates.values()) == [pytest.approx([15, 12.5]), pytest.approx([10, 25])]
    _, _, text = length_section(comparison)
    assert "| rank | setting | 2 (10) | 9 (10) |" in text
    assert "| 1 | attention=standard, dot | 15.00 | 12.50 |" in text
    (comparison,) = comparisons(
        [record("dot", seed, 12.0, length_errors=errors[0], monitor="valid_wer") for seed in (0, 1)]
    )
    assert comparison.length_rates.rates == {0: pytest.approx([10, 50])}  # of words
    # By another tokenizer the same sources have other lengths.
    longer = {20: LengthErrors(10, 1, 2, 20), 30: LengthErrors(10, 5, 10, 40)}
    (comparison,) = comparisons(
        [record("dot", 0, 12.0, length_errors=errors[0]), record("no", 0, 9, length_errors=longer)]
    )
    assert comparison.length_rates is None
    (comparison,) = comparisons([record("dot", 0, 12.0), record("dot", 1, 12.0, length_errors=errors[0])])
    assert (comparison.length_rates, list(length_section(comparison))) == (None, [])


@pytest.mark.parametrize(
    ("examples", "groups"),
    [
        ({3: 5}, [(3, 3)]),
        ({1: 1, 2: 97, 3: 1, 4: 1}, [(1, 1), (2, 2), (3, 4)]),
        (dict.fromkeys(range(1, 9), 4), [(1, 2), (3, 4), (5, 6), (7, 8)]),
    ],
)
def test_lengths_are_grouped_in_order(examples, groups):
    assert group_lengths(examples) == groups


def test_settings_of_a_fraction_count_once():
    """Nine of 27 settings: further seeds of some, with the same mean, change no effect."""
    runs = [
        replace(run, path=Path(*values, str(seed)), choices=choices)
        for index, values in enumerate(product(("dot", "mlp", "cosine"), ("global", "local", "history")))
        for normalizer in [("softmax", "sparsemax", "entmax")[(index + index // 3) % 3]]
        for choices in [
            {"task": "g2p", **dict(zip(("scorer", "scope"), values, strict=True)), "normalizer": normalizer}
        ]
        for seed in ((1,) if index else (1, 2, 3))
        for run in [record("dot", seed, 10 + (index * 5) % 7 + 0.25 * (seed - 2) * (index == 0), monitor="valid_loss")]
    ]
    many, few = (comparisons(some)[0].rankings[0] for some in (runs, runs[1:2] + runs[3:]))
    assert "Each setting counts once" in many.effects_summary[0]
    assert [effect.test for effect in many.effects] == [effect.test for effect in few.effects]
    for effect, same in zip(many.effects, few.effects, strict=True):
        assert [(level.mean, level.low) for level in effect.levels] == [
            (level.mean, level.low) for level in same.levels
        ]


def ablation_runs() -> list[RunRecord]:
    """Two scorers by two scopes, and a baseline: three seeds of a sd of 1 about 10, 12, 9, 20, and 30."""
    means = {("dot", "global"): 10, ("cosine", "global"): 12, ("dot", "local"): 9, ("cosine", "local"): 20}
    runs = [
        RunRecord(
            Path(scorer, scope, str(seed)), "", RunStatus.FINISHED, seed,
            {"task": "g2p", "attention": "standard", "scorer": scorer, "scope": scope},
            {"test_per": mean + seed}, monitor="valid_per")
        for (scorer, scope), mean in means.items()
        for seed in (-1, 0, 1)
    ]  # fmt: skip
    return runs + [
        RunRecord(
            Path("none", str(seed)), "", RunStatus.FINISHED, seed, {"task": "g2p", "attention": "none"},
            {"test_per": 30.0 + seed}, monitor="valid_per")
        for seed in (-1, 0, 1)
    ]  # fmt: skip


def test_ablations_change_one_choice_of_the_reference():
    """Not both; the baseline lacks all parts, and its one choice is to have none. Errors are compared by logarithms."""
    (comparison,) = comparisons(ablation_runs())
    start, changed = ablations(comparison, parse_reference(REFERENCE))
    assert start.mean == 10
    assert [(change.factor, change.value, change.row.mean) for change in changed] == [
        ("attention", "none", 30),
        ("scope", "local", 9),
        ("scorer", "cosine", 12),
    ]
    geometric = [math.prod(mean + seed for seed in (-1, 0, 1)) ** (1 / 3) for mean in (10, 30, 9, 12)]
    none, local, cosine = (change.difference for change in changed)
    for gap, mean in zip((none, local, cosine), geometric[1:], strict=True):
        assert gap.difference == pytest.approx(mean - geometric[0])
        assert gap.low < gap.difference < gap.high
    assert (none.p < 0.01, local.p > 0.3) == (True, True)
    _, text, rows = ablation_section(comparison, parse_reference(REFERENCE))
    assert text.startswith("**attention=standard, dot, global** has PER 10.0.")
    assert "| scope | local | 9" in rows


def search_runs() -> list[RunRecord]:
    """Two scorers with twelve learning rates, two seeds each, which differ by 0.2; the rates differ at random."""
    values = {0.001 * (1 + index): float(7 * index % 12) for index in range(12)}
    return [
        replace(run, path=Path(f"{scorer}/{rate}/{seed}"), choices={**run.choices, "optimizer.lr": rate})
        for scorer in ("dot", "mlp")
        for rate, value in values.items()
        for seed in (0, 1)
        for run in [record(scorer, seed, 10 + value + 0.2 * seed)]
    ]


def test_ablations_of_many_numbers_compare_the_numbers():
    """And not the quarter of them in which they are."""
    (comparison,) = comparisons(search_runs())
    reference = parse_reference(["scorer=dot", "optimizer.lr=0.001"])
    _, changed = ablations(comparison, reference)
    assert [change.value for change in changed if change.factor == "scorer"] == ["mlp"]
    assert len([change for change in changed if change.factor == "lr"]) == 11


def test_grouped_numbers_are_tested_by_the_settings_in_a_group():
    """Rates of one quarter differ by far more than their seeds; the quarters do not."""
    (comparison,) = comparisons(search_runs())
    main = comparison.rankings[0]
    (effect,) = [effect for effect in main.effects if effect.name == "lr"]
    assert len(effect.levels) == 4
    assert effect.test.p > 0.05
    assert "variance of settings" in main.effects_summary[0]


def test_a_test_without_the_reference_has_no_ablations():
    """Another one has them; a key that no test has is refused."""
    runs = [*ablation_runs(), *(record("dot", seed, 5.0, "other") for seed in (1, 2))]
    report = Report("two", runs)
    text = report.markdown(parse_reference(REFERENCE))
    assert text.count("### One choice changed") == 1
    with pytest.raises(UserError, match="--reference scorr"):
        report.markdown(parse_reference(["scorr=dot"]))


def test_of_several_references_the_one_with_the_fewest_choices_counts():
    """Here it is the one without a bias, a choice that the others do not make."""
    runs = ablation_runs()
    runs += [replace(run, choices={**run.choices, "attention.bias": "alibi"}) for run in runs if run.seed == 0]
    runs += [replace(run, choices={**run.choices, "attention.bias": "relative"}) for run in runs[:3]]
    (comparison,) = comparisons(runs)
    reference = parse_reference(REFERENCE)
    start, changed = ablations(comparison, reference)
    assert len(start.values) == 3
    assert ("bias", "relative") in [(change.factor, change.value) for change in changed]


def test_values_of_a_reference_are_read_as_those_of_runs():
    words = ["scorer.hidden_sizes=[19, 7]", "query=[token]", "optimizer.lr=4e-3", "scorer.depth=2.0", "name=yes"]
    expected = {"scorer.hidden_sizes": "[19,7]", "query": "token", "optimizer.lr": "0.004", "scorer.depth": "2"}
    assert parse_reference(words) == {**expected, "name": "yes"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dot"], "--reference dot: expected KEY=VALUE"),
        (["query=["], "--reference query=[: expected KEY=VALUE"),
        (["scorr=dot"], "--reference scorr: the settings do not differ in it; did you mean scorer"),
        (["scorer=dot"], "--reference scorer=dot: 2 settings have these values; name attention, scope, too"),
        (["scorer=additive"], "--reference scorer=additive: no setting has this value; choose from cosine, dot"),
        (["scorer=dott"], "--reference scorer=dott: no setting has this value; did you mean dot?"),
        (["attention=none", "scope=local"], "--reference attention=none scope=local: no setting has all of these"),
    ],
)
def test_an_unclear_reference_is_refused(words, message):
    (comparison,) = comparisons(ablation_runs())
    with refused(f"{message}..."):
        list(ablation_section(comparison, parse_reference(words)))
