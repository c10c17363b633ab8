"""The scopes: which memory positions a query may read. One scope, one file."""
