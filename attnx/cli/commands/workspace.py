"""A W&B workspace for runs of attnx, as code: curves by choice, scorer by scope, heat maps, choices to result."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from attnx.registry.optional_deps import need

# The choices that runs are told apart by, and what a row of the table shows beside them and the result.
CHOICES = ("scorer", "scope", "query", "normalizer")
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


def workspace(asked: WorkspaceRequest) -> Any:
    """The workspace; nothing is sent.

    Raises:
        UserError: the package is not installed.
    """
    spaces = _need("workspaces")
    return spaces.Workspace(
        entity=asked.entity,
        project=asked.project,
        name=asked.title,
        sections=[spaces.Section(name=name, panels=held, is_open=True) for name, held in _sections(asked).items()],
        settings=spaces.WorkspaceSettings(x_axis="Step", max_runs=100),
        runset_settings=_table(asked, spaces),
    )


def _need(module: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is written for an older pydantic
        return need(f"wandb_workspaces.{module}", "dashboard", "attnx dashboard")


def dumped(space: Any) -> str:
    """A workspace as JSON, as it would be sent."""
    return str(space._to_model().model_dump_json(by_alias=True, exclude_none=True, indent=1))


def _table(asked: WorkspaceRequest, spaces: Any) -> Any:
    """The runs: grouped by scorer, then scope, the best on top."""
    expr = _need("expr")
    columns = [f"config:choices.value.{kind}" for kind in CHOICES]
    columns += [
        f"summary:{name}" for name in (asked.result, f"best/valid_{asked.measure}", "train/examples_per_second")
    ]
    return spaces.RunsetSettings(
        filters=expr.And(expr.Metric("Group") == asked.group) if asked.group else "",
        groupby=[expr.Config("choices.scorer"), expr.Config("choices.scope")],
        order=[expr.Ordering(expr.Summary(asked.result), ascending=not asked.maximize)],
        pinned_columns=[*columns, "config:run.value.parameters", "config:seed.value"],
    )


def _sections(asked: WorkspaceRequest) -> dict[str, list[Any]]:
    v2 = _need("reports.v2")

    def curve(name: str, kind: str) -> Any:
        by = v2.Config(f"choices.{kind}")
        return v2.LinePlot(
            f"{name} by {kind}", x="Step", y=[name], groupby=by, groupby_aggfunc="mean", groupby_rangefunc="stddev"
        )

    def column(metric: Any, name: str, inverted: bool = False) -> Any:
        return v2.ParallelCoordinatesPlotColumn(metric, display_name=name, inverted=inverted)

    valid = f"valid/{asked.measure}"
    columns = [column(v2.Config(f"choices.{kind}"), kind) for kind in CHOICES]
    columns += [
        column(v2.Config("optimizer.lr"), "learning rate"),
        column(v2.Config("run.parameters"), "parameters"),
        column(v2.SummaryMetric("train/examples_per_second"), "examples/s"),
        column(v2.SummaryMetric(asked.result), asked.result, inverted=not asked.maximize),
    ]
    return {
        "Scorer by scope": [
            # Without a grouping of their own, panels take that of the table: scorer, then scope.
            v2.BarPlot(f"{asked.result} by scorer and scope", metrics=[asked.result], groupby_aggfunc="mean"),
            *(
                v2.BarPlot(f"{asked.result} by {kind}", metrics=[asked.result], groupby=v2.Config(f"choices.{kind}"))
                for kind in CHOICES
            ),
        ],
        "Curves": [
            *(curve(valid, kind) for kind in CHOICES),
            *(curve(loss, "scorer") for loss in ("valid/loss", "train/loss")),
        ],
        "What was read": [
            v2.MediaBrowser("heat maps of the test", media_keys=["test/alignments"], gallery_axis="run"),
            v2.MediaBrowser("heat maps while training", media_keys=["valid/alignments"], gallery_axis="step"),
            v2.MediaBrowser("pages", media_keys=["test/page"], gallery_axis="run"),
            v2.WeavePanelSummaryTable(table_name="test/predictions"),
        ],
        "From choices to the result": [
            v2.ParallelCoordinatesPlot(columns=columns, title="choices, speed, result"),
            v2.ParameterImportancePlot(with_respect_to=asked.result),
            v2.RunComparer(diff_only=True),
        ],
        "Speed and gradients": [
            curve("train/examples_per_second", "scorer"),
            v2.LinePlot("gradient norms", x="Step", y=[f"gradient_norm/{part}" for part in PARTS], log_y=True),
        ],
    }
