"""The configuration of a classifier: its options, and what it derives from them and its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnx import registry
from attnx.attention.options import parts_in_force, resolve_part, scope_sources
from attnx.errors import UserError, reject_duplicates
from attnx.models.resolve import (
    Config,
    DataSizes,
    ModelConfig,
    ResolvedConfig,
    check_hops,
    part_declarations,
    query_needs,
    reject_bias,
    reject_parts,
    require_attention,
    require_tags,
    require_task,
)
from attnx.registry import Probability, Width, register

if TYPE_CHECKING:
    from attnx.models.classifier.model import Classifier

# What a query of a classifier may need: its only state is the encoder's last one.
SUPPORTED_NEEDS = ("state", "tag", "nothing")
READS_ONCE = "a classifier reads once, at no step"


@register(
    "model",
    "classifier",
    uses=("encoder", "readout", "attention", "scorer", "scope", "query", "normalizer"),
    reads=("rows", "penalty"),
    leaves_unread=(
        "decoding.max_length_ratio",
        "decoding.max_length_extra",
        "decoding.min_length",
        "decoding.no_repeat_ngram_size",
        "decoding.length_penalty",
    ),
    can_export=False,
    needs_other_data=True,  # than symbols of any kind, or has other outputs
)
@dataclass(frozen=True)
class ClassifierConfig(ModelConfig):
    """Encode a source, attend to its states once, and label it.

    Formula: ``c = sum_s a_s h_s, a = normalize(score(q, h_s)), p(y | x) = softmax(O r), r = readout(h, c)``
    Source: Yang et al. 2016, section 2.2, https://aclanthology.org/N16-1174

    The query is learned (``query=self_attentive``), the encoder's last state (``current_state``), the embedded tag, or
    a set of them. Each row of a learned query reads by itself, and the contexts of the rows are side by side. There
    is no decoder: the state h of the readout is the encoder's last one, too.
    """

    embedding_dim: Width = 64
    dropout: Probability = 0.0

    def resolve(self, config: Config) -> ResolvedClassifierConfig:
        """Derive options and check that the choices do not contradict each other, as :meth:`ModelConfig.resolve`."""
        require_task(config, "has_labels", "outputs one label", "longer outputs")
        require_attention(config)
        _check_encoder(config)
        reject_bias(config, READS_ONCE)
        reject_parts(config, ("scorer", "normalizer", "query"), READS_ONCE, "needs_history", "is_recurrent")
        _check_reads(config)
        needs = query_needs(config)
        for name, need in needs.items():
            if need not in SUPPORTED_NEEDS:
                raise UserError(
                    f"query={name} needs a decoder, and a classifier has none; use self_attentive, or current_state, "
                    "the encoder's last state"
                )
        if not needs:
            raise UserError("the query is empty: choose self_attentive or current_state, as in +query=self_attentive")
        check_hops(config, needs.values(), "current_state")
        rows = max(options.get("rows", 1) for options in config["query"].values())
        return ResolvedClassifierConfig(
            config, self, tuple(needs), "tag" in needs.values(), rows, config["attention"]["heads"]
        )


@dataclass(frozen=True)
class ResolvedClassifierConfig(ResolvedConfig):
    """The settings of a classifier that follow from its configuration."""

    options: ClassifierConfig
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

    def build(self, sizes: DataSizes) -> Classifier:
        """Build the model; a query input that needs tags, and data without, are a UserError."""
        from attnx.models.classifier.model import Classifier
        from attnx.models.seq2seq.build import build_query_and_attention
        from attnx.nn.source_encoder import SourceEncoder
        from attnx.nn.targets.build import step_spec
        from attnx.nn.targets.single_label import SingleLabelTarget

        config, size, dropout = self.config, self.options.embedding_dim, self.options.dropout
        if self.needs_tags:
            require_tags(sizes.tags, "query=language_tag")
        embedding = step_spec(sizes.source_symbols, sizes.source_features).embedding(size)
        encoder = registry.build("encoder", config["encoder"], input_size=size)
        source = SourceEncoder(embedding, encoder, size, "states", "states", positions=0, dropout=dropout)
        width = encoder.size
        widths = {"state_size": width, "token_size": 0, "context_size": width, "tags": sizes.tags}
        query, attention = build_query_and_attention(config, widths, width)
        readout = registry.build("readout", config["readout"], **{**widths, "context_size": query.rows * width})
        return Classifier(source, query, attention, readout, SingleLabelTarget(sizes.target_symbols), dropout)


def _check_encoder(config: Config) -> None:
    """Check that an encoder of sentences, or of pairs of texts, has some, and parts that attend to them."""
    encoder, task = config["encoder"], config.get("task")
    declared = part_declarations(config, "encoder")
    if declared.get("needs_sentences"):
        if task is not None and not registry.describe("task", task["name"]).declarations.get("has_sentences"):
            raise UserError(
                f"encoder={encoder['name']} reads sentences, and the sources of task={task['name']} have none; use "
                "task=classification, or encoder=recurrent"
            )
        _check_encoder_parts(encoder, "sentence")
    if declared.get("needs_pairs"):
        if task is not None and task.get("texts") != 2:
            raise UserError(
                f"encoder={encoder['name']} reads pairs of texts, and a source of task={task['name']} is no pair; use "
                "task=classification task.texts=2, or encoder=recurrent"
            )
        _check_encoder_parts(encoder, "text")


def _check_encoder_parts(encoder: Config, unit: str) -> None:
    """Check the parts of the encoder's own attention, which reads at no step."""
    reason = f"an encoder reads each {unit} once and adds nothing to the loss"
    for kind in (kind for kind in ("scorer", "normalizer") if kind in encoder):
        resolve_part(f"encoder.{kind}", kind, encoder[kind], reason)


def _check_reads(config: Config) -> None:
    """Check that scope and readout need no decoder, and that the context is read."""
    scope, inputs = config["scope"], config["readout"].get("inputs", ["state", "context"])
    if scope_sources(scope) != ["encoder"] or scope.get("include_self"):
        raise UserError(f"scope={scope['name']} is over decoder states, and a classifier has none; use scope=global")
    in_force = parts_in_force(config, "scope")
    for part in in_force.parts:
        if part.get("center") == "monotonic":
            raise UserError(
                f"{in_force.option}={part['name']} with center=monotonic moves with the decoder's steps, and a "
                "classifier has none; use center=predictive, or global"
            )
    reject_duplicates("readout.inputs", inputs, "input")
    if "context" not in inputs or "token" in inputs:
        raise UserError(
            f"readout.inputs=[{','.join(inputs)}]: a classifier reads the context, and no token; use [context] or "
            "[state,context]"
        )
