"""What papers and other programs call choices and options, and what to type in attnx: for hints, lists and a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from attnx.errors import suggest

WORDS: Final[Mapping[str, str]] = {
    "attention.bias=relative": "relative_position",
    "attention.heads": "multi_head multihead n_heads num_heads",
    "attention.hops": "memory_network",
    "attention.kv_heads": "gqa grouped_query mqa multi_query num_kv_heads",
    "attention.softcap": "logit_softcapping",
    "decoding.beam_size": "beam_width num_beams",
    "decoding.nbest": "n_best",
    "decoding.top_k": "top_k_sampling",
    "decoding.top_p": "nucleus",
    "decoding=beam": "beam_search",
    "decoding=sampling": "ancestral_sampling",
    "encoder.layers": "num_layers",
    "decoder.layers": "num_layers",
    "lr_schedule.warmup_steps": "warmup",
    "lr_schedule=cosine": "cosine_annealing",
    "lr_schedule=inverse_sqrt": "noam",
    "lr_schedule=wsd": "warmup_stable_decay",
    "model.feed=next": "input_feeding",
    "model.form": "prefix_lm",
    "model.gated": "swiglu",
    "model.hidden_size": "d_model",
    "model.layers": "num_layers",
    "model.mixer": "hybrid",
    "model.mixer=delta": "deltanet",
    "model.mixer=gated_delta": "gated_deltanet",
    "model.mixer=gated_linear": "gated_linear_attention gla",
    "model.mixer=linear": "fast_weights linear_attention linear_transformer",
    "model.mixer=retention": "retnet",
    "model.norm_type": "rms_norm rmsnorm",
    "model.position_encoding": "rope",
    "model.prefix": "prefix_lm",
    "model.rotary_base": "rope_theta",
    "model.scheduled_sampling": "teacher_forcing",
    "model.tie_embeddings": "tied_embeddings weight_tying",
    "model=transformer": "causal kv_cache self_attention",
    "normalizer=hard": "hard_attention",
    "normalizer=reinforced": "hard_attention",
    "normalizer=softmax": "soft",
    "normalizer=softmax_with_sink": "attention_sink softmax1",
    "optimizer.lr": "learning_rate",
    "output=copy": "copy_mechanism",
    "scope.dilation": "dilated",
    "scope.global_tokens": "longformer",
    "scope.sinks": "streaming_llm",
    "scope=global": "full",
    "scope=history": "causal self_attention",
    "scope=local": "local_attention sliding_window window windowed",
    "scorer=additive": "bahdanau concat_attention luong_concat",
    "scorer=cosine": "content_based",
    "scorer=dot": "dot_product luong_dot",
    "scorer=location": "location_aware location_sensitive",
    "scorer=multiplicative": "bilinear general luong luong_general",
    "scorer=scaled": "scaled_dot_product",
    "task.problem=induction": "induction_heads",
    "task.problem=modular_counting": "modular_arithmetic",
    "task.problem=mqar": "associative_recall",
    "task.problem=permutations": "s5 state_tracking",
    "task.problem=parity": "state_tracking",
    "task.problem=recall": "in_context_recall",
    "trainer.accumulate_grad_batches": "accumulate gradient_accumulation",
    "trainer.batch_size": "batch mini_batch",
    "trainer.devices": "gpus num_gpus",
    "trainer.ema": "ema_decay weight_averaging",
    "trainer.gradient_clip_val": "clip_grad_norm grad_clip gradient_clipping",
    "trainer.max_epochs": "epochs num_epochs",
    "trainer.max_steps": "steps",
    "trainer.patience": "early_stopping",
    "trainer.precision=bf16-mixed": "amp bf16 half_precision mixed_precision",
    "recipe=bahdanau": "bahdanau",
    "recipe=co_attention": "coattention",
    "recipe=llama": "swiglu",
    "recipe=luong_global": "luong",
    "recipe=mqar": "associative_recall mqar zoology",
    "recipe=pointer": "pointer_network",
}
"""What others call a choice, an option, or an option with its value."""

KNOWN_AS: Final[Mapping[str, tuple[str, ...]]] = {
    word: tuple(target for target, words in WORDS.items() if word in words.split())
    for word in sorted({word for words in WORDS.values() for word in words.split()})
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
