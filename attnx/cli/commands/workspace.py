"""A W&B workspace for runs of attnx, as code: curves by choice, scorer by scope, heat maps, choices to result."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from attnx.registry.optional_deps import require_package

# The choices that runs are told apart by, and what a row of the table shows beside them and the result.
CHOICES = ("scorer", "scope", "query", "normalizer")
MEDIA = (
    ("heat maps of the test", "test/alignments", "run"),
    ("heat maps while training", "valid/alignments", "step"),
    ("pages", "test/page", "run"),
)
PARTS = ("encoder", "attention", "decoder", "output", "embedding", "all")


class WorkspaceRequest(NamedTuple):
    """What a workspace is of.

    Attributes:
        project: of W&B.
        entity: whose, a user or a team; empty for one's own.
        group: the runs to show; None for all.
        measure: what decides, without its stage: ``per``.
        maximize: whether it is to be high.
    """

    project: str
    entity: str = ""
    group: str | None = None
    measure: str = "per"
    maximize: bool = False

    @property
    def result(self) -> str:
        """The test's measure."""
        return f"test/{self.measure}"

    @property
    def title(self) -> str:
        """What the workspace is called."""
        return f"attnx: {self.group or self.project}"


def workspace(request: WorkspaceRequest) -> Any:
    """The workspace; nothing is sent.

    Raises:
        UserError: the package is not installed.
    """
    spaces = _need("workspaces")
    return spaces.Workspace(
        entity=request.entity,
        project=request.project,
        name=request.title,
        sections=[
            spaces.Section(name=name, panels=panels, is_open=True) for name, panels in _sections(request).items()
        ],
        settings=spaces.WorkspaceSettings(x_axis="Step", max_runs=100),
        runset_settings=_table(request, spaces),
    )


def _need(module: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is written for an older pydantic
        return require_package(f"wandb_workspaces.{module}", "dashboard", "attnx dashboard")


def dumped(space: Any) -> str:
    """A workspace as JSON, as it would be sent."""
    return str(space._to_model().model_dump_json(by_alias=True, exclude_none=True, indent=1))


def _table(request: WorkspaceRequest, spaces: Any) -> Any:
    """The runs: grouped by scorer, then scope, the best on top."""
    expr = _need("expr")
    columns = [f"config:choices.value.{kind}" for kind in CHOICES]
    columns += [
        f"summary:{name}" for name in (request.result, f"best/valid_{request.measure}", "train/examples_per_second")
    ]
    return spaces.RunsetSettings(
        filters=expr.And(expr.Metric("Group") == request.group) if request.group else "",
        groupby=[expr.Config("choices.scorer"), expr.Config("choices.scope")],
        order=[expr.Ordering(expr.Summary(request.result), ascending=not request.maximize)],
        pinned_columns=[*columns, "config:run.value.parameters", "config:seed.value"],
    )


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

    # A panel without groupby takes that of the table: scorer, then scope.
    pairs = v2.BarPlot(f"{result} by scorer and scope", metrics=[result], groupby_aggfunc="mean")
    curves = [curve(f"valid/{request.measure}", kind) for kind in CHOICES]
    media = [v2.MediaBrowser(title, media_keys=[key], gallery_axis=axis) for title, key, axis in MEDIA]
    return {
        "Scorer by scope": [pairs, *map(bars, CHOICES)],
        "Curves": [*curves, *(curve(loss, "scorer") for loss in ("valid/loss", "train/loss"))],
        "What was read": [*media, v2.WeavePanelSummaryTable(table_name="test/predictions")],
        "From choices to the result": [
            v2.ParallelCoordinatesPlot(columns=_coordinates(request, v2), title="choices, speed, result"),
            v2.ParameterImportancePlot(with_respect_to=result),
            v2.RunComparer(diff_only=True),
        ],
        "Speed and gradients": [
            curve("train/examples_per_second", "scorer"),
            v2.LinePlot("gradient norms", x="Step", y=[f"gradient_norm/{part}" for part in PARTS], log_y=True),
        ],
    }


def _coordinates(request: WorkspaceRequest, v2: Any) -> list[Any]:
    """The axes of the parallel coordinates: choices, speed, result."""
    axes = [(v2.Config(f"choices.{kind}"), kind, False) for kind in CHOICES]
    axes += [
        (v2.Config("optimizer.lr"), "learning rate", False),
        (v2.Config("run.parameters"), "parameters", False),
        (v2.SummaryMetric("train/examples_per_second"), "examples/s", False),
        (v2.SummaryMetric(request.result), request.result, not request.maximize),
    ]
    return [
        v2.ParallelCoordinatesPlotColumn(metric, display_name=name, inverted=is_inverted)
        for metric, name, is_inverted in axes
    ]
