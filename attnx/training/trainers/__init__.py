"""The trainers, by name."""
