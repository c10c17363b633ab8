"""The report of one run: the tables at its start and end, its README, its pictures and pages."""
