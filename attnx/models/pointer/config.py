"""What a pointer model will be, from its plain configuration: checked before torch is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx import registry
from attnx.attention.planner import Plan, PlannerInputs, plan
from attnx.errors import UserError
from attnx.models.resolve import part_declarations, scope_sources

Config = Mapping[str, Any]

# Which answers of the task `pointing` each rule has room for.
FITTING = {
    "any": ("hull", "delaunay", "tsp", "sorting"),
    "distinct": ("tsp", "sorting"),
    "permutation": ("tsp", "sorting"),
    "ring": ("hull",),
}
NEEDS = ("token", "before", "after", "tag")


@dataclass(frozen=True)
class ResolvedPointerConfig:
    """The choices that follow from other choices.

    Attributes:
        plan: the schedule; no context enters the recurrence.
        tagged: whether the query is told the rows' tags.
    """

    plan: Plan
    tagged: bool

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived settings."""
        return {"schedule": str(self.plan), "follows": "the decoder reads what was pointed to last, and no context"}


def resolve(config: Config) -> ResolvedPointerConfig:
    """Work out what follows from the choices of a model ``pointer``, and check that each of them does something.

    Raises:
        UserError: one line naming the knobs that contradict each other and what to choose.
    """
    _check_task(config)
    if config["attention"]["name"] == "none":
        raise UserError("model=pointer is attention that points; attention=none is for model=seq2seq")
    _check_unused(config)
    _check_window(config)
    if part_declarations(config, "encoder").get("shortens"):
        raise UserError(
            f"encoder={config['encoder']['name']} has fewer states than its source has positions to point to; use "
            "encoder=recurrent"
        )
    needs = {name: str(registry.part("query", name).declares.get("needs")) for name in config["query"]}
    for name, need in needs.items():
        if need not in NEEDS:
            raise UserError(f"query={name} needs a context, and a pointer reads none: its weights are the output")
    if not {"before", "after"} & set(needs.values()):
        raise UserError(
            f"query=[{','.join(needs)}] holds no state, so that nothing pointed to would depend on what was; "
            "add current_state or previous_state"
        )
    past = bool(part_declarations(config, "scorer").get("needs_past", False))
    chosen = plan(PlannerInputs(needs, feed="none", needs_past=past), config["attention"].get("schedule", "auto"))
    return ResolvedPointerConfig(chosen, "tag" in needs.values())


def _check_task(config: Config) -> None:
    """See that the task's answers are positions, and that the model can give them."""
    if "task" not in config:
        return
    task, only = config["task"], config["model"]["constraint"]
    if not registry.part("task", task["name"]).declares.get("positions"):
        pointing = [name for name in registry.names("task") if registry.part("task", name).declares.get("positions")]
        raise UserError(
            f"model=pointer writes positions of its source, and task={task['name']} asks for other symbols; "
            f"use task={' or '.join(pointing)}, or model=seq2seq"
        )
    problem = task.get("problem")
    if problem is not None and problem not in FITTING[only]:
        fitting = ", ".join(rule for rule, problems in FITTING.items() if problem in problems)
        raise UserError(
            f"model.constraint={only} has no room for the answers of task.problem={problem}; choose from {fitting}"
        )


def _check_window(config: Config) -> None:
    """Refuse a window that leaves out positions of points in any order: where it is, the right answer cannot be."""
    window, sizes = config["scope"].get("window"), config.get("task", {}).get("sizes")
    if window is None or sizes is None:
        return
    text = f"{sizes} {config['task'].get('test') or ''}"
    most = max(map(int, re.findall(r"\d+", text)), default=0)
    if window < most - 1:
        raise UserError(
            f"scope.window={window} leaves out positions of {most} points, and the right one may be any; "
            f"use scope=global, or scope.window={most - 1}"
        )


def _check_unused(config: Config) -> None:
    """Refuse choices that would do nothing, or something that is no distribution over the source."""
    attention, scope = config["attention"], config["scope"]
    if config["normalizer"]["name"] != "softmax":
        raise UserError(
            f"normalizer={config['normalizer']['name']}: a pointer's weights are probabilities, whose logarithm is the "
            "loss; use softmax"
        )
    if attention["heads"] > 1:
        raise UserError(f"attention.heads={attention['heads']}: a pointer points with one head; leave it out")
    if attention["dropout"]:
        raise UserError(f"attention.dropout={attention['dropout']:g} would drop what is pointed to; leave it out")
    if scope_sources(scope) != ["encoder"] or scope.get("include_self"):
        raise UserError(f"scope={scope['name']} reads the decoder's states; a pointer points into its source alone")
