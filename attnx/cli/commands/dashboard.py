"""The command ``attnx dashboard``: a W&B workspace of a run, a sweep or a project."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from attnx.cli.args import text
from attnx.cli.commands.workspace import WorkspaceRequest, dumped, workspace
from attnx.errors import UserError
from attnx.runs.layout import RUN
from attnx.runs.run import Run, read_run
from attnx.runs.sweep import sweep_of

DESCRIPTION = """\
Build a W&B workspace of a run, of a sweep, or of all runs of a project:
results by scorer and scope, curves by each choice, heat maps, predictions,
and parallel coordinates from the choices to the result."""
EPILOG = """\
examples:
  attnx dashboard multirun/scorers
  attnx dashboard my-team/attnx --measure wer"""
FILE = "dashboard.json"
PATIENCE = 10.0  # seconds for W&B to answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and its help page."""
    parser.usage = "%(prog)s FOLDER|[ENTITY/]PROJECT [--measure NAME] [--out FILE]"
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("target", metavar="FOLDER|PROJECT", help="a run, a sweep, or a W&B project: [ENTITY/]PROJECT")
    parser.add_argument(
        "--measure",
        metavar="NAME",
        type=text,
        default="per",
        help="the metric that decides, of a project: per (default), wer ...",
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="where to write the workspace if W&B cannot be reached"
    )


def run(arguments: argparse.Namespace) -> int:
    """Save the workspace to W&B, or write it to a file if W&B cannot be reached.

    Raises:
        UserError: runs that were not logged to W&B, or a wrong project or path.
    """
    target = Path(arguments.target)
    if target.is_dir():
        request, out = workspace_request(target), target / FILE
    else:
        request = _project_request(arguments.target)._replace(measure=arguments.measure)
        out = Path(f"{request.project}-{FILE}")
    out = arguments.out or out
    if not out.parent.is_dir():
        raise UserError(f"--out {out}: no such folder")
    saved_workspace = workspace(request)
    problem = _saved(saved_workspace)
    if problem:
        out.write_text(dumped(saved_workspace) + "\n", encoding="utf-8")
        print(f"{problem}: nothing is at W&B yet; run this again when it can be reached")
        print(out)
    else:
        print(saved_workspace.url)
    return 0


def workspace_request(folder: Path) -> WorkspaceRequest:
    """What a workspace of a run folder or a sweep's folder is of.

    Raises:
        UserError: no run in it was logged to W&B.
    """
    is_run = (folder / RUN).is_file()
    folders = [folder] if is_run else sorted(path.parent for path in folder.glob(f"*/{RUN}"))
    logged = [run for run in map(read_run, folders) if "wandb" in (run.config.get("logger") or {})]
    if not logged:
        what = "this run was not" if is_run else "no run in it was"
        raise UserError(f"{folder}: {what} logged to W&B; train with +logger=wandb")
    run = logged[0]
    knobs: dict[str, Any] = run.config["logger"]["wandb"]
    return WorkspaceRequest(
        project=knobs["project"],
        entity=knobs["entity"] or "",
        group=knobs["group"] or _group(run, folder, is_run),
        measure=str(run.info["monitor"]).removeprefix("valid_"),
        maximize=bool(run.info.get("maximize", False)),
    )


def _group(run: Run, folder: Path, is_run: bool) -> str | None:
    """As :mod:`attnx.training.logger_session` names it."""
    if not is_run:
        return folder.resolve().name
    sweep = sweep_of(folder)
    return sweep.name if sweep else run.info.get("name")


def _project_request(name: str) -> WorkspaceRequest:
    entity, _, project = name.rpartition("/")
    if not re.fullmatch(r"[\w.-]+", project) or not re.fullmatch(r"[\w.-]*", entity):
        raise UserError(f"{name}: neither a folder that is there nor a project of W&B, [ENTITY/]PROJECT")
    return WorkspaceRequest(project, entity)


def _saved(saved_workspace: Any) -> str:
    """Save a workspace; why that could not be done."""
    import wandb

    from attnx.loggers.wandb_server import offline_reason

    if problem := offline_reason(wandb.setup().settings, PATIENCE):
        return f"wandb: {problem}"
    try:
        saved_workspace.entity = saved_workspace.entity or str(wandb.Api().default_entity)
        saved_workspace.save()
    except Exception as error:
        return f"wandb: {' '.join(str(error).split()) or type(error).__name__}"
    return ""
