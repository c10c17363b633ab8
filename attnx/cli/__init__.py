"""The command line: argument parsing, help, shell completion, and one module a command."""
