"""A gallery of the parts of attention: pictures and a page."""
