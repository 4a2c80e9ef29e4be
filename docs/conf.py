# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx configuration: `make docs`."""

import os
import sys
from pathlib import Path

import cograd

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "cograd"
author = "the cograd developers"
copyright = author
# If several versions are built side by side, each has a name: its release number, or "dev".
named = os.environ.get("DOCS_VERSION", "")
version = release = named or cograd.__version__
if named[:1].isdigit() and named != cograd.__version__:
    raise ValueError(f"DOCS_VERSION={named}: the installed cograd is {cograd.__version__}")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "c_reference",
    "cpp_reference",
    "curves",
    "formulas",
    "navigation",
    "nn_pages",
    "op_pages",
    "plain_docstrings",
]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
# Links that leave docs/ (README, CONTRIBUTING) point to pages of the repository.
suppress_warnings = ["myst.xref_missing"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_custom_sections = ["Shape"]
exclude_patterns = ["_build", "_ext"]

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"cograd {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_search_scorer = str(Path(__file__).parent / "_ext" / "scorer.js")
html_js_files = ["copy.js", *(["versions.js"] if named else [])]
