"""Small configurations and models for the laws of models and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnx import registry
from attnx.laws.candidate import Candidate
from attnx.models.resolve import DataSizes, resolve_model

# Sizes that keep the laws fast; parts that are not listed keep their defaults.
SMALL: dict[tuple[str, str], dict[str, Any]] = {
    ("scorer", "additive"): {"hidden_size": 19},
    ("scorer", "mlp"): {"hidden_sizes": [19]},
    ("scorer", "location"): {"hidden_size": 19, "filters": 3, "kernel_radius": 2},
    ("scorer", "coverage"): {"hidden_size": 19},
    ("scorer", "dynamic_convolution"): {"hidden_size": 19, "filters": 3, "kernel_radius": 2},
    ("scorer", "gmm"): {"hidden_size": 19, "components": 2},
    ("scope", "local"): {"window": 1},
    ("query", "language_tag"): {"embedding_dim": 5},
    ("query", "self_attentive"): {"size": 5},
    ("model", "transformer"): {"hidden_size": 20, "feedforward_size": 23, "layers": 2, "dropout": 0.0},
}
DEFAULT_MODEL_PARTS = {"model": "seq2seq", "encoder": "recurrent", "decoder": "recurrent", "readout": "joint"}
ATTENTION_KINDS = ("scorer", "scope", "normalizer", "query")
# Symbols from 4 to 16 are in both vocabularies, so that they can be copied.
SOURCE_SYMBOLS, TARGET_SYMBOLS, TAGS = 23, 17, 3


def small_config(**choices: Any) -> dict[str, Any]:
    """A configuration of small parts: ``small_config(scorer="dot", query=["token"], model={"feed": "now"})``."""
    nodes: dict[str, Any] = {"scorer": "additive", "scope": "global", "normalizer": "softmax", "attention": "standard"}
    nodes |= {kind: choice for kind, choice in choices.items() if kind not in (*DEFAULT_MODEL_PARTS, "query")}
    nodes |= _sized(choices, heads=registry.parse_spec("attention", nodes["attention"])[1].get("heads", 1))
    config: dict[str, Any] = {}
    for kind, choice in nodes.items():
        name, options = registry.parse_spec(kind, choice)
        small = without_noise(Candidate(kind, name, {**SMALL.get((kind, name), {}), **options}))
        config[kind] = registry.fill_in(kind, (name, small.options))
    query = choices.get("query", ["current_state"])
    query_options = query if isinstance(query, Mapping) else {name: SMALL.get(("query", name), {}) for name in query}
    config["query"] = {name: registry.check("query", name, options) for name, options in query_options.items()}
    if config["attention"]["name"] == "none":
        config = {kind: node for kind, node in config.items() if kind not in ATTENTION_KINDS}
    return config


def without_noise(candidate: Candidate) -> Candidate:
    """The candidate with its option ``noise`` at 0, if it has one that is not set: laws compare numbers."""
    is_noisy = candidate.has_option("noise") and "noise" not in candidate.options
    return candidate.with_options(noise=0.0) if is_noisy else candidate


def _sized(choices: Mapping[str, Any], heads: int) -> dict[str, Any]:
    """Model, encoder, decoder and readout with small sizes."""
    # Primes times the number of heads, which must divide them.
    sizes = {
        "model": {"embedding_dim": 7, "position_dim": 19},
        "encoder": {"hidden_size": 11},
        "decoder": {"hidden_size": 13},
    }
    nodes = {}
    for kind, default in DEFAULT_MODEL_PARTS.items():
        node = {"name": default, **choices.get(kind, {})}
        options = {option.name: option.type for option in registry.describe(kind, node["name"]).options}
        small = {option: size * heads for option, size in sizes.get(kind, {}).items() if option in options}
        nodes[kind] = {**{option: size for option, size in small.items() if options[option].accepts(size)}, **node}
    return nodes


def small_model(config: Mapping[str, Any], features: int = 0, target_features: int = 0) -> Any:
    """The model of a configuration, for 23 source and 17 target symbols, or features of either, and 3 tags."""
    model = resolve_model(config).build(DataSizes(SOURCE_SYMBOLS, features, TARGET_SYMBOLS, target_features, TAGS))
    match = getattr(getattr(model, "output", None), "set_vocabulary_map", None)
    if match is not None:
        match([index if 4 <= index < TARGET_SYMBOLS else 0 for index in range(SOURCE_SYMBOLS)])
    return model


def model_with(candidate: Candidate, **model: Any) -> Any:
    """A small seq2seq model with these options that contains the candidate; a transformer of two mixers."""
    choice: Any = {"name": candidate.name, **candidate.options}
    if candidate.kind == "mixer":
        options = {"form": "decoder_only", "prefix": "causal", "hidden_size": 24, "mixer": choice}
        return small_model(small_config(model={"name": "transformer", **options})).eval()
    if candidate.kind == "query":
        choice = {candidate.name: {**SMALL.get(("query", candidate.name), {}), **candidate.options}}
    choices = (
        {"attention": {"name": "standard", "bias": choice}} if candidate.kind == "bias" else {candidate.kind: choice}
    )
    return small_model(small_config(**choices, **({"model": {"name": "seq2seq", **model}} if model else {}))).eval()
