"""All run folders below FOLDER (multirun), single runs and jobs of sweeps:
status, result, the options in which they differ, creation, duration, size.

  attnx runs              list runs, the newest first
  attnx runs prune        show which weights would be deleted; with --yes delete
                          them. Runs that are running are left alone.

filters and options:
  KEY=VALUE,VALUE         any key of config.yaml (scorer, scope.window, seed) or
                          results.json, name, path, status; * and ? match
                          anything; KEY!=VALUE excludes
  KEY<NUMBER              also <= > >=; results, duration (2h), size (20MB),
                          numbers of the configuration
  since=2d until=DATE     created within two days; before a date
  sort=KEY sort=-KEY      ascending, descending
  limit=N                 the first N
  keep=best|last|none     prune: which weights of a run stay (best)

Examples:
  attnx runs scorer=additive status=failed seed=1,2
  attnx runs multirun/scorers 'test_per<10' sort=test_per limit=5
  attnx compare $(attnx runs scorer=additive limit=3 --paths)
  attnx runs prune until=30d --yes
  rm -r $(attnx runs status=failed --paths)
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.filesize import decimal

from attnx.cli.commands.runs.table import Column, columns_of, print_columns, print_csv, print_json
from attnx.errors import UserError, suggest
from attnx.files.parse_number import is_count
from attnx.files.printable import print_line, printable, text_for
from attnx.reports.run.readme import write_run_readme
from attnx.reports.run_filters import WORD, Filter, apply_filters, check_keys, keys_of, parse_filter, sort_key, value_of
from attnx.runs.info import LISTED_STATUSES, RunStatus, update_info
from attnx.runs.layout import BEST, CHECKPOINTS, LAST, README, refuse_links
from attnx.runs.run import Run, find_runs, lock_run
from attnx.runs.sweep import is_locked

ROOT = Path("multirun")
FORMS: dict[str | None, Callable[[Sequence[Run]], None]] = {
    None: lambda runs: print_columns(columns_of(runs)) if runs else None,
    "--json": print_json,
    "--csv": print_csv,
    "--paths": lambda runs: print(text_for(sys.stdout, "\n".join(str(run.path) for run in runs))) if runs else None,
}
KEEP = ("best", "last", "none")
OPTIONS = {"list": ("sort", "limit"), "prune": ("sort", "limit", "keep")}


class RunsQuery(NamedTuple):
    """A selection of runs: folders, filters and options."""

    folders: list[Path]
    filters: list[Filter]
    options: dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = """attnx runs [FOLDER ...] [FILTER ...] [FLAGS]
       attnx runs prune [FOLDER ...] [FILTER ...] [--yes]"""
    parser.add_argument("words", nargs="*", metavar="FOLDER", help="where to look (multirun)")
    forms = parser.add_mutually_exclusive_group()
    for flag, shown in (("--json", "all that is known as JSON"), ("--csv", "the same as CSV"), ("--paths", "folders")):
        forms.add_argument(flag, dest="form", action="store_const", const=flag, help=f"list {shown}")
    parser.add_argument("--yes", action="store_true", help="prune: delete what is shown")


def run(arguments: argparse.Namespace) -> int:
    """List or prune runs."""
    words = arguments.words
    action = "prune" if words[:1] == ["prune"] else "list"
    for flag, owner in ((arguments.form, "list"), ("--yes" * arguments.yes, "prune")):
        if flag and action != owner:
            raise UserError(f"attnx runs{f' {action}' * (action != 'list')} has no flag {flag}")
    query = parse_query(words[action != "list" :], action)
    selected = select_runs(query)
    if action == "list":
        FORMS[arguments.form](selected)
        return 0
    deletions = plan_deletions(selected, query.options.get("keep", "best"))
    show_plan(deletions, selected)
    if not deletions:
        print("nothing to delete")
    elif not arguments.yes:
        total = decimal(sum(deletion.size for deletion in deletions))
        print_line(f"{total} would be freed; nothing was deleted: add --yes to delete")
    else:
        freed, messages = delete(deletions)
        print_line(f"{decimal(freed)} freed")
        for message in messages:
            print_line(f"attnx: {message}", file=sys.stderr)
        return 1 if messages else 0
    return 0


def parse_query(words: Sequence[str], action: str) -> RunsQuery:
    """Parse folders, which may be named relative to multirun, filters and options, in any order.

    Raises:
        UserError: an option set twice, or a word that is none of these.
    """
    query = RunsQuery([], [], {})
    for word in words:
        match = WORD.fullmatch(word)
        if match is None or os.path.isdir(word):  # False for a name that is too long
            folder = next((path for path in (Path(word), ROOT / word) if path.is_dir()), None)
            if folder is None:
                hint = "; a condition is written key=value" if "/" not in word else ""
                raise UserError(f"{word}: not a folder{hint}")
            query.folders.append(folder)
        elif match[1] in OPTIONS["prune"] and match[2] == "=":
            _set_option(query.options, match[1], match[3], action)
        else:
            query.filters.append(parse_filter(word))
    if not query.folders and not ROOT.is_dir():
        raise UserError(f"{ROOT}: not a folder; name the folder to look into, attnx runs FOLDER")
    return query if query.folders else query._replace(folders=[ROOT])


def _set_option(options: dict[str, str], key: str, value: str, action: str) -> None:
    if key not in OPTIONS[action]:
        raise UserError(f"{key}={value} goes with attnx runs prune only")
    if key in options:
        raise UserError(f"{key} is set twice; leave one out")
    if key == "keep" and value not in KEEP:
        raise UserError(f"keep={value}: expected one of {', '.join(KEEP)}")
    if key == "limit" and not is_count(value):
        raise UserError(f"limit={value}: expected a whole number, 1 or more")
    if not value.removeprefix("-"):
        raise UserError(f"{key}={value}: needs a key")
    options[key] = value


def select_runs(query: RunsQuery) -> list[Run]:
    """The selected runs, sorted.

    Raises:
        UserError: no run has a key of the query.
    """
    selected, messages = find_runs(query.folders)
    for message in messages:
        print(f"attnx: left out: {printable(message)}", file=sys.stderr)
    if not selected:
        print_line(f"attnx: no runs in {' '.join(map(str, query.folders))}", file=sys.stderr)
        return []
    sort = query.options.get("sort", "-created")
    known_keys = dict.fromkeys(key for run in selected for key in keys_of(run))
    check_keys([*(condition.key for condition in query.filters), sort.removeprefix("-")], known_keys)
    statuses = [value for condition in query.filters if condition.key == "status" for value in condition.values]
    if unknown := [value for value in statuses if value not in LISTED_STATUSES and not set("*?") & set(value)]:
        raise UserError(f"status={unknown[0]}: no such status{suggest(unknown[0], LISTED_STATUSES)}")
    selected, reason = apply_filters(selected, query.filters, value_of)
    if reason:
        print(f"attnx: none left: {printable(reason)}", file=sys.stderr)
    # Runs without a value come last in either direction, and equal ones by their folder.
    key = sort.removeprefix("-")
    keys = {run: sort_key(key, value_of(run, key)) for run in sorted(selected, key=lambda run: str(run.path))}
    ordered = sorted(keys, key=keys.__getitem__, reverse=sort[0] == "-")
    ordered.sort(key=lambda run: keys[run][0])
    return ordered[: int(query.options.get("limit", len(selected)))]


class Deletion(NamedTuple):
    """Checkpoints of a run to delete."""

    run: Run
    checkpoints: list[Path]

    @property
    def names(self) -> list[str]:
        """The names of the checkpoints."""
        return [file.name for file in self.checkpoints]

    @property
    def size(self) -> int:
        """The bytes that are freed; none of a file that keeps a hard link."""
        stats = [path.lstat() for path in self.checkpoints]
        links = Counter((stat.st_dev, stat.st_ino) for stat in stats)
        files = {(stat.st_dev, stat.st_ino): stat for stat in stats}
        return sum(stat.st_size for file, stat in files.items() if links[file] == stat.st_nlink)


def plan_deletions(runs: Sequence[Run], keep: str) -> list[Deletion]:
    """The checkpoints to delete of each run: all but the ``best``, or but the ``last``, or all (``none``).

    A run that has not finished keeps its best checkpoint and the one it resumes from, unless all are deleted. Runs that
    are running are left alone.

    Raises:
        UserError: the sweep of a run is running.
    """
    deletions = []
    for run in runs:
        folder = run.path / CHECKPOINTS
        if run.status == RunStatus.RUNNING or folder.is_symlink() or not folder.is_dir():
            continue
        files = {file.name: file for file in sorted(folder.glob("*.ckpt")) if file.is_symlink() or file.is_file()}
        kept = {f"{keep}.ckpt"}
        if run.status != RunStatus.FINISHED or not kept & files.keys():
            kept = {BEST, LAST}
        if checkpoints := [file for name, file in files.items() if keep == "none" or name not in kept]:
            deletions.append(Deletion(run, checkpoints))
    for sweep in filter(None, dict.fromkeys(deletion.run.sweep for deletion in deletions)):
        if is_locked(sweep):
            raise UserError(f"{sweep}: this sweep is running; end it, or leave it out with 'name!={sweep.name}/*'")
    return deletions


def show_plan(deletions: Sequence[Deletion], runs: Sequence[Run]) -> None:
    """Print what would be deleted, and what follows from it."""
    if deletions:
        paths = [str(deletion.run.path) for deletion in deletions]
        files = [" ".join(deletion.names) for deletion in deletions]
        sizes = [decimal(deletion.size) for deletion in deletions]
        print_columns([Column("run", paths, 0), Column("deletes", files, 1), Column("size", sizes, 1, right=True)])
    if running := sum(run.status == RunStatus.RUNNING for run in runs):
        print_line(f"left alone: {running} running")
    if count := sum(LAST in item.names and item.run.status != RunStatus.FINISHED for item in deletions):
        print_line(f"{count} unfinished run(s) will restart from the beginning when resumed")
    if count := sum(BEST in deletion.names for deletion in deletions):
        print_line(f"{count} run(s) have no best weights after this, to predict, evaluate or export with")


def delete(deletions: Sequence[Deletion]) -> tuple[int, list[str]]:
    """Delete, never through a link; return the bytes freed, and a message for each run that kept some checkpoint."""
    freed, messages = 0, []
    for deletion in deletions:
        path, size = deletion.run.path, deletion.size
        try:
            with lock_run(path):  # nobody resumes it meanwhile
                refuse_links(path)
                # First run.json records them. A killed run is interrupted: writing run.json would make it look running.
                info = deletion.run.info
                deleted = [*(info.get("deleted") or []), *(f"{CHECKPOINTS}/{name}" for name in deletion.names)]
                killed = {"status": RunStatus.INTERRUPTED} if deletion.run.status == RunStatus.STOPPED else {}
                update_info(path, deleted=list(dict.fromkeys(deleted)), **killed)
                for file in deletion.checkpoints:
                    file.unlink(missing_ok=True)
                if (path / README).is_file():
                    write_run_readme(path)
            freed += size
        except (OSError, UserError) as error:
            messages.append(f"{path}: not deleted, or only in part: {getattr(error, 'strerror', None) or error}")
    return freed, messages
