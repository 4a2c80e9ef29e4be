# SPDX-License-Identifier: BSD-3-Clause
"""A Sphinx extension that makes the sidebar's tree once, not once per page, without the op pages.

A theme requests the whole tree from Sphinx for every page. With a page for each op, this would take
most of a build and add hundreds of links to each page. Users find op pages by api/ops and search.
"""

from __future__ import annotations

import re
from typing import Any

from bs4 import BeautifulSoup
from sphinx.util.osutil import relative_uri

LEFT_OUT = ("api/ops/", "api/nn/")
_LINK = re.compile(r'href="([^"]*)"')


class Tree:
    """Holds the tree as seen from the first page, and the entries above each entry."""

    def __init__(self, app: Any) -> None:
        self.builder = app.builder
        html = app.builder._get_local_toctree(
            app.config.root_doc, collapse=False, titles_only=True, maxdepth=-1, includehidden=True
        )
        soup = BeautifulSoup(html or "", "html.parser")
        for link in soup.find_all("a"):
            if link["href"].startswith(LEFT_OUT):
                link.find_parent("li").decompose()
        for empty in [u for u in soup.find_all("ul") if not u.find("li")]:
            empty.decompose()
        self.html = str(soup)
        self.root = app.builder.get_target_uri(app.config.root_doc)
        self.chains = {
            link["href"]: {link["href"], *(li.a["href"] for li in link.find_parents("li"))}
            for link in soup.find_all("a")
        }

    def show(self, page: str) -> str:
        """Returns the tree for ``page``, with its entry, or the one above it, marked."""
        here = self.builder.get_target_uri(page)
        entry = here
        while entry not in self.chains and "/" in entry:
            entry = entry.rpartition("/")[0] + ".html"
        current = self.chains.get(entry, set())

        def link(match: re.Match[str]) -> str:
            return f'href="{relative_uri(here, match[1]) or "#"}"'

        parts = []
        for item in self.html.split("<li "):
            found = _LINK.search(item)
            if found and found[1] in current:
                item = item.replace('class="toctree-', 'class="current toctree-', 1)
                item = item.replace('class="reference', 'class="current reference', 1)
            parts.append(_LINK.sub(link, item))
        return "<li ".join(parts)


def setup(app: Any) -> dict[str, bool]:
    """Connects the extension before the theme's own handler."""
    trees: list[Tree] = []

    def give(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
        if "toctree" not in context or not app.config.root_doc:
            return
        if not trees:
            trees.append(Tree(app))
        context["toctree"] = lambda **_options: trees[0].show(page)

    app.connect("html-page-context", give, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
