"""Vocabularies, readers, splits and batches."""
