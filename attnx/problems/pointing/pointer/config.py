"""The configuration of a pointer network: its options, and what it derives from them and its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from attnx import registry
from attnx.attention.options import parts_in_force, scope_sources
from attnx.errors import UserError
from attnx.models.planner import Plan, PlannerInputs, plan
from attnx.models.resolve import (
    Config,
    DataSizes,
    ModelConfig,
    ResolvedConfig,
    part_declarations,
    query_needs,
    reject_bias,
    reject_parts,
    reject_text_encoder,
    require_attention,
    require_tags,
    require_task,
)
from attnx.registry import Width, register

if TYPE_CHECKING:
    from .model import Pointer

# The problems of pointing whose answers each constraint allows.
ALLOWED_PROBLEMS = {
    "any": ("hull", "delaunay", "tsp", "sorting"),
    "distinct": ("tsp", "sorting"),
    "permutation": ("tsp", "sorting"),
    "ring": ("hull",),
}
SUPPORTED_NEEDS = ("token", "prev_state", "state", "tag", "nothing")


@register(
    "model",
    "pointer",
    uses=("encoder", "decoder", "attention", "scorer", "scope", "query", "normalizer"),
    needs_other_data=True,  # than symbols of any kind, or has other outputs
)
@dataclass(frozen=True)
class PointerConfig(ModelConfig):
    """A pointer network, which outputs positions of its source: attention's scores are the output distribution.

    Formula: ``p(C_t | C_<t, P) = softmax(u_t), u_tj = score(d_t, e_j)``, e the encoder's states, d the decoder's
    Source: Vinyals et al. 2015, section 2.3, https://arxiv.org/abs/1506.03134

    Any scorer will do; the paper's is ``v . tanh(W d + U e)``. The decoder reads the encoder's input at the previous
    position, of width ``embedding_dim``. The end of the output is one more position, with a learned key. Ids are those
    of symbols: the end is EOS, position s is 4 + s. ``constraint`` says which outputs have a probability, in training
    and in decoding: ``any``; ``distinct`` positions; each position once, a ``permutation``; or distinct ones and then
    the first again, a ``ring``. Softmax's temperature divides the scores. There is no context, so nothing is fed to
    the recurrence and there is no readout.
    """

    embedding_dim: Width = 64
    constraint: Literal["any", "distinct", "permutation", "ring"] = "any"
    bridge: Literal["last", "zeros", "learned"] = "last"
    schedule: Literal["auto", "run_then_attend", "attend_then_run", "step_by_step"] = "auto"

    def resolve(self, config: Config) -> ResolvedPointerConfig:
        """Derive options and check that the choices do not contradict each other, as :meth:`ModelConfig.resolve`."""
        answers = "answers of other symbols"
        require_task(config, "has_position_targets", "outputs positions of its source", answers, ", or model=seq2seq")
        problem = config.get("task", {}).get("problem")
        if problem is not None and problem not in ALLOWED_PROBLEMS[self.constraint]:
            constraints = ", ".join(name for name, problems in ALLOWED_PROBLEMS.items() if problem in problems)
            raise UserError(
                f"model.constraint={self.constraint} does not allow the answers of task.problem={problem}; "
                f"choose from {constraints}"
            )
        require_attention(config)
        reject_bias(config, "a pointer's source is a set, in any order")
        _check_parts(config)
        needs = query_needs(config)
        for name, need in needs.items():
            if need not in SUPPORTED_NEEDS:
                raise UserError(f"query={name} needs a context, but a pointer has none: its weights are the output")
        if not {"prev_state", "state"} & set(needs.values()):
            raise UserError(
                f"query=[{','.join(needs)}] has no decoder state, so no output would depend on earlier ones; "
                "add current_state or previous_state"
            )
        needs_history = any(parts_in_force(config, "scorer").declared("needs_history"))
        schedule_plan = plan(PlannerInputs(needs, feed="none", needs_history=needs_history), self.schedule)
        return ResolvedPointerConfig(config, self, schedule_plan, "tag" in needs.values())


@dataclass(frozen=True)
class ResolvedPointerConfig(ResolvedConfig):
    """The settings of a pointer network that follow from its configuration."""

    options: PointerConfig
    plan: Plan  # the schedule; no context enters the recurrence
    needs_tags: bool  # whether the query reads the rows' tags

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        return {"schedule": str(self.plan), "derived": "the decoder reads the previous position, and no context"}

    def build(self, sizes: DataSizes) -> Pointer:
        """Build the model; a query input that needs tags, and data without, are a UserError."""
        from attnx.attention import Attention
        from attnx.models.seq2seq.build import build_query_and_attention
        from attnx.nn.bridges import BRIDGES
        from attnx.nn.source_encoder import SourceEncoder
        from attnx.nn.targets.build import step_spec

        from .constraints import PositionTarget
        from .model import Pointer

        options, config, size = self.options, self.config, self.options.embedding_dim
        if self.needs_tags:
            require_tags(sizes.tags, "query=language_tag")
        embedding = step_spec(sizes.source_symbols, sizes.source_features).embedding(size)
        encoder = registry.build("encoder", config["encoder"], input_size=size)
        source = SourceEncoder(embedding, encoder, size, "states", "inputs", positions=0, dropout=0.0)
        decoder = registry.build("decoder", config["decoder"], input_size=size)
        first_state = BRIDGES[options.bridge](decoder, source.final_size)
        widths = {"state_size": decoder.size, "token_size": size, "context_size": size, "tags": sizes.tags}
        query, attention = build_query_and_attention(config, widths, source.keys_size)
        assert isinstance(attention, Attention)
        target = PositionTarget(sizes.target_symbols, options.constraint)
        return Pointer(source, target, first_state, query, attention, decoder, self.plan)


def _check_parts(config: Config) -> None:
    """Check that attention, encoder, normalizer and scope give one distribution over all positions of the source."""
    attention = config["attention"]
    if (hops := attention.get("hops", 1)) > 1:
        reason = "its weights are the output, and no context refines its query"
        beside = f"attention.hops={hops} has no meaning beside model={config['model']['name']}"
        raise UserError(f"{beside}: {reason}; leave attention.hops out")
    if attention["heads"] > 1:
        raise UserError(f"attention.heads={attention['heads']}: a pointer has one head; remove it")
    if attention["dropout"]:
        raise UserError(f"attention.dropout={attention['dropout']:g} would drop output probabilities; remove it")
    reject_text_encoder(config)
    scope, normalizer = config["scope"], config["normalizer"]["name"]
    if normalizer != "softmax":
        raise UserError(
            f"normalizer={normalizer}: a pointer's weights are probabilities, whose logarithm is the loss; use softmax"
        )
    scorer = config["scorer"]["name"]
    reject_parts(config, ("scorer", "query"), "a pointer may output positions in any order", "is_recurrent")
    if part_declarations(config, "scorer").get("needs_keys") is False:
        raise UserError(f"scorer={scorer} does not read what it points to; choose another scorer")
    if scope["name"] != "global":
        raise UserError(f"scope={scope['name']}: a pointer may output any position of its source; use scope=global")
    if scope_sources(scope) != ["encoder"] or scope.get("include_self"):
        raise UserError("a pointer outputs positions of its source; remove scope.sources and scope.include_self")
    if part_declarations(config, "encoder").get("is_downsampling"):
        raise UserError(
            f"encoder={config['encoder']['name']} has fewer states than its source has positions; use encoder=recurrent"
        )
