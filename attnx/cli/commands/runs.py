"""The command ``attnx runs``: lists, filters, compares and prunes run folders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from attnx.cli.commands.run_filters import WORD, Filter, check_keys, order, read_filter, written
from attnx.cli.commands.run_pruning import KEEP, WHAT, carry_out, left_over, plan, refuse_running, tell
from attnx.cli.commands.run_table import ABSENT, Column, as_json, columns_of, differing, show, weighed, write_csv
from attnx.errors import UserError, near_misses
from attnx.files.printable import printable, text_for
from attnx.runs.find import Found, find, read
from attnx.runs.status import STATUSES

USAGE = """\
attnx runs [FOLDER ...] [FILTER ...] [sort=KEY] [limit=N]     list runs, the newest first
attnx runs compare [FOLDER ...] [FILTER ...]                  lay the chosen ones side by side, as attnx compare does
attnx runs diff RUN RUN ...                                   what differs in their configurations
attnx runs prune [FOLDER ...] [FILTER ...] [what=WHAT] [keep=WHICH] [--yes]

All run folders below FOLDER (multirun), single ones and jobs of sweeps: how each stands, its result, the choices by
which they differ, when it was begun, how long it trained, its size.

  KEY=VALUE,VALUE       any key of config.yaml (scorer, scope.window, seed) or results.json, name, path, status;
                        * and ? stand for anything; KEY!=VALUE for all others
  KEY<NUMBER            also <= > >=; results, took (2h), size (20MB), numbers of the configuration
  since=2d until=DATE   begun within two days; before a date
  sort=KEY sort=-KEY    from the least, from the greatest
  --json --csv --paths  all that is known of each, for scripts; or its folder alone

