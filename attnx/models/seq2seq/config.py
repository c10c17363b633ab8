"""The configuration of a sequence-to-sequence model: its options, and what it derives from them and its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from attnx import registry
from attnx.attention.options import includes_self, parts_in_force, scope_sources
from attnx.errors import UserError, reject_duplicates
from attnx.models.planner import Plan, PlannerInputs, plan
from attnx.models.resolve import (
    Config,
    DataSizes,
    ModelConfig,
    NoEffect,
    ResolvedConfig,
    check_hops,
    part_declarations,
    query_needs,
    reject_parts,
)
from attnx.models.seq2seq.checks import (
    FINAL,
    POSITIONS,
    check_copies,
    check_embeddings,
    check_memory,
    check_read,
    reads_keys,
    unread_by_attention,
    unread_by_networks,
)
from attnx.registry import Probability, Width, register

if TYPE_CHECKING:
    from attnx.models.seq2seq.model import Seq2seq


@register("model", "seq2seq", read_if={"position_dim": "keys_from=one_hot|sinusoidal", "tag_dim": "tag_inputs!=null"})
@dataclass(frozen=True)
class Seq2seqConfig(ModelConfig):
    """An encoder-decoder with attention.

    Formula: ``p(y_t | y_<t, x) = softmax(O r_t), r_t = readout(h_t, c_t, e(y_{t-1}))``, or of numbers ``y_t = O r_t``
    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473; Luong et al. 2015, https://arxiv.org/abs/1508.04025

    ``feed`` says when the context reaches the recurrence: ``now`` at the same step, ``next`` (the readout) at the next
    one, ``none`` never; left unset it follows from the query. ``keys_from`` and ``values_from`` are ``states``,
    ``inputs`` (the embeddings; if both are, there is no encoder) or ``layer:N``; values default to the keys.
    ``keys_from`` may also be ``one_hot`` or ``sinusoidal``: then keys are positions, of width ``position_dim``.
    ``bridge`` defaults to ``last``, or ``learned`` without an encoder. ``tag_inputs`` names the parts whose inputs have
    the embedded tag of the row (its language), of width ``tag_dim``, at every step. ``schedule`` is the order of
    recurrence and attention, ``auto`` the first that the planner admits. ``scheduled_sampling`` is the probability,
    reached by a linear rise over training, to feed the model's own output back. ``source_vectors`` and
    ``target_vectors`` are files of pretrained embeddings.
    """

    embedding_dim: Width = 64
    feed: Literal["now", "next", "none"] | None = None
    keys_from: str = "states"
    values_from: str | None = None
    position_dim: Width = 64
    bridge: Literal["last", "zeros", "learned"] | None = None
    tag_inputs: list[Literal["encoder", "decoder"]] | None = None
    tag_dim: Width = 20
    tie_embeddings: bool = False
    dropout: Probability = 0.0
    schedule: Literal["auto", "run_then_attend", "attend_then_run", "step_by_step"] = "auto"
    scheduled_sampling: Probability = 0.0
    source_vectors: str | None = None
    target_vectors: str | None = None

    def resolve(self, config: Config) -> ResolvedSeq2seqConfig:
        """Derive options and check that the choices do not contradict each other, as :meth:`ModelConfig.resolve`."""
        attends = config["attention"]["name"] != "none"
        continues = bool(part_declarations(config, "task").get("is_continuation"))
        sources = _sources(config, continues) if attends else () if continues else ("encoder",)
        schedule = plan(_planner_inputs(self, config, attends, sources), self.schedule)
        keys_from, values_from = _keys_and_values(self, config) if attends else (FINAL, FINAL)
        check_memory(config, sources, keys_from, values_from)
        read = {keys_from, values_from} if "encoder" in sources else set()
        has_no_encoder = continues or (bool(read) and read <= {"inputs", *POSITIONS})
        bridge = self.bridge or ("learned" if has_no_encoder else "last")
        if bridge == "last" and has_no_encoder:
            option = f"task={config['task']['name']}" if continues else f"model.keys_from={keys_from}"
            raise UserError(f"model.bridge=last needs an encoder, and {option} has none; use zeros or learned")
        encoder_layers = _layers_read(config, read, bridge)
        readers = _readers(self, config, sources, bridge)
        ineffective = dict(unread_by_attention(config, attends))
        ineffective |= unread_by_networks(config, readers, "encoder" in sources, encoder_layers)
        if not sources:  # neither a source nor attention to the model's own past: there is no context
            reason = f"attention=none and task={config['task']['name']}, which has no source"
            ineffective["model.feed"] = NoEffect(reason)
        resolved = ResolvedSeq2seqConfig(
            config,
            options=self,
            plan=schedule,
            sources=sources,
            visible_state_offset=_visible_state_offset(config) if "decoder" in sources else 0,
            keys_from=keys_from,
            values_from=values_from,
            bridge=bridge,
            encoder_layers=encoder_layers,
            needs_tags=bool(self.tag_inputs) or "tag" in query_needs(config).values(),
            ineffective=ineffective,
        )
        check_embeddings(resolved)
        check_copies(resolved)
        check_read(resolved)
        return resolved


@dataclass(frozen=True)
class ResolvedSeq2seqConfig(ResolvedConfig):
    """The options of a sequence-to-sequence model that follow from its configuration."""

    options: Seq2seqConfig
    plan: Plan  # the schedule and the feed
    # the sources of the memory, ``encoder`` or ``decoder`` or both, in this order; none without source and attention
    sources: tuple[str, ...]
    visible_state_offset: int  # the number of decoder states that a query may read, less its step index: -1, 0 or 1
    # the source of the keys: ``states``, ``inputs``, ``layer:N``, ``one_hot`` or ``sinusoidal`` positions, or
    # ``final`` without attention
    keys_from: str
    values_from: str  # the source of the values, likewise, positions excepted
    bridge: str  # the decoder's initial state: ``last``, ``zeros`` or ``learned``
    encoder_layers: int  # the number of encoder layers that are used, and built; 0 for embeddings alone
    needs_tags: bool  # whether any part reads the rows' tags

    def summary(self) -> dict[str, str]:
        """The lines of the start table: the schedule with its reason, and the derived options."""
        derived = f"model.feed={self.plan.feed} model.bridge={self.bridge}"
        if self.keys_from != FINAL:
            derived += f" model.keys_from={self.keys_from} model.values_from={self.values_from}"
        return {"schedule": str(self.plan), "derived": derived}

    def build(self, sizes: DataSizes) -> Seq2seq:
        """Build the model, as :func:`attnx.models.seq2seq.build.build_seq2seq`."""
        from attnx.models.seq2seq.build import build_seq2seq

        return build_seq2seq(self, sizes)


def _sources(config: Config, continues: bool) -> tuple[str, ...]:
    """The sources of the memory, the encoder first; a UserError if they contradict each other, the task or a part."""
    scope = config["scope"]
    sources = scope_sources(scope)
    reject_duplicates("scope.sources", sources, "source")
    if "decoder" in sources:
        reason = f"scope.sources=[{','.join(sources)}] holds decoder states, one more at every step"
        reject_parts(config, ("scorer", "normalizer"), reason, "is_recurrent")
    if includes_self(scope):
        if "decoder" not in sources:
            raise UserError("scope.include_self=true needs the decoder's states in scope.sources")
        if not {"prev_state", "state"} & set(query_needs(config).values()):
            raise UserError(
                "scope.include_self=true needs a state in the query, current_state or previous_state: "
                "without one there is no state being queried"
            )
    if continues and "encoder" in sources:
        reads = f"scope.sources=[{','.join(sorted(sources, reverse=True))}]"
        raise UserError(f"task={config['task']['name']} has no source, and {reads} reads one; use scope=history")
    return tuple(sorted(sources, reverse=True))


def _visible_state_offset(config: Config) -> int:
    """The number of readable decoder states less the step index: those before the earliest state in the query.

    With ``include_self`` the states in the query are readable, too.
    """
    needs = set(query_needs(config).values())
    if includes_self(config["scope"]):
        return 1 if "state" in needs else 0
    return -1 if "prev_state" in needs else 0


def _planner_inputs(options: Seq2seqConfig, config: Config, attends: bool, sources: tuple[str, ...]) -> PlannerInputs:
    needs = query_needs(config) if attends else {}
    if attends and not needs:
        names = ", ".join(registry.names("query"))
        raise UserError(f"the query is empty: choose one or more of {names}, as in +query=[token]")
    if attends:
        check_hops(config, needs.values())
    return PlannerInputs(
        needs=needs,
        feed=options.feed if sources else "none",
        has_decoder_memory="decoder" in sources,
        needs_history=any(parts_in_force(config, "scorer").declared("needs_history")),
        has_scheduled_sampling=options.scheduled_sampling > 0,
    )


def _keys_and_values(options: Seq2seqConfig, config: Config) -> tuple[str, str]:
    """The sources of keys and values; a scorer that reads no keys takes the values' for both."""
    if not reads_keys(config):
        values_from = _source(config, "values_from", options.values_from or "states")
        return values_from, values_from
    keys_from = _source(config, "keys_from", options.keys_from)
    values_choice = options.values_from or ("states" if keys_from in POSITIONS else keys_from)
    return keys_from, _source(config, "values_from", values_choice)


