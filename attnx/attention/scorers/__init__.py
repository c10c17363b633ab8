"""The scorers: how relevant a memory position is to a query. One scorer, one file."""
