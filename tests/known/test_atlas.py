"""The study of attentions: its design is balanced, its settings compose, and its table refuses what is wrong."""

import hashlib
import subprocess
from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
import yaml

import attnx
from attnx import registry
from attnx.errors import UserError
from attnx.reports.run.evaluated_examples import EvaluatedExamples, LengthErrors
from attnx.reports.sweep.comparison import comparisons
from attnx.reports.sweep.run_record import RunRecord
from attnx.reports.sweep.run_table import read_run_table
from attnx.runs.info import RunStatus
from studies.atlas.advice import advise
from studies.atlas.changes import changes_of, single_changes
from studies.atlas.design import balanced_fraction, jobs, read_design
from studies.atlas.figures import BLUE, ORANGE, CostPoint, draw_grid, draw_lengths, pareto_front, scorer_by_scope
from studies.atlas.findings import finding_rows, read_findings
from studies.atlas.overview import overview
from studies.atlas.rates import rate_table
from studies.atlas.reverse import write_reverse
from studies.job import Job, write_experiments
from studies.results import Results, setting_choices

STUDY = Path(__file__).parents[2] / "studies" / "atlas"


@pytest.fixture(scope="module")
def tasks():
    return read_design(STUDY / "design.yaml")[0]


def test_values_meet_evenly():
    """Three factors of 2, 3 and 4 levels: each of the 26 pairs meets twice or more, in at most the 24 combinations."""
    factors = {"a": "xy", "b": "xyz", "c": "wxyz"}
    rows = balanced_fraction(factors, [(0, 0, 0)], 5, 2)
    assert rows[0] == (0, 0, 0)
    assert len(rows) == len(set(rows)) <= 24
    pairs = Counter((i, j, row[i], row[j]) for row in rows for i, j in combinations(range(3), 2))
    assert len(pairs) == 2 * 3 + 2 * 4 + 3 * 4
    assert min(pairs.values()) == 2
    assert len(balanced_fraction(factors, [], 7, 0)) == 7


def test_the_design_has_what_its_file_promises(tasks):
    """Of g2p the grid of scorers and scopes, and each pair of values three times; all parts; 51 shared settings."""
    factors = yaml.safe_load((STUDY / "design.yaml").read_text(encoding="utf-8"))["factors"]
    words = {word for setting in tasks["g2p"].settings for word in setting}
    texts = [f" {' '.join(setting)} ".replace("previous_state", "current_state") for setting in tasks["g2p"].settings]
    for first, second in combinations(factors, 2):
        for a, b in ((a, b) for a in factors[first] for b in factors[second]):
            assert sum(f" {a} " in text and f" {b} " in text for text in texts) >= 3, (a, b)
    assert {f"scorer={name}" for name in registry.names("scorer")} - {"scorer=gaussian"} <= words
    later = {"normalizer=softmax_with_sink"}  # registered after the screening
    assert {f"normalizer={name}" for name in registry.names("normalizer")} - later <= words
    assert len(texts) - len(factors["scorer"]) * len(factors["scope"]) >= 120
    assert all(len(task.settings) >= 48 for task in tasks.values())
    alike = [set(tasks[name].settings) for name in ("g2p", "g2p_multilingual", "translation", "reverse")]
    assert len(set.intersection(*alike)) >= 51
    assert all(len(set(task.settings)) == len(task.settings) for task in tasks.values())


def test_single_changes_come_first(tasks):
    """Of all tasks and seeds; each changes one factor of the defaults. Rates are of the first seed only."""
    planned = list(jobs(tasks, [1, 2]))
    assert len(planned) == len(set(planned))
    changes = {task.name: len(task.changes) for task in tasks.values()}
    first = planned[: 2 * sum(changes.values())]
    assert Counter((job.task, job.seed) for job in first) == {
        (name, seed): count for name, count in changes.items() for seed in (1, 2)
    }
    factors = yaml.safe_load((STUDY / "design.yaml").read_text(encoding="utf-8"))["factors"]
    levels = sum(len(values) for values in factors.values())
    assert changes["translation"] == levels - len(factors) + 2  # the default, and no attention
    assert sum(any("optimizer.lr" in word for word in job.setting) for job in planned) == 2 * len(factors["scorer"])


