"""The configuration of a history model: its options, and the sequence-to-sequence model that it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from attnx import registry
from attnx.attention.options import scope_sources
from attnx.errors import UserError
from attnx.models.resolve import Config, DataSizes, ModelConfig, ResolvedConfig, query_needs, require_attention
from attnx.models.seq2seq.config import ResolvedSeq2seqConfig, Seq2seqConfig
from attnx.registry import Probability, Width, register

if TYPE_CHECKING:
    from .model import History


@register(
    "model",
    "history",
    uses=("decoder", "readout", "attention", "scorer", "scope", "query", "normalizer"),
    can_export=False,
    needs_other_data=True,  # than symbols of any kind, or has other outputs
)
@dataclass(frozen=True)
class HistoryConfig(ModelConfig):
    """A recurrent network that reads a series row by row, attends to its own earlier states, and continues the series.

    Formula: ``c_t = attend(h_{t-1}; h_1 .. h_{t-2}), h_t = cell([e(y_{t-1}, k_t); c_t], h_{t-1}), y_t = O r_t``, with
        ``query=previous_state model.feed=now``, which ``recipe=attention_rnn`` sets
    Source: attention to the own states: Cheng et al. 2016, section 3.1, https://arxiv.org/abs/1601.06733; in a language
        model: Daniluk et al. 2017, https://arxiv.org/abs/1702.04521

    It has no encoder: window and forecast are one series, and every scope is over the model's own past. The input of a
    step has the targets of the previous step, the known features of this one (``task.known_columns``), and whether
    targets are observed: not at the first step, nor in the forecast steps of a direct forecast. The other queries and
    ``feed`` and ``schedule`` are as in ``seq2seq``. Weights are those of the forecast steps over all earlier states.
    """

    embedding_dim: Width = 64
    feed: Literal["now", "next", "none"] | None = None
    bridge: Literal["learned", "zeros"] = "learned"
    schedule: Literal["auto", "run_then_attend", "attend_then_run", "step_by_step"] = "auto"
    dropout: Probability = 0.0

    def resolve(self, config: Config) -> ResolvedHistoryConfig:
        """Derive options and check that the choices do not contradict each other, as :meth:`ModelConfig.resolve`."""
        _check_task(config)
        require_attention(config)
        if "tag" in query_needs(config).values():
            raise UserError("query=language_tag needs data with tags, and a series has none; use another query input")
        network = Seq2seqConfig(**vars(self))  # whose options these are, too
        parts = {"scope": _own_scope(config), "encoder": {"name": "none"}}
        resolved = network.resolve({**config, **parts, "output": {"name": "linear"}})
        return ResolvedHistoryConfig(config, resolved, ineffective=resolved.ineffective)


@dataclass(frozen=True)
class ResolvedHistoryConfig(ResolvedConfig):
    """The network of a history model: a sequence-to-sequence model without an encoder."""

    network: ResolvedSeq2seqConfig

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        return self.network.summary()

    def build(self, sizes: DataSizes) -> History:
        """Build the model."""
        from torch import nn

        from attnx.models.seq2seq.build import build_parts
        from attnx.models.seq2seq.model import Seq2seq
        from attnx.nn.targets.build import build_target

        from .model import History

        network, options = self.network, self.network.options
        target = build_target(self.config["task"], sizes.target_symbols, sizes.target_features)
        embedding = nn.Linear(sizes.source_features + 1, options.embedding_dim)
        parts = build_parts(network, None, target, tags=0, embedding=embedding)
        decoder = Seq2seq(parts, target, network.plan, network.sources, network.visible_state_offset, options.dropout)
        return History(decoder, num_known=sizes.source_features - sizes.target_features)


def _check_task(config: Config) -> None:
    """Check that the task is to continue a series of numbers."""
    task, model = config.get("task"), f"model={config['model']['name']}"
    if task is None or "horizon" in task:
        return
    if registry.describe("task", task["name"]).declarations.get("is_continuation"):
        raise UserError(
            f"{model} continues numbers; for task={task['name']} the same network is model=seq2seq with "
            "recipe=attention_rnn"
        )
    options = {name: registry.describe("task", name).options for name in registry.names("task")}
    tasks = [name for name, known in options.items() if "horizon" in [option.name for option in known]]
    raise UserError(
        f"{model} continues its input, but task={task['name']} outputs something else; use task={' or '.join(tasks)}, "
        "or model=seq2seq"
    )


def _own_scope(config: Config) -> dict[str, Any]:
    """The scope over the model's own past, as every scope is here; a UserError if it names an encoder."""
    scope: dict[str, Any] = config["scope"]
    sources = scope_sources(scope)
    if sources == ["decoder"]:
        return scope
    defaults = {option.name: option.default for option in registry.describe("scope", scope["name"]).options}
    if sources != defaults.get("sources") or len(sources) > 1:
        raise UserError(
            f"scope={scope['name']} with sources=[{','.join(sources)}]: model={config['model']['name']} has no encoder "
            "and attends to its own states; use scope.sources=[decoder], or scope=history"
        )
    return {**scope, "sources": ["decoder"]}
