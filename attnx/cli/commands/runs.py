"""The command ``attnx runs``: lists, filters, compares and prunes run folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from attnx.cli.commands.run_filters import (
    WORD,
    Filter,
    check_keys,
    keys_of,
    parse_filter,
    settings_of,
    sort_key,
    value_of,
)
from attnx.cli.commands.run_pruning import (
    KEEP,
    WHAT,
    delete,
    find_cut_off,
    plan_deletions,
    refuse_running,
    show_plan,
)
from attnx.cli.commands.run_table import (
    Column,
    as_json,
    columns_of,
    differing_keys,
    setting_cells,
    show,
    size_text,
    write_csv,
)
from attnx.config.view import value_text
from attnx.errors import UserError, suggest
from attnx.files.printable import printable, text_for
from attnx.runs.find import find_runs
from attnx.runs.run import Run, read_run
from attnx.runs.status import LISTED_STATUSES

DESCRIPTION = """\
All run folders below FOLDER (multirun), single runs and jobs of sweeps:
status, result, the settings in which they differ, creation, duration, size.

  attnx runs              list runs, the newest first
  attnx runs compare      compare the selected runs, as attnx compare does
  attnx runs diff         what differs in the configurations of the RUNs
  attnx runs prune        show what would be deleted; with --yes delete it. Runs
                          that are running are left alone.