def test_settings_compose(tasks, tmp_path):
    """The default and the last setting of each task; a context that enters its own step is read by the state before."""
    planned = [Job(task.name, setting, 1) for task in tasks.values() for setting in task.settings[1::50]]
    write_experiments(tmp_path, planned, {name: task.config for name, task in tasks.items()})
    for job in planned:
        config = attnx.compose([f"experiment={job.experiment}"], str(tmp_path))
        words = dict(word.split("=", 1) for word in job.setting)
        assert config["scorer"]["name"] == words["scorer"]
        assert f"[{','.join(config['query'])}]" == words["query"]
        assert (config["model"]["feed"], "current_state" in config["query"]) != ("now", True)
        assert config["trainer"]["max_steps"] == tasks[job.task].config["trainer"]["max_steps"]


@pytest.fixture
def table(tasks, tmp_path):
    """A table of two runs, one of which has failed, and one that adds a run."""
    planned = [tasks["g2p"].job(tasks["g2p"].settings[row], seed) for row in (0, 1) for seed in (1, 2)]

    def write(file: str, *rows: int) -> Path:
        results = Results(tmp_path / "none.csv", planned)
        for row in rows:
            choices = {"task": "g2p", **setting_choices(planned[row].setting), "optimizer.lr": 0.004}
            status = RunStatus.FAILED if row == 1 else RunStatus.FINISHED
            run = RunRecord(Path(str(row)), "", status, planned[row].seed, choices, {"test_per": 7.5, "steps": 800.0},
                            examples=EvaluatedExamples(digest="ab" if row < 3 else "cd"))  # fmt: skip
            results.runs[planned[row]] = run
        results.path = tmp_path / file
        results.write()
        return tmp_path / file

    return write, lambda path: Results(path, planned)


def test_tables_of_two_machines_merge(table):
    write, read = table
    results = read(write("a.csv", 0, 1))
    assert [(job.seed, run.status) for job, run in results.runs.items()] == [(1, "finished"), (2, "failed")]
    assert results.merge(write("b.csv", 1, 2)) == 1
    results.write()
    assert [job.seed for job in read(results.path).runs] == [1, 2, 1]
    with pytest.raises(UserError, match=r"nowhere\.csv: no such file"):
        results.merge(results.path.with_name("nowhere.csv"))


def test_what_another_process_adds_is_kept(table):
    write, read = table
    results, path = read(write("a.csv", 0)), write("a.csv", 0, 2)
    results.write()
    assert [job.seed for job in read(path).runs] == [1, 1]


def test_another_recipe_is_another_experiment(tasks):
    """So the folders of an earlier recipe are not taken for runs of this one."""
    task = tasks["g2p"]
    longer = task._replace(config={**task.config, "trainer": {"max_steps": 900}})
    jobs = [some.job(task.default, 1) for some in (task, longer)]
    assert jobs[0].experiment != jobs[1].experiment
    assert [job.steps for job in jobs] == [800, 900]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("additive", "sharp", r"t\.csv:3: no run of the design: .*scorer=sharp"),
        (",800", ",20", r"t\.csv:3: trained for 20 steps, and the design says 800; delete it"),
        (",ab,", ",cd,", r"t\.csv:3: trained or tested on other data than .*t\.csv:2; delete one"),
        ("none,", "none,,", r"t\.csv:3: \d+ cells where \d+ were expected"),
    ],
)
def test_a_foreign_row_is_refused_by_its_line(table, old, new, message):
    write, read = table
    path = write("t.csv", 0, 2)
    head, first, second = path.read_text(encoding="utf-8").splitlines()
    assert old in second
    path.write_text("\n".join([head, first, second.replace(old, new, 1)]) + "\n", encoding="utf-8")
    wrong = path.read_text(encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read(path)
    assert path.read_text(encoding="utf-8") == wrong


def test_a_doubled_row_is_refused(table):
    write, read = table
    path = write("t.csv", 0, 2)
    first = path.read_text(encoding="utf-8").splitlines()[1]
    with path.open("a", encoding="utf-8") as file:
        file.write(first.replace("7.5", "8.5") + "\n")
    with pytest.raises(UserError, match=r"t\.csv:4: the same run as in line 2; delete one of them"):
        read(path)


def test_an_unknown_commit_is_refused(table):
    is_shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=STUDY, capture_output=True).stdout
    if is_shallow.strip() != b"false":
        pytest.skip("needs the whole history of the repository")
    write, read = table
    path = write("t.csv", 0, 2)
    head, first, second = path.read_text(encoding="utf-8").splitlines()
    names = head.split(",")
    cells = second.split(",")
    cells[names.index("commit")] = "f" * 12
    path.write_text("\n".join([head, first, ",".join(cells)]) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"t\.csv:3: of commit f{12}, which is not in the history"):
        read(path)


