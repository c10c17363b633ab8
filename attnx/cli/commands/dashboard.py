"""Build a W&B workspace of a run, of a sweep, or of all runs of a project:
results by scorer and scope, curves by each choice, heat maps, predictions,
and parallel coordinates from the choices to the result.

Examples:
  attnx dashboard multirun/scorers
  attnx dashboard my-team/attnx --metric wer
"""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from attnx import registry
from attnx.errors import UserError, one_line, suggest
from attnx.files.printable import print_line
from attnx.registry.dependencies import require_package
from attnx.reports.metric_names import HIGHER_IS_BETTER, LOWER_IS_BETTER, declared_facts, is_higher_better
from attnx.runs.layout import RUN_JSON
from attnx.runs.run import read_run
from attnx.runs.sweep import sweep_of

PATIENCE = 10.0  # seconds for W&B to answer
# The choices that runs are told apart by, and what a row of the table shows beside them and the result.
CHOICES = ("scorer", "scope", "query", "normalizer")
MEDIA = (
    ("heat maps of the test", "test/alignments", "run"),
    ("heat maps while training", "valid/alignments", "step"),
    ("pages", "test/page", "run"),
)
PARTS = ("encoder", "attention", "decoder", "output", "embedding", "all")


class WorkspaceRequest(NamedTuple):
    """What a workspace is of: runs of a group (None for all) in a project of W&B, ranked by a metric.

    ``entity`` is a user or a team, empty for one's own; ``metric`` lacks its stage: ``per``.
    """

    project: str
    entity: str = ""
    group: str | None = None
    metric: str = "per"
    maximize: bool = False

    @property
    def result(self) -> str:
        """The test's metric."""
        return f"test/{self.metric}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.usage = "%(prog)s FOLDER|[ENTITY/]PROJECT [--metric NAME]"
    parser.add_argument("target", metavar="FOLDER|PROJECT", help="a run, a sweep, or a W&B project: [ENTITY/]PROJECT")
    metric = "the metric that decides: wer, bleu ... (default: the monitored one; per for a project)"
    parser.add_argument("--metric", metavar="NAME", help=metric)


def run(arguments: argparse.Namespace) -> int:
    """Save the workspace to W&B."""
    target = Path(arguments.target)
    if target.is_dir():
        request = workspace_request(target)
    else:
        entity, _, project = arguments.target.rpartition("/")
        if not re.fullmatch(r"[\w.-]+", project) or not re.fullmatch(r"[\w.-]*", entity):
            raise UserError(f"{target}: neither a folder that is there nor a project of W&B, [ENTITY/]PROJECT")
        if entity and Path(entity).is_dir():
            raise UserError(f"{target}: no such folder in {entity}")
        request = WorkspaceRequest(project, entity)
    if arguments.metric is not None:
        is_higher = is_higher_better(arguments.metric)
        if is_higher is None:
            known = (*LOWER_IS_BETTER, *HIGHER_IS_BETTER, *declared_facts())
            raise UserError(f"--metric {arguments.metric}: no such metric{suggest(arguments.metric, known)}")
        request = request._replace(metric=arguments.metric, maximize=is_higher)
    space = workspace(request)
    import wandb

    from attnx.loggers.wandb_server import offline_reason

    problem = offline_reason(wandb.setup().settings, PATIENCE)
    try:
        if not problem:
            space.entity = space.entity or str(wandb.Api().default_entity)
            space.save()
    except Exception as error:
        problem = one_line(error)
    if problem:
        raise UserError(f"wandb: {problem}: nothing is at W&B yet; run this again when it can be reached")
    print_line(space.url)
    return 0


def workspace_request(folder: Path) -> WorkspaceRequest:
    """What a workspace of a run folder or a sweep's folder is of.

    Raises:
        UserError: no run in it was logged to W&B, or the options of its logger are malformed.
    """
    is_run = (folder / RUN_JSON).is_file()
    folders = [folder] if is_run else sorted(path.parent for path in folder.glob(f"*/{RUN_JSON}"))
    logged = [run for run in map(read_run, folders) if "wandb" in (run.config.get("logger") or {})]
    if not logged:
        what = "this run was not" if is_run else "no run in it was"
        raise UserError(f"{folder}: {what} logged to W&B; train with +logger=wandb")
    run = logged[0]
    options = registry.check_members("logger", run.config["logger"])["wandb"]
    sweep = sweep_of(folder) if is_run else folder.resolve()
    return WorkspaceRequest(
        project=options["project"],
        entity=options["entity"] or "",
        # As attnx.training.logger_session names it.
        group=options["group"] or (sweep.name if sweep else run.info.get("name")),
        metric=str(run.info["monitor"]).removeprefix("valid_"),
        maximize=bool(run.info.get("maximize", False)),
    )


