"""How Sphinx builds the site from these pages: see CONTRIBUTING.md for the command."""

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_extensions")]

from attnx.registry.option_types import ALIASES  # noqa: E402
from attnx.version import __version__  # noqa: E402

project, author, version = "attnx", "The attnx authors", __version__
project_copyright = author
repository_url = PROJECT["urls"]["Source"]
exclude_patterns = ["_extensions", "examples"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    # One module each in _extensions/.
    "repository_links",
    "command_pages",
    "choice_pages",
    "package_pages",
    "part_facts",
    "type_names",
    "mathml",
    "lazy_images",
    "gallery.moving_page_frame",
    "accessible_html",
]

# Markdown. Anchors are those of a code host, so that a link to a heading works in both places.
myst_enable_extensions = ["dollarmath", "linkify"]
myst_linkify_fuzzy_links = False  # else README.md is taken for a host
myst_heading_anchors = 4

# Tutorials: a Markdown file with a kernelspec is run, once for each change of its code.
nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_code_prompt_hide = "Hide"
nb_render_markdown_format = "myst"

# Docstrings.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_use_type_comments = False  # else every function is parsed again for them
autodoc_type_aliases = {name: name for name in ALIASES}
toc_object_entries = False  # every page holds the tree of contents: thousands of names would slow the build by half
napoleon_numpy_docstring = False
napoleon_use_ivar, napoleon_attr_annotations = True, False  # the signature has the types
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True

# Pages load nothing from other hosts: fonts are the system's, and formulas are MathML.
html_theme = "furo"
html_title = f"attnx {version}"
html_static_path = ["_static"]
html_favicon = html_logo = "_static/mark.svg"
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "_extensions" / "search_scorer.js")
html_math_renderer = "mathml"
html_copy_source = False
# A summary is read from each page that a search finds, which needs a server.
html_show_search_summary = False
html_show_sphinx = False
html_use_index = html_domain_indices = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#08519c",
        "color-brand-content": "#08519c",
        "color-code-background": "#f6f8fa",
    },
    "dark_css_variables": {"color-brand-primary": "#9ecae1", "color-brand-content": "#9ecae1"},
    "footer_icons": [{"name": "Repository", "url": repository_url, "html": "Repository", "class": ""}],
    "top_of_page_buttons": [],
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