def test_validation_of_reverse_has_words_as_long_as_the_test(tmp_path):
    """All words of two letters are in the others. No word is in two; the test is that of the rows in the repository."""
    write_reverse(tmp_path)
    parts = {
        part: [line.split("\t") for line in (tmp_path / f"{part}.tsv").read_text(encoding="utf-8").splitlines()]
        for part in ("train", "valid", "test")
    }
    lengths = {part: {len(word) for word, _ in rows} for part, rows in parts.items()}
    assert lengths == {"train": {*range(2, 11)}, "valid": {*range(3, 21)}, "test": {*range(2, 21)}}
    words = [word for rows in parts.values() for word, _ in rows]
    assert len(set(words)) == len(words)
    identities = sorted(f"{' '.join(word)}\t{' '.join(output)}" for word, output in parts["test"])
    digest = hashlib.sha256("\n".join(identities).encode()).hexdigest()[:12]
    (recorded,) = {run.test for run in read_run_table(STUDY / "results.csv") if run.choices["task"] == "reverse"}
    assert digest == recorded


def test_the_front_has_what_nothing_cheaper_is_better_than():
    points = [
        CostPoint(3, 8.0, 1, "c"),
        CostPoint(1, 9.0, 1, "a"),
        CostPoint(2, 7.0, 1, "b"),
        CostPoint(2, 7.5, 1, "d"),
    ]
    assert [point.name for point in pareto_front(points, is_higher_better=False)] == ["a", "b"]
    assert [point.name for point in pareto_front(points, is_higher_better=True)] == ["a"]


def record(attention: str, seed: int, error: float, cpu_seconds: float) -> RunRecord:
    results = {"test_per": error, "train_cpu_seconds": cpu_seconds, "peak_memory_mb": 1.0}
    parts = {"attention": "none"} if attention == "none" else {"scorer": attention}
    return RunRecord(
        Path(attention, str(seed)), "", RunStatus.FINISHED, seed, {"task": "g2p", **parts}, results, {},
        {"valid_per": {5: error}}, "valid_per", maximize=False)  # fmt: skip


@pytest.mark.parametrize(("seconds_of_dot", "words"), [(12.0, "`scorer=dot`"), (20.0, "the defaults")])
def test_advice_is_the_defaults_or_what_is_clearly_cheaper(tasks, seconds_of_dot, words):
    """Errors of 10 and 10.1 differ by chance; 30 without attention does not."""
    errors = {"additive": (10.0, 30.0), "dot": (10.1, seconds_of_dot), "none": (30.0, 10.0)}
    runs = [
        record(name, seed, error + 0.2 * seed, seconds)
        for name, (error, seconds) in errors.items()
        for seed in (1, 2, 3)
    ]
    assert advise(comparisons(runs)[0], tasks) is None  # the confirmation advises
    tasks = {"g2p": tasks["g2p"]._replace(is_confirmed=False)}
    advice = advise(comparisons(runs)[0], tasks)
    assert (advice.data, advice.baseline) == (f"{tasks['g2p'].data}: `g2p`", "30.40")
    assert advice.words == words
    assert (advice.cost, advice.quality) in (
        ("12 s, 1.2 times that without", "PER 10.50"), ("30 s, 3.0 times that without", "PER 10.40"))  # fmt: skip
    certainty = "2 of 3 settings cannot be told from the best; no attention against the defaults: p < 0.001"
    assert advice.certainty == certainty
    alone = advise(comparisons([run for run in runs if run.seed == 1])[0], tasks)
    assert (alone.words, alone.certainty) == ("the defaults", "one seed each: not tested")


def test_findings_are_read_from_single_changes(tasks):
    """Without attention the error is 30 instead of 10; a finding about another choice has no row."""
    runs = [record("additive", seed, 10 + 0.2 * seed, 1.0) for seed in (1, 2, 3)]
    runs += [record("none", seed, 30 + 0.2 * seed, 1.0) for seed in (1, 2, 3)]
    runs += [record("mlp", seed, 10.1 + 0.2 * seed, 1.0) for seed in (1, 2, 3)]
    findings = read_findings(STUDY / "findings.yaml")
    assert {finding.expected for finding in findings} == {"better", "worse", "equal", "not better", "not worse"}
    (row,) = finding_rows(findings, single_changes(comparisons(runs), tasks))
    assert row[0].startswith("A decoder without attention is far behind. 9.98 to 11.57")
    assert row[1:] == ["g2p", "PER 30.40 against 10.40", "yes, p < 0.001"]


