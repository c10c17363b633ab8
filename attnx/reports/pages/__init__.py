"""Browser pages, each a self-contained HTML file."""
