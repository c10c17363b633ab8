"""What papers and other programs call choices and options, and what to type in attnx: for hints, lists and a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attnx.errors import suggest

KNOWN_AS: Final[Mapping[str, tuple[str, ...]]] = {
    "accumulate": ("trainer.accumulate_grad_batches",),
    "amp": ("trainer.precision=bf16-mixed",),
    "bahdanau": ("scorer=additive", "recipe=bahdanau"),
    "batch": ("trainer.batch_size",),
    "beam_search": ("decoding=beam",),
    "beam_width": ("decoding.beam_size",),
    "bilinear": ("scorer=multiplicative",),
    "causal": ("scope=history", "model=transformer"),
    "clip_grad_norm": ("trainer.gradient_clip_val",),
    "concat_attention": ("scorer=additive",),
    "content_based": ("scorer=cosine",),
    "dot_product": ("scorer=dot",),
    "early_stopping": ("trainer.patience",),
    "epochs": ("trainer.max_epochs",),
    "full": ("scope=global",),
    "general": ("scorer=multiplicative",),
    "grad_clip": ("trainer.gradient_clip_val",),
    "gradient_accumulation": ("trainer.accumulate_grad_batches",),
    "gradient_clipping": ("trainer.gradient_clip_val",),
    "hard_attention": ("normalizer=hard", "normalizer=reinforced"),
    "kv_cache": ("model=transformer",),
    "learning_rate": ("optimizer.lr",),
    "location_aware": ("scorer=location",),
    "location_sensitive": ("scorer=location",),
    "luong": ("scorer=multiplicative", "recipe=luong_global"),
    "mini_batch": ("trainer.batch_size",),
    "mixed_precision": ("trainer.precision=bf16-mixed",),
    "multi_head": ("attention.heads",),
    "multihead": ("attention.heads",),
    "n_heads": ("attention.heads",),
    "noam": ("lr_schedule=inverse_sqrt",),
    "nucleus": ("decoding.top_p",),
    "num_beams": ("decoding.beam_size",),
    "num_heads": ("attention.heads",),
    "pointer_network": ("recipe=pointer",),
    "scaled_dot_product": ("scorer=scaled",),
    "self_attention": ("model=transformer", "scope=history"),
    "sliding_window": ("scope=local",),
    "soft": ("normalizer=softmax",),
    "steps": ("trainer.max_steps",),
    "warmup": ("lr_schedule.warmup_steps",),
    "window": ("scope=local",),
    "windowed": ("scope=local",),
}
"""What to type for what others call it: a choice, an option, or an option with its value."""


def known_as(word: str, prefix: str = "") -> tuple[str, ...]:
    """What to type for a word of others, without a prefix such as ``scorer=`` where some of it begins so.

    >>> known_as("luong"), known_as("Luong", "scorer=")
    (('scorer=multiplicative', 'recipe=luong_global'), ('multiplicative',))
    >>> known_as("early-stopping", "scorer=")
    ('trainer.patience',)
    """
    targets = KNOWN_AS.get(word.casefold().replace("-", "_"), ())
    return tuple(target.removeprefix(prefix) for target in targets if target.startswith(prefix)) or targets


def suggest_known(word: str, candidates: Iterable[str], prefix: str = "") -> str:
    """As :func:`attnx.errors.suggest`, where a word of others leads to what to type."""
    targets = known_as(word, prefix)
    return f"; did you mean {' or '.join(targets)}?" if targets else suggest(word, candidates)
