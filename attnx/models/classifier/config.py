"""Resolve and check the configuration of a classifier, without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from attnx import registry
from attnx.errors import UserError, reject_duplicates
from attnx.models.resolve import (
    ResolvedConfig,
    check_hops,
    part_declarations,
    query_needs,
    reject_bias,
    reject_history,
    reject_recurrent,
    reject_recurrent_parts,
    reject_sampled,
    require_attention,
    scope_sources,
)

Config = Mapping[str, Any]

# What a query of a classifier may need: its only state is the encoder's last one.
SUPPORTED_NEEDS = ("state", "tag", "nothing")
READS_ONCE = "a classifier reads once, at no step"


@dataclass(frozen=True)
class ResolvedClassifierConfig(ResolvedConfig):
    """The settings of a classifier that follow from its configuration."""

    query: tuple[str, ...]  # the query inputs
    needs_tags: bool  # whether the query reads the rows' tags
    rows: int  # the number of reads
    heads: int  # of each read

    @property
    def sites(self) -> tuple[str, ...]:
        """The read of each map of weights, all reads of a head together; empty of one read."""
        return tuple(f"row {index}" for index in range(1, self.rows + 1)) * self.heads if self.rows > 1 else ()

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        reads = f"with {self.rows} queries" if self.rows > 1 else "once"
        schedule = f"one pass: the source is encoded, attended to {reads}, and labeled"
        return {"schedule": schedule, "derived": f"query={'+'.join(self.query)}"}


def resolve_classifier(config: Config) -> ResolvedClassifierConfig:
    """Resolve the configuration of a classifier and check that each of its options has an effect.

    Raises:
        UserError: one line with the option that has no effect or contradicts another.
    """
    _check_task(config.get("task"))
    require_attention(config, "classifier")
    _check_encoder(config)
    _check_scope(config["scope"])
    reject_bias(config, READS_ONCE)
    reject_recurrent_parts(config, READS_ONCE)
    reject_history(config["scorer"]["name"], "scorer", READS_ONCE)
    _check_readout(config)
    needs = query_needs(config)
    for name, need in needs.items():
        if need not in SUPPORTED_NEEDS:
            raise UserError(
                f"query={name} needs a decoder, and a classifier has none; use self_attentive, or current_state, the "
                "encoder's last state"
            )
    if not needs:
        raise UserError("the query is empty: choose self_attentive or current_state, as in +query=self_attentive")
    check_hops(config, needs.values(), "current_state")
    rows = max(options.get("rows", 1) for options in config["query"].values())
    return ResolvedClassifierConfig(tuple(needs), "tag" in needs.values(), rows, config["attention"]["heads"])


def _check_task(task: Config | None) -> None:
    if task is None or registry.describe("task", task["name"]).properties.get("has_labels"):
        return
    tasks = [name for name in registry.names("task") if registry.describe("task", name).properties.get("has_labels")]
    raise UserError(
        f"model=classifier outputs one label, but task={task['name']} has longer outputs; use task={' or '.join(tasks)}"
    )


def _check_encoder(config: Config) -> None:
    """Check that an encoder of sentences, or of pairs of texts, has some, and parts that attend to them."""
    encoder, task = config["encoder"], config.get("task")
    declared = part_declarations(config, "encoder")
    if declared.get("needs_sentences"):
        if task is not None and not registry.describe("task", task["name"]).properties.get("has_sentences"):
            raise UserError(
                f"encoder={encoder['name']} reads sentences, and the sources of task={task['name']} have none; use "
                "task=classification, or encoder=recurrent"
            )
        _check_encoder_parts(encoder, "a sentence is read once")
    if declared.get("needs_pairs"):
        if task is not None and task.get("texts") != 2:
            raise UserError(
                f"encoder={encoder['name']} reads pairs of texts, and a source of task={task['name']} is no pair; use "
                "task=classification task.texts=2, or encoder=recurrent"
            )
        _check_encoder_parts(encoder, "each text is read once")


def _check_encoder_parts(encoder: Config, reason: str) -> None:
    """Check the parts of the encoder's own attention, which reads at no step."""
    for kind in (kind for kind in ("scorer", "normalizer") if kind in encoder):
        name, options = registry.parse_spec(kind, encoder[kind])
        registry.check(kind, name, options)
        reject_recurrent(kind, name, f"encoder.{kind}", reason)
        if kind == "normalizer":
            reject_sampled(name, "encoder.normalizer", "an encoder passes none on")
        else:
            reject_history(name, "encoder.scorer", reason)


def _check_scope(scope: Config) -> None:
    if scope_sources(scope) != ["encoder"] or scope.get("include_self"):
        raise UserError(f"scope={scope['name']} is over decoder states, and a classifier has none; use scope=global")
    if scope.get("center") == "monotonic":
        raise UserError(
            "scope.center=monotonic moves with the decoder's steps, and a classifier has none; use "
            "scope.center=predictive, or scope=global"
        )


def _check_readout(config: Config) -> None:
    inputs = config["readout"].get("inputs", ["state", "context"])
    reject_duplicates("readout.inputs", inputs, "input")
    if "context" not in inputs or "token" in inputs:
        raise UserError(
            f"readout.inputs=[{','.join(inputs)}]: a classifier reads the context, and no token; use [context] or "
            "[state,context]"
        )