def test_the_overview_is_in_percent_of_the_default(tasks):
    """Means of 10.4, 30.4 and 10.5; the last does not differ significantly."""
    errors = {"additive": 10.0, "none": 30.0, "dot": 10.1}
    runs = [record(name, seed, error + 0.2 * seed, 1.0) for name, error in errors.items() for seed in (1, 2, 3)]
    changes = single_changes(comparisons(runs), tasks)
    assert overview(changes) == [
        ["`attention=none`", "**+192\N{NO-BREAK SPACE}%**"],
        ["`scorer=dot`", "+1\N{NO-BREAK SPACE}%"],
    ]


def test_errors_by_length_are_drawn_of_the_default_and_of_no_attention(tasks):
    """Of ten symbols each: 1 and 2 wrong with ``additive``, 1 and 5 without attention, 2 and 2 with ``dot``."""
    wrong = {"additive": (1, 2), "none": (1, 5), "dot": (2, 2)}
    runs = [
        replace(
            record(name, 1, float(sum(errors)), 1.0), examples=EvaluatedExamples(digest="t", length_errors=by_length)
        )
        for name, errors in wrong.items()
        for by_length in [{3 + 5 * i: LengthErrors(5, 1, count, 10) for i, count in enumerate(errors)}]
    ]
    (comparison,) = comparisons(runs)
    default = changes_of(tasks["g2p"], comparison).default.setting_index
    (axes,) = draw_lengths(comparison, comparison.length_rates, default).axes
    lines = {line.get_color(): list(line.get_ydata()) for line in axes.lines}
    assert (lines[BLUE], lines[ORANGE]) == ([10, 20], [10, 50])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["3", "8"]
    assert sum(list(line.get_ydata()) == [20, 20] for line in axes.lines) == 1


def test_scorers_by_scope_are_drawn_once_all_are_trained(tasks):
    """The best first: ``dot`` and a window. A value alone, and another normalizer, are not in the map."""
    values = {("additive", "global", "softmax"): 11.0, ("dot", "global", "softmax"): 10.0}
    values |= {("additive", "local", "softmax"): 9.0, ("low_rank", "global", "softmax"): 3.0}
    values |= {("additive", "global", "sigmoid"): 5.0, ("dot", "local", "softmax"): 8.0}
    runs = [
        replace(run, path=run.path / scope / kind, choices={**run.choices, "scope": scope, "normalizer": kind})
        for (scorer, scope, kind), value in values.items()
        for run in [record(scorer, 1, value, 1.0)]
    ]
    (partial,) = comparisons(runs[:5])
    assert scorer_by_scope(partial, partial.rankings[0].rows[-1].setting_index) is None
    (comparison,) = comparisons(runs)
    default = next(row.setting_index for row in comparison.rankings[0].rows if row.mean == 11)
    grid = scorer_by_scope(comparison, default)
    assert (grid.scorers, grid.scopes, grid.means.tolist()) == (
        ["dot", "additive"],
        ["local", "global"],
        [[8, 9], [10, 11]],
    )
    (axes,) = draw_grid(grid, comparison.rankings[0].metric).axes
    assert {text.get_text(): text.get_color() for text in axes.texts} == {
        "8.00": "white", "9.00": "white", "10.00": "black", "11.00": "black"}  # fmt: skip


def test_scorers_by_learning_rate_are_of_one_seed(tasks):
    """``dot`` is best with the lowest rate, ``additive`` with its own; the highest has one scorer, and another seed."""
    values = {("additive", "0.004", 1): 10.0, ("additive", "0.004", 2): 10.1, ("dot", "0.004", 1): 11.0}
    values |= {("additive", "0.0013", 1): 13.0, ("dot", "0.0013", 1): 12.0, ("dot", "0.012", 1): 14.0}
    runs = [record(scorer, seed, value, 1.0) for (scorer, _, seed), value in values.items()]
    rates = [float(rate) for _, rate, _ in values]
    runs = [
        replace(run, path=run.path / str(rate), choices={**run.choices, "optimizer.lr": rate})
        for run, rate in zip(runs, rates, strict=True)
    ]
    head, rows = rate_table(tasks["g2p"], comparisons(runs)[0])
    assert head == ["scorer", "rate 0.0013", "rate 0.004", "rate 0.012"]
    assert rows[0] == ["`scorer=additive`", "13.00", "**10.00**", ""]
    assert ["`scorer=dot`", "**12.00**", "11.00", "**14.00**"] in rows
    assert rate_table(tasks["reverse"], comparisons(runs)[0]) == ([], [])