filters and options:
  KEY=VALUE,VALUE         any key of config.yaml (scorer, scope.window, seed) or
                          results.json, name, path, status; * and ? match
                          anything; KEY!=VALUE excludes
  KEY<NUMBER              also <= > >=; results, duration (2h), size (20MB),
                          numbers of the configuration
  since=2d until=DATE     created within two days; before a date
  sort=KEY sort=-KEY      ascending, descending
  limit=N                 the first N
  what=checkpoints        prune weights; results and pictures stay (the default)
  what=folders            prune whole run folders
  keep=best|last|none     which weights of a run stay (best); of folders, which
                          run of each sweep (none)"""
EPILOG = """\
examples:
  attnx runs scorer=additive status=failed seed=1,2
  attnx runs multirun/scorers 'test_per<10' sort=test_per limit=5
  attnx runs prune until=30d what=checkpoints --yes"""

ROOT = Path("multirun")
FORMS: dict[str, Callable[[Sequence[Run]], None]] = {
    "--json": lambda runs: print(as_json(runs)),
    "--csv": write_csv,
    "--paths": lambda runs: print(text_for(sys.stdout, "\n".join(str(run.path) for run in runs))) if runs else None,
}
OPTIONS = {"list": ("sort", "limit"), "compare": ("sort", "limit"), "prune": ("sort", "limit", "what", "keep")}


class RunsQuery(NamedTuple):
    """A selection of runs: folders, filters and options."""

    roots: list[Path]
    filters: list[Filter]
    options: dict[str, str]

    @property
    def folders(self) -> list[Path]:
        """The folders to search, by default multirun."""
        return self.roots or [ROOT]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and its help page."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.usage = """attnx runs [compare] [FOLDER ...] [FILTER ...] [FLAGS]
       attnx runs diff RUN RUN ...
       attnx runs prune [FOLDER ...] [FILTER ...] [--yes]"""
    parser.add_argument("words", nargs="*", metavar="FOLDER", help="where to look (multirun)")
    forms = parser.add_mutually_exclusive_group()
    for flag, shown in (("--json", "as JSON"), ("--csv", "as CSV"), ("--paths", "the folders alone")):
        forms.add_argument(flag, dest="form", action="store_const", const=flag, help=f"list all that is known {shown}")
    parser.add_argument("--yes", action="store_true", help="prune: delete what is shown")


def run(arguments: argparse.Namespace) -> int:
    """List, compare or prune runs.

    Raises:
        UserError: a mistake in the command; nothing was deleted.
    """
    words = arguments.words
    action = words[0] if words and words[0] in ("compare", "diff", "prune") else "list"
    words = words[action != "list" :]
    for flag, owner in ((arguments.form, "list"), ("--yes" * arguments.yes, "prune")):
        if flag and action != owner:
            raise UserError(f"attnx runs{f' {action}' * (action != 'list')} has no flag {flag}")
    if action == "diff":
        return _diff(words)
    query = parse_query(words, action)
    selected = select_runs(query)
    if action == "compare":
        return _compare(selected)
    if action == "prune":
        return _prune(selected, query, arguments.yes)
    show_form = FORMS[arguments.form] if arguments.form else _show_table
    show_form(selected)
    return 0


def parse_query(words: Sequence[str], action: str) -> RunsQuery:
    """Parse folders, filters and options, in any order.

    Raises:
        UserError: an option set twice, or a word that is none of these.
    """
    query = RunsQuery([], [], {})
    for word in words:
        match = WORD.fullmatch(word)
        if match is None or Path(word).is_dir():
            query.roots.append(_folder(word))
        elif match[1] in OPTIONS["prune"] and match[2] == "=":
            _set_option(query.options, match[1], match[3], action)
        else:
            query.filters.append(parse_filter(word))
    return query


def _set_option(options: dict[str, str], key: str, value: str, action: str) -> None:
    if key not in OPTIONS[action]:
        raise UserError(f"{key}={value} goes with attnx runs prune only")
    if key in options:
        raise UserError(f"{key} is set twice; leave one out")
    choices = {"what": WHAT, "keep": KEEP}.get(key)
    if choices and value not in choices:
        raise UserError(f"{key}={value}: expected one of {', '.join(choices)}")
    if key == "limit" and not (value.isascii() and value.isdecimal() and int(value) > 0):
        raise UserError(f"limit={value}: expected a whole number, 1 or more")
    if not value.removeprefix("-"):
        raise UserError(f"{key}={value}: needs a key")
    options[key] = value


def _folder(word: str) -> Path:
    """A folder, which may be named relative to multirun."""
    for path in (Path(word), ROOT / word):
        if path.is_dir():
            return path
    hint = "; a condition is written key=value" if "/" not in word else ""
    raise UserError(f"{word}: not a folder{hint}")


def select_runs(query: RunsQuery) -> list[Run]:
    """The selected runs, sorted.

    Raises:
        UserError: a folder does not exist, or no run has a key of the query.
    """
    if not query.roots and not ROOT.is_dir():
        raise UserError(f"{ROOT}: not a folder; name the folder to look into, attnx runs FOLDER")
    selected, messages = find_runs(query.folders)
    for message in messages:
        print(f"attnx: left out: {printable(message)}", file=sys.stderr)
    if not selected:
        print(f"attnx: no runs in {' '.join(map(str, query.folders))}", file=sys.stderr)
        return []
    sort = query.options.get("sort", "-created")
    known_keys = dict.fromkeys(key for run in selected for key in keys_of(run))
    check_keys([*(condition.key for condition in query.filters), sort.removeprefix("-")], known_keys)
    _check_statuses(query.filters)
    for condition in query.filters:
        matches = [run for run in selected if condition.admits(value_of(run, condition.key))]
        if selected and not matches:
            print(f"attnx: none left: {printable(_explain_empty(condition, selected))}", file=sys.stderr)
        selected = matches
    return _sort(selected, sort)[: int(query.options.get("limit", len(selected)))]


def _check_statuses(filters: Sequence[Filter]) -> None:
    for condition in filters:
        for value in condition.values if condition.key == "status" else ():
            if value not in LISTED_STATUSES and not set("*?") & set(value):
                raise UserError(f"status={value}: no such status{suggest(value, LISTED_STATUSES)}")


def _explain_empty(condition: Filter, runs: Sequence[Run]) -> str:
    """Why no run passes a filter: the values that there are."""
    values = [value_of(run, condition.key) for run in runs]
    last = (value[-1] if isinstance(value, tuple) else value for value in values if value is not None)
    texts = sorted(set(map(value_text, last)))
    shown = ", ".join(texts[:6]) + (", ..." if len(texts) > 6 else "")
    hint = f"; {condition.key} is {shown}" if texts else f"; none has a {condition.key}"
    return f"{condition} of {len(runs)} run(s){hint}"


def _sort(runs: Sequence[Run], sort: str) -> list[Run]:
    """Sort by a key; runs without a value come last in either direction, and equal ones by their folder."""
    key = sort.removeprefix("-")
    keyed = [(sort_key(key, value_of(run, key)), run) for run in sorted(runs, key=lambda run: str(run.path))]
    missing = [pair for pair in keyed if pair[0][0]]
    present = sorted((pair for pair in keyed if not pair[0][0]), key=lambda pair: pair[0], reverse=sort[0] == "-")
    return [run for _, run in (*present, *missing)]


def _show_table(runs: Sequence[Run]) -> None:
    if runs:
        show(columns_of(runs))


def _compare(runs: Sequence[Run]) -> int:
    if len(runs) < 2:
        raise UserError(f"{len(runs)} run(s) selected; attnx runs compare takes two or more")
    from attnx.reports.comparison.compare import compare

    Console().print(compare([run.path for run in runs]))
    return 0


def _diff(words: Sequence[str]) -> int:
    if len(words) < 2:
        raise UserError("say which runs differ: attnx runs diff RUN RUN")
    compared = [read_run(_folder(word)) for word in words]
    settings = [settings_of(run) for run in compared]
    varied = differing_keys(settings)
    all_keys = dict.fromkeys(key for run_settings in settings for key in run_settings)  # in the order of config.yaml
    keys = [key for key in all_keys if key in varied or any(key not in run_settings for run_settings in settings)]
    if not keys:
        print("no difference: the configurations are the same")
        return 0
    columns = [
        Column(str(run.path), [cell for key in keys for cell in setting_cells([run_settings], key)], 1)
        for run, run_settings in zip(compared, settings, strict=True)
    ]
    show([Column("key", keys, 0), *columns])
    return 0


def _prune(runs: Sequence[Run], query: RunsQuery, is_confirmed: bool) -> int:
    what = query.options.get("what", "checkpoints")
    deletions = plan_deletions(runs, what, query.options.get("keep", "best" if what == "checkpoints" else "none"))
    refuse_running(deletions, query.folders)
    cut_off = list(dict.fromkeys(path.resolve() for root in query.folders for path in find_cut_off(root)))
    show_plan(deletions, runs, what)
    if cut_off:
        print(f"{len(cut_off)} folder(s) whose deletion was cut off")
    if not deletions and not cut_off:
        print("nothing to delete")
        return 0
    if not is_confirmed:
        total = size_text(sum(deletion.size for deletion in deletions))
        print(f"{total} would be freed; nothing was deleted: add --yes to delete")
        return 0
    try:
        freed, messages = delete(deletions, cut_off)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("run the same command again to continue") from None
    print(f"{size_text(freed)} freed")
    for message in messages:
        print(f"attnx: {message}", file=sys.stderr)
    return 1 if messages else 0
