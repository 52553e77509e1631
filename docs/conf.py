"""How Sphinx makes the pages: `make docs`.

The folder of the sources is the root of the repository, so that the pages' links are the same here and where
the files are read as they are: to the README, to the changelog, to the benchmark's results.
"""

import sys
from pathlib import Path

_DOCS = Path(__file__).parent
sys.path[:0] = [str(_DOCS / "_sphinx"), str(_DOCS.parent / "src")]

import restride  # noqa: E402

project = "restride"
author = copyright = "The restride developers"
version = release = restride.__version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
extensions += [
    "docstrings",
    "examples",
    "explorers",
    "notebooks",
    "signatures",
    "site_links",
    "sphinx_copybutton",
]
root_doc = "docs/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"]
include_patterns += ["docs/**", "benchmarks/**"]
# The page of error codes is part of the package, for `restride explain`.
include_patterns += ["src/restride/refusals.md"]
exclude_patterns = ["docs/_build", "tests", "build", "dist", ".*"]

# Headings have the anchors that they have on GitHub.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence"]

# The bodies of docstrings are turned into reStructuredText by docstrings.py.
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
trim_doctest_flags = True
nitpicky = True
# Types of Python, NumPy and the inside of restride stand in signatures; they have no page here.
nitpick_ignore_regex = [("py:.*", r"(?!restride\.[A-Z]).*"), ("py:class", r".*\._.*")]

html_theme = "furo"
html_title = "restride"
html_static_path = ["_static"]
html_extra_path = ["_extra"]
html_css_files = ["pages.css"]
# What is copied of an example is what is typed, without prompts and answers.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_remove_prompts = True
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"
