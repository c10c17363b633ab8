"""Pictures of what each part of attention does, on one small example."""
