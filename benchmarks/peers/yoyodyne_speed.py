"""Trains yoyodyne's attentive LSTM with its own data module and trainer and prints its words per second.

Run by the interpreter of yoyodyne's own environment. A Lightning callback tells the watch
where a step begins.
"""

from __future__ import annotations

import logging
from functools import partial

from lightning.pytorch.callbacks import LambdaCallback
from stopwatch import Request, Stopwatch, read_request
from yoyodyne import data, models, optimizers, trainers
from yoyodyne.models import modules


def build_model(request: Request, pairs: data.DataModule) -> models.SoftAttentionLSTMModel:
    """The attentive LSTM: its scores are v tanh(W [memory; state]), its query is the previous state."""
    return models.SoftAttentionLSTMModel(
        source_encoder=modules.LSTMEncoder(
            embedding_size=request.embedding,
            hidden_size=request.encoder,
            layers=1,
            bidirectional=True,
            dropout=0.0,
        ),
        embedding_size=request.embedding,
        decoder_hidden_size=request.decoder,
        decoder_layers=1,
        decoder_dropout=0.0,
        optimizer=partial(optimizers.Adam, lr=1e-3),
        vocab_size=pairs.vocab_size,
        target_vocab_size=pairs.target_vocab_size,
    )


def main() -> None:
    """Train as many steps as requested, without validation, checkpoints or a logger."""
    request = read_request()
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    pairs = data.DataModule(
        model_dir=".",
        train=str(request.pairs),
        target_sep=" ",
        tie_embeddings=False,
        batch_size=request.batch,
    )
    watch = Stopwatch(request.warmup, request.steps)
    on_start = LambdaCallback(on_train_batch_start=lambda _1, _2, batch, _3: watch.step_begins(len(batch)))
    trainer = trainers.Trainer(
        accelerator="cpu",
        max_steps=request.updates,
        callbacks=[on_start],
        limit_val_batches=0,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
    )
    trainer.fit(build_model(request, pairs), pairs)
    watch.report("yoyodyne")


if __name__ == "__main__":
    main()
