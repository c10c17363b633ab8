"""Filter words of ``attnx runs`` and of a report, by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from attnx.cli.commands.runs.table import Column, fit_columns, print_columns
from attnx.config.view import dotted_keys
from attnx.errors import UserError
from attnx.reports.run_filters import check_keys, matches, parse_filter, sort_key
from attnx.reports.sweep.report import filter_records
from attnx.reports.sweep.run_record import RunRecord
from attnx.runs.info import RunStatus
from tests.refusal import refused

NOON = datetime(2026, 3, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("word", "admitted", "refused"),
    [
        ("scorer=additive", ["additive"], ["dot", "additive2", None]),
        ("scorer=additive,dot", ["additive", "dot"], ["cosine", None]),
        ("scorer!=additive,dot", ["cosine", None], ["additive", "dot"]),
        ("scorer=add*", ["additive", "add"], ["dot"]),
        ("scorer=do?", ["dot"], ["do", "dots"]),
        ("seed=1,2", [1, 2], [3, 12, True]),
        ("optimizer.lr=1e-3", [0.001], [0.01]),
        ("model.tie_embeddings=true", [True], [False, 1, "True "]),
        ("trainer.patience=null", [None], [0, "none"]),
        ("query=[token,last_context]", ["[token,last_context]"], ["token", "last_context"]),
        ("query=token,[token,last_context]", ["token", "[token,last_context]"], ["[last_context,token]"]),
        ("scorer.hidden_sizes=[19,5]", [[19, 5]], [[19], 19]),
        ("test_per<10", [9.99, 9, -1], [10, 11.0, None, "9", True]),
        ("test_per<=10", [10, 9], [10.01]),
        ("test_per>10", [10.01], [10, None]),
        ("test_per>=10", [10], [9.99]),
        ("size>20MB", [20_000_001], [20_000_000]),
        ("size<1.5kB", [1499], [1500]),
        ("size<7", [6], [7]),
        ("duration>90s", [91], [90]),
        ("duration>=2h", [7200], [7199]),
        ("name=mine,*-full", [("mine", "0"), ("x", "g2p-full")], [("other", "0")]),
        ("name!=mine", [("other", "0")], [("mine", "0")]),
    ],
)
def test_a_filter_word_selects_runs(word, admitted, refused):
    result = parse_filter(word)
    assert [result.admits(value) for value in admitted] == [True] * len(admitted)
    assert [result.admits(value) for value in refused] == [False] * len(refused)


@pytest.mark.parametrize(
    ("word", "hours"),
    [
        ("since=2d", 48),
        ("since=36h", 36),
        ("since=30m", 0.5),
        ("since=1w", 168),
        ("since=2026-03-16T12:00:00+00:00", 24),
    ],
)
def test_since_and_until_split_runs_by_start_time(word, hours, monkeypatch):
    monkeypatch.setattr("attnx.reports.run_filters.time.time", NOON.timestamp)
    for condition, later in ((word, True), (word.replace("since", "until"), False)):
        result = parse_filter(condition)
        assert result.key == "created"
        assert result.admits(NOON - timedelta(hours=hours - 0.1)) is later
        assert result.admits(NOON - timedelta(hours=hours + 0.1)) is not later
        assert not result.admits(None)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("scorer", "scorer: expected KEY=VALUE, as in scorer=additive"),
        ("scorer=", "scorer=: needs a value"),
        ("test_per<ten", "test_per<ten: expected a number"),
        ("size>20 apples", "size>20 apples: expected a size such as 20MB"),
        ("duration>2x", "duration>2x: expected a span such as 90s, 5m or 2h"),
        ("since=yesterday", "since=yesterday: expected a span such as 2d or 12h, or a time such as 2026-01-31"),
        ("since<2d", "since<2d: write since=2d, or since=2026-01-31"),
    ],
)
def test_an_invalid_word_is_reported(word, message):
    with refused(message):
        parse_filter(word)


def test_an_unknown_key_suggests_similar_keys():
    check_keys(["seed", "scope.window"], {"seed", "scope.window"})
    with pytest.raises(UserError, match=r"^no run here has a key 'scope.windw'; did you mean scope.window or scope\?$"):
        check_keys(["seed", "scope.windw"], ["seed", "scope", "scope.window"])
    with pytest.raises(UserError, match=r"'zzz'; attnx runs --csv shows all keys$"):
        check_keys(["zzz"], ["seed", "scope"])


def test_a_bracket_is_matched_literally():
    assert not matches("a", "[abc]")
    assert matches("[a,b]", "[a,*")
    assert parse_filter("query=a,[b,c],d").values == ("a", "[b,c]", "d")


def test_numbers_sort_before_words_and_missing_values_last():
    values = [None, "b", 7, float("nan"), "a", 5.0, True]
    assert [str(value) for value in sorted(values, key=lambda value: sort_key("", value))[:5]] == [
        "5.0",
        "7",
        "a",
        "b",
        "True",
    ]
    assert sort_key("", None)[0]
    assert sort_key("", float("nan"))[0]


def test_a_configuration_is_flattened_to_keys():
    nodes = {
        "scorer": {"name": "mlp", "hidden_sizes": [19, 5]},
        "query": {"token": {}, "language_tag": {"embedding_dim": 7}},
        "seed": 3,
    }
    assert dotted_keys(nodes) == {
        "scorer": "mlp",
        "scorer.hidden_sizes": [19, 5],
        "query": "[token,language_tag]",
        "query.language_tag.embedding_dim": 7,
        "seed": 3,
    }
    assert dotted_keys({"query": {"token": None}}) == {"query": "token"}
    assert dotted_keys({"logger": {}}) == {"logger": "[]"}


def columns(*widths: int) -> list[Column]:
    return [Column(str(number), ["x" * width], number) for number, width in enumerate(widths)]


def test_the_least_important_columns_are_dropped_first():
    widths = columns(11, 7, 5, 13, 3)
    # Two columns stand between two.
    assert [column.name for column in fit_columns(widths, 11 + 2 + 7 + 2 + 5 + 2 + 13 + 2 + 3)[0]] == list("01234")
    shown, hidden = fit_columns(widths, 11 + 2 + 7 + 2 + 5 + 2 + 3)
    assert ([column.name for column in shown], [column.name for column in hidden]) == (list("0124"), ["3"])
    assert [column.name for column in fit_columns(widths, 5)[0]] == ["0", "1"]


def test_a_long_path_keeps_its_end():
    shown, _ = fit_columns([Column("run", ["a" * 30 + "/end"], 0), Column("status", ["finished"], 1)], 34)
    assert shown[0].cells == ["…" + "a" * 19 + "/end"]  # 34 less two and the eight of "finished" are 24


def test_plain_lines_have_no_trailing_spaces(capsys):
    columns = [
        Column("run", ["long/one", "b"], 0),
        Column("n", ["3", "117"], 1, right=True),
        Column("c", ["x", "-"], 2),
    ]
    print_columns(columns)
    assert capsys.readouterr().out == "run         n  c\nlong/one    3  x\nb         117  -\n"


def record(name: str, error: float, **choices: Any) -> RunRecord:
    dotted = {key.replace("_", "."): value for key, value in choices.items()}
    results = {"test_per": error, **({"train_seconds": 150.0} if name == "c" else {})}
    created = f"2031-01-0{ord(name) - 96}T00:00:00+00:00"
    return RunRecord(Path(name), name, RunStatus.FINISHED, seed=1, choices=dotted, results=results, created=created)


RUNS = [
    record("a", 9.0, scorer="dot", optimizer_lr=0.001, query="token"),
    record("b", 8.0, scorer="additive", optimizer_lr=0.004, query="[token,last_context]"),
    record("c", 7.0, scorer="mlp", optimizer_lr="0.004", query="token"),  # as a table has it
    record("d", 30.0, attention="none", optimizer_lr=0.004),
    RunRecord(Path("e"), "e", RunStatus.UNREADABLE, error="e: cannot be read"),
]
UNDATED = RunRecord(Path("f"), "f", RunStatus.FINISHED, choices={"scorer": "dot"}, created="yesterday")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "abcde"),
        (["scorer=dot,additive"], "abe"),
        (["scorer!=dot"], "bcde"),
        (["optimizer.lr=4e-3", "test_per<10"], "bce"),
        (["optimizer.lr<0.002"], "ae"),
        (["query=token,[token,last_context]", "since=2031-01-02T00:00:00+00:00"], "bce"),
        (["seed=1", "status=finished"], "abcde"),
        (["name=a,b", "path=?"], "abe"),
        (["duration>2m"], "ce"),
    ],
)
def test_filters_select_the_runs_of_a_report(words, expected):
    """A run that cannot be read stays, since the report names it."""
    assert "".join(run.label for run in filter_records(RUNS, words)) == expected


def test_a_run_without_a_time_is_of_no_time():
    assert filter_records([*RUNS, UNDATED], ["scorer=dot"])[1] is UNDATED
    assert UNDATED not in filter_records([*RUNS, UNDATED], ["since=2031-01-01T00:00:00+00:00"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["scorer"], "scorer: expected KEY=VALUE, as in scorer=additive"),
        (["scorr=dot"], "no run here has a key 'scorr'; did you mean scorer"),
        (["scorer=cosine"], "no run passes scorer=cosine of 4 run(s); scorer is additive, dot, mlp"),
        (["scorer=dot", "test_per<5"], "no run passes test_per<5 of 1 run(s); test_per is 9.0"),
    ],
)
def test_filters_that_no_run_passes_are_refused(words, message):
    with refused(f"{message}..."):
        filter_records(RUNS, words)
