"""Export of trained models to files that run without attnx."""
