"""Probes: made sequences that test one ability, such as recall; the task ``probe``, its problems and metrics."""
