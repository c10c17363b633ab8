"""Trained models as files that run without attnx."""