prune shows what it would delete; with --yes it deletes. Running runs are left alone.

  what=checkpoints      weights; results and pictures stay (the default)
  what=folders          whole run folders
  keep=best|last|none   which weights of a run stay (best); of folders, which run of each sweep (none)

  attnx runs scorer=additive status=failed seed=1,2
  attnx runs multirun/scorers 'test_per<10' sort=test_per limit=5
  attnx runs prune until=30d what=checkpoints --yes"""

HOME = Path("multirun")
FORMS: dict[str, Callable[[Sequence[Found]], None]] = {
    "--json": lambda found: print(as_json(found)),
    "--csv": write_csv,
    "--paths": lambda found: print(text_for(sys.stdout, "\n".join(str(run.path) for run in found))) if found else None,
}
OPTIONS = {"list": ("sort", "limit"), "compare": ("sort", "limit"), "prune": ("sort", "limit", "what", "keep")}
FLAGS = {"list": tuple(FORMS), "compare": (), "prune": ("--yes",)}


class RunsQuery(NamedTuple):
    """What is asked: of which folders, under which conditions, how, and in what form."""

    roots: list[Path]
    filters: list[Filter]
    options: dict[str, str]
    flags: list[str]


def runs(words: Sequence[str]) -> int:
    """Carry out ``attnx runs WORDS``.

    Raises:
        UserError: a mistake in what is asked; nothing was deleted.
    """
    action = words[0] if words and words[0] in ("compare", "diff", "prune") else "list"
    rest = words[action != "list" :]
    if action == "diff":
        return _diff(rest)
    asked = split(rest, action)
    found = chosen(asked)
    if action == "compare":
        return _compare(found)
    if action == "prune":
        return _prune(found, asked)
    form = FORMS[asked.flags[0]] if asked.flags else _table
    form(found)
    return 0


def split(words: Sequence[str], action: str) -> RunsQuery:
    """Part words: folders, filters, options and flags, in any order.

    Raises:
        UserError: an unknown flag, an option set twice, or a word that is none of these.
    """
    asked = RunsQuery([], [], {}, [])
    for word in words:
        found = WORD.fullmatch(word)
        if word.startswith("-"):
            if word not in FLAGS[action]:
                raise UserError(f"unknown flag {word}{near_misses(word, [*FLAGS[action], '--help'])}")
            asked.flags.append(word)
        elif found is None or Path(word).is_dir():
            asked.roots.append(_folder(word))
        elif found[1] in OPTIONS["prune"] and found[2] == "=":
            _take(asked.options, found[1], found[3], action)
        else:
            asked.filters.append(read_filter(word))
    if len(set(asked.flags)) > 1:
        raise UserError(f"{' and '.join(dict.fromkeys(asked.flags))} cannot go together; leave one out")
    return asked


def _take(options: dict[str, str], key: str, value: str, action: str) -> None:
    if key not in OPTIONS[action]:
        raise UserError(f"{key}={value} goes with attnx runs prune only")
    if key in options:
        raise UserError(f"{key} is set twice; leave one out")
    known = {"what": WHAT, "keep": KEEP}.get(key)
    if known and value not in known:
        raise UserError(f"{key}={value}: expected one of {', '.join(known)}")
    if key == "limit" and not (value.isascii() and value.isdecimal() and int(value) > 0):
        raise UserError(f"limit={value}: expected a whole number, 1 or more")
    if not value.removeprefix("-"):
        raise UserError(f"{key}={value}: needs a key")
    options[key] = value


def _folder(word: str) -> Path:
    """A folder, also one that is named as seen from multirun."""
    path = Path(word)
    if path.is_dir() or not (HOME / path).is_dir():
        if not path.is_dir():
            hint = "; a condition is written key=value" if "/" not in word else ""
            raise UserError(f"{word}: not a folder{hint}")
        return path
    return HOME / path


def chosen(asked: RunsQuery) -> list[Found]:
    """The runs that are asked for, in their order.

    Raises:
        UserError: a folder is not there, or no run has a key that is asked for.
    """
    if not asked.roots and not HOME.is_dir():
        raise UserError(f"{HOME}: not a folder; name the folder to look into, attnx runs FOLDER")
    found, unread = find(asked.roots or [HOME])
    for line in unread:
        print(f"attnx: left out: {printable(line)}", file=sys.stderr)
    if not found:
        print(f"attnx: no runs in {' '.join(map(str, asked.roots or [HOME]))}", file=sys.stderr)
        return []
    sort = asked.options.get("sort", "-begun")
    known = dict.fromkeys(key for run in found for key in run.known())
    check_keys([*(each.key for each in asked.filters), sort.removeprefix("-")], known)
    _check_statuses(asked.filters)
    for each in asked.filters:
        before, found = found, [run for run in found if each.admits(run.value(each.key))]
        if before and not found:
            print(f"attnx: none left: {printable(_why(each, before))}", file=sys.stderr)
    return _sorted(found, sort)[: int(asked.options.get("limit", len(found)))]


def _check_statuses(filters: Sequence[Filter]) -> None:
    for each in filters:
        for value in each.values if each.key == "status" else ():
            if value not in STATUSES and not set("*?") & set(value):
                raise UserError(f"status={value}: no run stands so{near_misses(value, STATUSES)}")


def _why(each: Filter, before: Sequence[Found]) -> str:
    """What the runs that were there say of a key."""
    asked = f"{each.key}{each.sign}{','.join(each.values)}"
    said = [run.value(each.key) for run in before]
    there = sorted({written(value[-1] if isinstance(value, tuple) else value) for value in said if value is not None})
    shown = ", ".join(there[:6]) + (", ..." if len(there) > 6 else "")
    return f"{asked} of {len(before)} run(s)" + (f"; {each.key} is {shown}" if there else f"; none has a {each.key}")


def _sorted(found: Sequence[Found], sort: str) -> list[Found]:
    """By a key; those that do not have it come last in either direction, and equal ones by their folder."""
    key = sort.removeprefix("-")
    keyed = [(order(key, run.value(key)), run) for run in sorted(found, key=lambda run: str(run.path))]
    there = sorted((pair for pair in keyed if not pair[0][0]), key=lambda pair: pair[0], reverse=sort[0] == "-")
    return [run for _, run in (*there, *(pair for pair in keyed if pair[0][0]))]


def _table(found: Sequence[Found]) -> None:
    if found:
        show(columns_of(found))


def _compare(found: Sequence[Found]) -> int:
    if len(found) < 2:
        raise UserError(f"{len(found)} run(s) chosen; attnx runs compare takes two or more")
    from attnx.reports.comparison.compare import compare

    Console().print(compare([run.path for run in found]))
    return 0


def _diff(words: Sequence[str]) -> int:
    if len(words) < 2:
        raise UserError("say which runs differ: attnx runs diff RUN RUN")
    found = [read(_folder(word)) for word in words]
    keys = _unlike(found)
    if not keys:
        print("no difference: the configurations are the same")
        return 0
    cells = [[written(run.choices[key]) if key in run.choices else ABSENT for key in keys] for run in found]
    heads = [str(run.path) for run in found]
    show([Column("choice", keys, 0), *(Column(head, held, 1) for head, held in zip(heads, cells, strict=True))])
    return 0


def _unlike(found: Sequence[Found]) -> list[str]:
    """The keys in which configurations differ, those included that some do not have; in the order of config.yaml."""
    everything = dict.fromkeys(key for run in found for key in run.choices)
    varied = set(differing([run.choices for run in found]))
    return [key for key in everything if key in varied or any(key not in run.choices for run in found)]


def _prune(found: Sequence[Found], asked: RunsQuery) -> int:
    what = asked.options.get("what", "checkpoints")
    steps = plan(found, what, asked.options.get("keep", "best" if what == "checkpoints" else "none"))
    roots = asked.roots or [HOME]
    refuse_running(steps, roots)
    halves = list(dict.fromkeys(path.resolve() for root in roots for path in left_over(root)))
    tell(steps, found, what)
    if halves:
        print(f"{len(halves)} folder(s) whose deletion was cut off")
    if not steps and not halves:
        print("nothing to delete")
        return 0
    if "--yes" not in asked.flags:
        print(f"{weighed(sum(step.size for step in steps))} would be freed; nothing was deleted: add --yes to delete")
        return 0
    try:
        freed, problems = carry_out(steps, halves)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on with what is left") from None
    print(f"{weighed(freed)} freed")
    for line in problems:
        print(f"attnx: {line}", file=sys.stderr)
    return 1 if problems else 0
