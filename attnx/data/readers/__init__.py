"""Readers of file formats: each turns files into examples and names the file and line of what is wrong."""
