"""The sentences of docs/which-attention.md hold in the study's table."""

from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest
from scipy import stats

import attnx
from attnx.reports.stats.multiple_comparisons import SIGNIFICANCE_LEVEL
from attnx.reports.sweep.comparison import Comparison
from attnx.reports.sweep.report import Report
from studies.atlas.__main__ import PAGE
from studies.atlas.changes import Changes, single_changes
from studies.atlas.design import jobs, read_design
from studies.atlas.figures import scorer_by_scope
from studies.atlas.page import DEFAULT_RATE, fill_tables
from studies.atlas.rates import rate_table
from studies.results import Results

STUDY = Path(__file__).parents[2] / "studies" / "atlas"
TESTED = ("g2p", "g2p_multilingual", "translation", "reverse")
FORECASTS = "etth1"
PREDICTED = "scope=local scope.center=predictive scope.window="
MOVING = "scope=local scope.center=monotonic scope.window="
MOVING_OVER_STATES = "scope=local scope.sources=[decoder] scope.center=monotonic scope.window="


@pytest.fixture(scope="module")
def tasks():
    return read_design(STUDY / "design.yaml")[0]


class Page(NamedTuple):
    """What the page on the study is made from."""

    report: Report
    changes: dict[str, Changes]

    def is_significant(self, task: str, words: str, sign: int) -> bool:
        """Whether a change is significantly worse, or with the sign -1 better."""
        difference = self.changes[task].by_words[words].difference
        return difference is not None and difference.p < SIGNIFICANCE_LEVEL and sign * difference.difference > 0

    def percent(self, task: str, words: str) -> float:
        """By how much the mean of a change is worse than that of the defaults."""
        result = self.changes[task]
        gap = result.by_words[words].row.mean - result.default.mean
        return 100 * (-gap if result.metric.is_higher_better else gap) / result.default.mean

    def comparison(self, task: str) -> Comparison:
        return next(comparison for comparison in self.report.comparisons if comparison.constant["task"] == task)


@pytest.fixture(scope="module")
def page(tasks):
    report = attnx.report(STUDY / "results.csv", [DEFAULT_RATE])
    return Page(report, single_changes(report.comparisons, tasks))


def test_the_tables_of_the_page_are_those_of_the_study(page, tasks):
    text = (STUDY.parents[1] / PAGE).read_text(encoding="utf-8")
    planned = list(jobs(tasks, read_design(STUDY / "design.yaml")[1]))
    numbers = len(Results(STUDY / "results.csv", planned).runs), len(planned)
    assert fill_tables(text.replace("| the defaults |", "| dot |"), page.report, tasks, *numbers) == text


PLAIN_SCORERS = "additive,cosine,dot,location,mlp,multiplicative,scaled"
GRID = (
    *("task=g2p", DEFAULT_RATE, "query=current_state", "normalizer=softmax", "model.feed=none", "attention.heads=1"),
    *("attention.hops!=2", "attention.bias=null", "scorer.penalty!=0", f"scorer={PLAIN_SCORERS}", "scope!=history"),
)


def test_the_grid_of_scorers_and_scopes():
    """The effects of scorers come from all runs that vary them."""
    (comparison,) = attnx.report(STUDY / "results.csv", GRID).comparisons
    assert len(comparison.settings) == 42
    assert {len(setting.runs) for setting in comparison.settings} == {3}
    (scorers,) = [effect for effect in comparison.rankings[0].effects if effect.name == "scorer"]
    best, *further = sorted(scorers.levels, key=lambda level: level.mean or 0.0)
    assert best.value == "location"
    worse = {level.value for level in further if level.difference and level.difference.p < SIGNIFICANCE_LEVEL}
    assert worse == {"additive", "dot", "mlp", "multiplicative", "scaled"}


def test_effects_over_all_settings(page):
    """Of each task and choice what is significantly worse than the best value, and by how much."""
    worse = {
        (comparison.constant["task"], effect.name.partition(",")[0], level.value): level.difference
        for comparison in page.report.comparisons
        for effect in comparison.rankings[0].effects
        for level in effect.levels
        if level.difference and level.difference.p < SIGNIFICANCE_LEVEL
    }
    gap = worse["translation", "scope", "global"]
    assert [f"{end:.1f}" for end in gap[:3]] == ["4.9", "0.9", "8.8"]
    assert f"{gap.p:.2f}" == "0.01"
    heads = {name: worse[name, "heads", "4"] for name in ("g2p", "translation")}
    assert {name: (f"{gap.difference:.1f}", f"{gap.p:.2g}") for name, gap in heads.items()} == {
        "g2p": ("0.9", "0.03"),
        "translation": ("1.5", "0.049"),
    }


