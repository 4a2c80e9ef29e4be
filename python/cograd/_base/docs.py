# SPDX-License-Identifier: BSD-3-Clause
"""Tells error messages where a page of the docs is."""

from __future__ import annotations

import functools

__all__ = ["address", "see"]


@functools.cache
def address() -> str | None:
    """Returns the docs' web address with a slash, if the package's metadata has one."""
    from importlib import metadata  # when it is first needed: it takes 10 ms

    try:
        urls = metadata.metadata("cograd").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    for label, _, url in (u.partition(", ") for u in urls):
        if label.lower() == "documentation":
            return str(url).rstrip("/") + "/"
    return None


def see(page: str, section: str = "") -> str:
    """Returns the command that prints a page's contents, and the page's address if there is one."""
    at = address()
    url = "" if at is None else f" or {at}{page}.html{'#' * bool(section)}{section}"
    return f"python -m cograd docs {page} {section}".rstrip() + url
