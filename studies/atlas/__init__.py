"""Which attention suits which data: a grid of attentions on five tasks."""