def test_validation_of_reverse(page):
    """Weights of the first validation without an error are tested: ties are no improvement."""
    curves = [run.curves[run.monitor] for run in page.report.runs if run.choices["task"] == "reverse"]
    earlier = [curve for curve in curves if min(curve, key=curve.__getitem__) < max(curve)]
    assert (len(earlier), len(curves)) == (50, 153)
    assert sum(min(curve.values()) == 0 for curve in earlier) == 48
    location = page.changes["reverse"].by_words["scorer=location"].row
    runs = location.setting.runs
    curves = [run.curves[run.monitor] for run in runs]
    assert [min(curve, key=curve.__getitem__) for curve in curves] == [300, 300, 300]
    assert round(location.mean) == 20


def test_the_page_begins_with_a_screen_and_a_page():
    """The answer has at most 150 words before what was confirmed, and the screening's findings 900."""
    text = (STUDY.parents[1] / PAGE).read_text(encoding="utf-8")
    answer, findings = text.partition("# Which")[2].partition("\n## ")[0], text.partition("## What was found")[2]
    assert len(answer.split()) <= 150
    assert len(findings.partition("## Appendix")[0].split()) <= 900
    sections = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert sections == ["What a confirmation finds", "The screening", "What was found", "Appendix"]


def test_what_wins_one_task_loses_another(page):
    moving = f"{MOVING}2"
    assert page.percent("translation", moving) < -20
    assert not page.is_significant("translation", moving, -1)
    assert page.percent("reverse", moving) > 100
    solves = {"scorer": "location", "scope": "encoder_decoder", "query": "[previous_state,token]"}
    (bleu,) = (
        fmean(run.results["test_bleu"] for run in setting.runs)
        for setting in page.comparison("translation").settings
        if solves.items() <= setting.runs[0].choices.items()
    )
    changes = page.changes["translation"]
    means = (bleu, changes.default.mean, changes.by_words[moving].row.mean)
    assert [f"{mean:.1f}" for mean in means] == ["6.8", "15.6", "19.3"]


def test_changes_are_worse_or_alike(page):
    """The sentences below "What was found": each names changes that are worse, or that nothing is known against."""
    changes, is_significant, report = page.changes, page.is_significant, page.report
    pronunciation = ("g2p", "g2p_multilingual")
    worse = {
        **dict.fromkeys(["attention=none", "scope=history"], TESTED),
        "scorer=multiplicative": ("g2p_multilingual", "translation", "reverse"),
        "scorer=scaled": ("g2p_multilingual",),
        "scorer=coverage scorer.penalty=1": (*pronunciation, FORECASTS),
        "scorer=dot": ("reverse",),
        "scorer=cosine": (FORECASTS,),
        "normalizer=hard": ("g2p_multilingual", FORECASTS),
        **dict.fromkeys([f"{MOVING_OVER_STATES}5", f"{MOVING_OVER_STATES}12"], (FORECASTS,)),
        **dict.fromkeys(["scorer=gmm normalizer=exponential", "scorer=activated_general"], ("g2p",)),
        "scorer=concat": (*pronunciation, "reverse"),
        "query=[token]": pronunciation,
        "query=[last_context]": ("g2p_multilingual",),
        "scorer=tanh_dot query=[self_attentive]": ("g2p",),
        **dict.fromkeys([f"normalizer={name}" for name in ("monotonic", "mocha", "stepwise_monotonic")], ("g2p",)),
        "normalizer=sigmoid": (*pronunciation, "reverse", FORECASTS),
        **dict.fromkeys([f"{MOVING}2", f"{MOVING}5"], ("reverse",)),
    }
    for words, names in worse.items():
        assert all(is_significant(name, words, 1) for name in names), words
    everywhere = (*TESTED, FORECASTS)
    better = [(name, words) for name in everywhere for words in changes[name].by_words]
    better = [(name, words) for name, words in better if is_significant(name, words, -1)]
    assert not better
    alike = dict.fromkeys(
        ["normalizer=sparsemax", "normalizer=entmax", "attention.heads=4", "model.feed=next"], everywhere
    )
    alike |= dict.fromkeys([f"{PREDICTED}2", f"{PREDICTED}5"], TESTED)
    alike |= dict.fromkeys(["query=[token,last_context]", "scorer=location"], everywhere)
    alike["normalizer=hard"] = ("g2p", "reverse")
    alike |= dict.fromkeys(["query=[token]", "query=[last_context]", "scorer=concat"], (FORECASTS,))
    biases = [f"attention.bias={name}" for name in ("alibi", "distance", "relative")]
    alike |= dict.fromkeys(["normalizer=forward", "attention.hops=2", *biases], ("g2p",))
    for words, names in alike.items():
        assert not any(is_significant(name, words, sign) for name in names for sign in (1, -1)), words
    for name in everywhere:
        scorers = [words for words in changes[name].by_words if words.startswith("scorer=")]
        assert not any(is_significant(name, words, -1) for words in scorers), name
    none, concat = (changes["g2p"].by_words[words].row.mean for words in ("attention=none", "scorer=concat"))
    assert 0.9 < concat / none < 1.1
    default = changes["g2p"].default
    grid = scorer_by_scope(page.comparison("g2p"), default.setting_index)
    by_scope = dict(zip(grid.scopes, grid.means[:, grid.scorers.index("concat")], strict=True))
    windows = [
        f"local, center={text}" for text in ("predictive, window=2", "predictive, window=5", "monotonic, window=2")
    ]
    assert all(by_scope[window] - default.mean < (concat - default.mean) / 2 for window in windows)
    ratios = {
        changes["g2p"].by_words[f"normalizer={name}"].row.mean / changes["g2p"].default.mean
        for name in ("monotonic", "mocha", "stepwise_monotonic")
    }
    assert 1.05 < min(ratios) < max(ratios) < 1.15
    forecasts = [run.results for run in report.runs if run.choices["task"] == FORECASTS]
    assert max(run["test_linear_mse"] for run in forecasts) < min(run["test_mse"] for run in forecasts)
    for comparison in report.comparisons:
        name, rates = comparison.constant["task"], comparison.length_rates
        if name in TESTED:
            settings = changes[name].by_words["attention=none"].row.setting_index, changes[name].default.setting_index
            gaps = [
                none - default for none, default in zip(*(rates.rates[setting] for setting in settings), strict=True)
            ]
            assert (gaps[-1] > 2 * gaps[0]) is (name != "translation")
            assert gaps[-1] > 0


