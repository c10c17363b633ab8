"""Recipes for public data sets: one YAML file a set says what it is and where it is, the modules read and fetch it."""
