"""Pages for a browser, each one self-contained HTML file."""
