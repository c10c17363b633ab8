"""joeynmt's LSTMs with Bahdanau attention, trained through its own `train`.

Run by the interpreter of joeynmt's own environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joeynmt import training
from request import Training, read_request

MODEL_DIR = Path("model")


def write_sides(pairs: str, prefix: Path) -> None:
    """Write the pairs as joeynmt's plain parallel files, ``prefix.word`` and ``prefix.phone``."""
    lines = [line.split("\t") for line in Path(pairs).read_text(encoding="utf-8").splitlines()]
    for column, side in enumerate(("word", "phone")):
        text = "".join(f"{line[column]}\n" for line in lines)
        prefix.with_suffix(f".{side}").write_text(text, encoding="utf-8")


def model_section(request: Training) -> dict[str, Any]:
    """One LSTM layer on either side, without input feeding, which would be slower."""
    embeddings = {"embedding_dim": request.embedding, "dropout": 0.0}
    lstm = {"type": "recurrent", "rnn_type": "lstm", "num_layers": 1, "dropout": 0.0}
    lstm |= {"embeddings": embeddings}
    encoder = lstm | {"hidden_size": request.encoder, "bidirectional": True}
    decoder = lstm | {
        "hidden_size": request.decoder,
        "hidden_dropout": 0.0,
        "attention": "bahdanau",
        "input_feeding": False,
        "init_hidden": "bridge",
    }
    return {"encoder": encoder, "decoder": decoder}


def configuration(request: Training) -> dict[str, Any]:
    """The complete configuration, as joeynmt would read it from a YAML file."""
    training_section = {
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "learning_rate_min": 0.0,
        # Without a schedule 2.3.0 refuses to train; an exponential decay by 1 leaves the learning rate alone.
        "scheduling": "exponential",
        "decrease_factor": 1.0,
        "batch_size": request.batch,
        "batch_type": "sentence",
        "updates": request.updates,
        "validation_freq": 1_000_000,
    }
    return {
        "name": "speed",
        "model_dir": str(MODEL_DIR),
        "use_cuda": False,
        "data": {
            "train": "pairs",
            "dev": "pairs",
            "dataset_type": "plain",
            "src": {"lang": "word", "level": "char"},
            "trg": {"lang": "phone", "level": "word"},
        },
        "training": training_section,
        "testing": {},
        "model": model_section(request),
    }


def train(request: Training) -> None:
    """Train as many steps as requested, without validation; joeynmt saves one checkpoint after the last."""
    MODEL_DIR.mkdir()
    write_sides(request.pairs, Path("pairs"))
    training.train(rank=0, world_size=1, cfg=configuration(request), skip_test=True)


if __name__ == "__main__":
    train(read_request(Training))
