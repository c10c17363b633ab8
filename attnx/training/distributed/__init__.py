"""Training with several processes or devices: starting ranks, supervising them, and collectives."""