def _source(config: Config, option: str, choice: str) -> str:
    """The source of keys or values, checked."""
    choices = ("states", "inputs", *(POSITIONS if option == "keys_from" else ()))
    if choice in choices:
        return choice
    word, _, number = choice.partition(":")
    layers = config["encoder"].get("layers", 1)
    if word != "layer" or not (number.isascii() and number.isdecimal()):
        raise UserError(f"model.{option}={choice}: expected {', '.join(choices)} or layer:N")
    if int(number) >= layers:
        raise UserError(f"model.{option}={choice}: the encoder has {layers} layer(s), counted from layer:0")
    return choice


def _layers_read(config: Config, read: set[str], bridge: str) -> int:
    """The number of encoder layers that are used; an unused parameter would stop distributed training."""
    layers: int = config["encoder"].get("layers", 1)
    layer_counts = {"inputs": 0, "one_hot": 0, "sinusoidal": 0, "states": layers, FINAL: layers}
    counts = [layer_counts[pick] if pick in layer_counts else int(pick.removeprefix("layer:")) + 1 for pick in read]
    from_bridge = min(layers, config["decoder"].get("layers", 1)) if bridge == "last" else 0
    return max(*counts, from_bridge, 0)


def _readers(options: Seq2seqConfig, config: Config, sources: tuple[str, ...], bridge: str) -> str:
    """The choices that say what of the encoder is read."""
    if part_declarations(config, "task").get("is_continuation"):
        return f"task={config['task']['name']}, which has no source"
    choices = {"keys_from": options.keys_from, "values_from": options.values_from}
    memory = " and ".join(f"model.{option}={choice}" for option, choice in choices.items() if choice is not None)
    return f"{memory if 'encoder' in sources else f'scope.sources=[{sources[0]}]'} and model.bridge={bridge}"