def test_means(page):
    for name in TESTED:
        assert page.percent(name, "scope=history") > page.percent(name, "attention=none") > 0
    assert [page.percent(name, "scorer=location") < 0 for name in TESTED].count(True) == 3
    narrow = page.percent("translation", f"{MOVING}2")
    assert narrow == min(page.percent("translation", words) for words in page.changes["translation"].by_words)


def test_long_words(page):
    """Of words as long as those trained on the errors are few; scorers are told apart by longer ones."""
    comparison, trained = page.comparison("reverse"), range(2, 11)

    def error_rate(words: str) -> float:
        runs = comparison.settings[page.changes["reverse"].by_words[words].row.setting_index].runs
        errors = [counts for run in runs for n, counts in run.examples.length_errors.items() if n in trained]
        return 100 * sum(counts.edits for counts in errors) / sum(counts.symbols for counts in errors)

    rates = {words: error_rate(words) for words in page.changes["reverse"].by_words if words.startswith("scorer=")}
    assert rates.pop("scorer=concat") > 1
    assert max(rates.values()) < 0.1
    for scorer in ("dot", "multiplicative"):
        assert page.is_significant("reverse", f"scorer={scorer}", 1)
    assert min(page.percent("reverse", f"scorer={scorer}") for scorer in ("dot", "cosine", "scaled")) > 50


def test_what_solves_long_words_pronounces(page):
    solving = "feed=now, heads=4, location, encoder_decoder, query=[previous_state,token], softmax"
    best = {
        task: [row.setting.name for row in page.comparison(task).rankings[0].rows[:3]] for task in ("reverse", "g2p")
    }
    assert best["reverse"][0] == solving
    assert solving in best["g2p"]


def test_learning_rates(page, tasks):
    (complete,) = attnx.report(STUDY / "results.csv", ["task=g2p"]).comparisons
    head, rows = rate_table(tasks["g2p"], complete)
    assert head[2:] == ["rate 0.004", "rate 0.012"]
    table = {row[0]: [float(cell.strip("*")) if cell else None for cell in row[1:]] for row in rows}
    names = ("additive", "dot", "cosine", "location")
    low, default, high = zip(*(table[f"`scorer={name}`"] for name in names), strict=True)
    for additive, *products in (low, default, high):
        assert max(products) < additive
    gains = {name: 100 * (1 - high / default) for name, (_, default, high) in table.items()}
    assert max(gains.pop(f"`scorer={name}`") for name in ("concat", "multiplicative")) < 0
    assert len(gains) == 7
    assert min(gains.values()) > max(-page.percent("g2p", words) for words in page.changes["g2p"].by_words)


def test_seeds_of_translation(page):
    """Of translation the second seed is better in two thirds of the settings."""
    pairs = [row.values for row in page.comparison("translation").rankings[0].rows if {1, 2} <= row.values.keys()]
    gains = [values[2] - values[1] for values in pairs]
    assert sum(gain > 0 for gain in gains) > 2 / 3 * len(gains)
    assert fmean(gains) > 0
    assert stats.ttest_1samp(gains, 0).pvalue < SIGNIFICANCE_LEVEL