def workspace(request: WorkspaceRequest) -> Any:
    """The workspace; nothing is sent.

    Raises:
        UserError: the package is not installed.
    """
    spaces, expr = _need("workspaces"), _need("expr")
    columns = [f"config:choices.value.{kind}" for kind in CHOICES]
    columns += [
        f"summary:{name}" for name in (request.result, f"best/valid_{request.metric}", "train/examples_per_second")
    ]
    runs = spaces.RunsetSettings(  # grouped by scorer, then scope, the best on top
        filters=expr.And(expr.Metric("Group") == request.group) if request.group else "",
        groupby=[expr.Config("choices.scorer"), expr.Config("choices.scope")],
        order=[expr.Ordering(expr.Summary(request.result), ascending=not request.maximize)],
        pinned_columns=[*columns, "config:run.value.parameters", "config:seed.value"],
    )
    sections = [spaces.Section(name=name, panels=panels, is_open=True) for name, panels in _sections(request).items()]
    return spaces.Workspace(
        entity=request.entity,
        project=request.project,
        name=f"attnx: {request.group or request.project}",
        sections=sections,
        settings=spaces.WorkspaceSettings(x_axis="Step", max_runs=100),
        runset_settings=runs,
    )


def _need(module: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is written for an older pydantic
        return require_package(f"wandb_workspaces.{module}", "dashboard", "attnx dashboard")


def _sections(request: WorkspaceRequest) -> dict[str, list[Any]]:
    """The panels of each section, by the section's name."""
    v2, result = _need("reports.v2"), request.result

    def curve(name: str, kind: str) -> Any:
        group = v2.Config(f"choices.{kind}")
        return v2.LinePlot(
            f"{name} by {kind}", x="Step", y=[name], groupby=group, groupby_aggfunc="mean", groupby_rangefunc="stddev"
        )

    def bars(kind: str) -> Any:
        return v2.BarPlot(f"{result} by {kind}", metrics=[result], groupby=v2.Config(f"choices.{kind}"))

    # A panel without groupby takes the table's: scorer, then scope.
    pairs = v2.BarPlot(f"{result} by scorer and scope", metrics=[result], groupby_aggfunc="mean")
    coordinates = [
        *((v2.Config(f"choices.{kind}"), kind, False) for kind in CHOICES),
        (v2.Config("optimizer.lr"), "learning rate", False),
        (v2.Config("run.parameters"), "parameters", False),
        (v2.SummaryMetric("train/examples_per_second"), "examples/s", False),
        (v2.SummaryMetric(result), result, not request.maximize),
    ]
    axes = [
        v2.ParallelCoordinatesPlotColumn(metric, display_name=name, inverted=is_inverted)
        for metric, name, is_inverted in coordinates
    ]
    curves = [curve(f"valid/{request.metric}", kind) for kind in CHOICES]
    media = [v2.MediaBrowser(title, media_keys=[key], gallery_axis=axis) for title, key, axis in MEDIA]
    return {
        "Scorer by scope": [pairs, *map(bars, CHOICES)],
        "Curves": [*curves, *(curve(loss, "scorer") for loss in ("valid/loss", "train/loss"))],
        "What was read": [*media, v2.WeavePanelSummaryTable(table_name="test/predictions")],
        "From choices to the result": [
            v2.ParallelCoordinatesPlot(columns=axes, title="choices, speed, result"),
            v2.ParameterImportancePlot(with_respect_to=result),
            v2.RunComparer(diff_only=True),
        ],
        "Speed and gradients": [
            curve("train/examples_per_second", "scorer"),
            v2.LinePlot("gradient norms", x="Step", y=[f"gradient_norm/{part}" for part in PARTS], log_y=True),
        ],
    }
