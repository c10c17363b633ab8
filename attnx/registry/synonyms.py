"""What papers and other programs call choices and options, and what to type in attnx: for hints, lists and a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from attnx.errors import suggest

KNOWN_AS: Final[Mapping[str, tuple[str, ...]]] = {
    "accumulate": ("trainer.accumulate_grad_batches",),
    "amp": ("trainer.precision=bf16-mixed",),
    "ancestral_sampling": ("decoding=sampling",),
    "associative_recall": ("task.problem=mqar", "recipe=mqar"),
    "bahdanau": ("scorer=additive", "recipe=bahdanau"),
    "batch": ("trainer.batch_size",),
    "attention_sink": ("normalizer=softmax_with_sink",),
    "beam_search": ("decoding=beam",),
    "beam_width": ("decoding.beam_size",),
    "bf16": ("trainer.precision=bf16-mixed",),
    "bilinear": ("scorer=multiplicative",),
    "causal": ("scope=history", "model=transformer"),
    "clip_grad_norm": ("trainer.gradient_clip_val",),
    "coattention": ("recipe=co_attention",),
    "concat_attention": ("scorer=additive",),
    "content_based": ("scorer=cosine",),
    "copy_mechanism": ("output=copy",),
    "cosine_annealing": ("lr_schedule=cosine",),
    "d_model": ("model.hidden_size",),
    "deltanet": ("model.mixer=delta",),
    "dilated": ("scope.dilation",),
    "dot_product": ("scorer=dot",),
    "early_stopping": ("trainer.patience",),
    "ema_decay": ("trainer.ema",),
    "epochs": ("trainer.max_epochs",),
    "fast_weights": ("model.mixer=linear",),
    "full": ("scope=global",),
    "gated_deltanet": ("model.mixer=gated_delta",),
    "gated_linear_attention": ("model.mixer=gated_linear",),
    "general": ("scorer=multiplicative",),
    "gla": ("model.mixer=gated_linear",),
    "gpus": ("trainer.devices",),
    "grad_clip": ("trainer.gradient_clip_val",),
    "gradient_accumulation": ("trainer.accumulate_grad_batches",),
    "gradient_clipping": ("trainer.gradient_clip_val",),
    "gqa": ("attention.kv_heads",),
    "grouped_query": ("attention.kv_heads",),
    "half_precision": ("trainer.precision=bf16-mixed",),
    "hard_attention": ("normalizer=hard", "normalizer=reinforced"),
    "hybrid": ("model.mixer",),
    "in_context_recall": ("task.problem=recall",),
    "induction_heads": ("task.problem=induction",),
    "input_feeding": ("model.feed=next",),
    "kv_cache": ("model=transformer",),
    "learning_rate": ("optimizer.lr",),
    "linear_attention": ("model.mixer=linear",),
    "linear_transformer": ("model.mixer=linear",),
    "local_attention": ("scope=local",),
    "location_aware": ("scorer=location",),
    "location_sensitive": ("scorer=location",),
    "longformer": ("scope.global_tokens",),
    "luong": ("scorer=multiplicative", "recipe=luong_global"),
    "luong_concat": ("scorer=additive",),
    "luong_dot": ("scorer=dot",),
    "luong_general": ("scorer=multiplicative",),
    "memory_network": ("attention.hops",),
    "mini_batch": ("trainer.batch_size",),
    "mixed_precision": ("trainer.precision=bf16-mixed",),
    "modular_arithmetic": ("task.problem=modular_counting",),
    "mqar": ("recipe=mqar",),
    "multi_head": ("attention.heads",),
    "multi_query": ("attention.kv_heads",),
    "multihead": ("attention.heads",),
    "mqa": ("attention.kv_heads",),
    "n_best": ("decoding.nbest",),
    "n_heads": ("attention.heads",),
    "noam": ("lr_schedule=inverse_sqrt",),
    "nucleus": ("decoding.top_p",),
    "prefix_lm": ("model.form", "model.prefix"),
    "rms_norm": ("model.norm_type",),
    "rmsnorm": ("model.norm_type",),
    "rope": ("model.position_encoding",),
    "rope_theta": ("model.rotary_base",),
    "s5": ("task.problem=permutations",),
    "state_tracking": ("task.problem=permutations", "task.problem=parity"),
    "swiglu": ("model.gated", "recipe=llama"),
    "num_beams": ("decoding.beam_size",),
    "num_epochs": ("trainer.max_epochs",),
    "num_gpus": ("trainer.devices",),
    "num_heads": ("attention.heads",),
    "num_kv_heads": ("attention.kv_heads",),
    "num_layers": ("encoder.layers", "decoder.layers", "model.layers"),
    "pointer_network": ("recipe=pointer",),
    "relative_position": ("attention.bias=relative",),
    "retnet": ("model.mixer=retention",),
    "scaled_dot_product": ("scorer=scaled",),
    "self_attention": ("model=transformer", "scope=history"),
    "sliding_window": ("scope=local",),
    "soft": ("normalizer=softmax",),
    "logit_softcapping": ("attention.softcap",),
    "softmax1": ("normalizer=softmax_with_sink",),
    "steps": ("trainer.max_steps",),
    "streaming_llm": ("scope.sinks",),
    "teacher_forcing": ("model.scheduled_sampling",),
    "tied_embeddings": ("model.tie_embeddings",),
    "top_k_sampling": ("decoding.top_k",),
    "warmup": ("lr_schedule.warmup_steps",),
    "weight_tying": ("model.tie_embeddings",),
    "warmup_stable_decay": ("lr_schedule=wsd",),
    "weight_averaging": ("trainer.ema",),
    "window": ("scope=local",),
    "windowed": ("scope=local",),
    "zoology": ("recipe=mqar",),
}
"""What to type for what others call it: a choice, an option, or an option with its value."""


def known_as(word: str, prefix: str = "") -> tuple[str, ...]:
    """What to type for a word of others, without a prefix such as ``scorer=`` where some of it begins so.

    >>> known_as("luong"), known_as("Luong", "scorer=")
    (('scorer=multiplicative', 'recipe=luong_global'), ('multiplicative',))
    >>> known_as("early-stopping", "scorer="), known_as("KV cache")
    (('trainer.patience',), ('model=transformer',))
    """
    targets = KNOWN_AS.get(re.sub("[- ]", "_", word.casefold()), ())
    return tuple(target.removeprefix(prefix) for target in targets if target.startswith(prefix)) or targets


def suggest_known(word: str, candidates: Iterable[str], prefix: str = "") -> str:
    """As :func:`attnx.errors.suggest`, where a word of others leads to what to type."""
    targets = known_as(word, prefix)
    return f"; did you mean {' or '.join(targets)}?" if targets else suggest(word, candidates)
