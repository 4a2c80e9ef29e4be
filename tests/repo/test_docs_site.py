# SPDX-License-Identifier: BSD-3-Clause
"""The documentation's site: the list of versions, and the sidebar that is generated once."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "docs_versions.py"
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="not run from a source checkout")


def list_versions(folder):
    command = [sys.executable, str(TOOL), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_versions_are_listed_newest_first(tmp_path):
    for name in ("0.9.1", "0.10.0", "dev", "unfinished"):
        (tmp_path / name).mkdir()
        if name != "unfinished":
            (tmp_path / name / "index.html").write_text("")
    assert list_versions(tmp_path).returncode == 0
    found = json.loads((tmp_path / "versions.json").read_text())
    assert [v["name"] for v in found] == ["0.10.0", "0.9.1", "dev"]
    assert [v["title"] for v in found] == ["0.10.0 (newest)", "0.9.1", "dev"]
    assert 'url=0.10.0/"' in (tmp_path / "index.html").read_text()


def test_no_version_is_an_error(tmp_path):
    result = list_versions(tmp_path)
    assert result.returncode == 1 and "no version is here" in result.stderr


MADE = {"ops.md", "c.md"}  # the build makes these in docs/api, and a directory of the ops' pages
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/api/*.md")]
PAGES = sorted(p for p in PAGES if p.parent.name != "api" or p.name not in MADE)


def anchors(text):
    """Returns the anchors of a page's headings, as myst and GitHub make them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Links of handwritten pages lead to files that exist and to headings in them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    dead = []
    for link in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"[a-z]+:", link) or (target.parent.name == "api" and target.name in MADE):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            dead.append(link)
    assert dead == []


def test_the_sidebar_is_the_same_tree_seen_from_each_page(monkeypatch):
    for name in ("sphinx", "bs4"):
        pytest.importorskip(name)
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    import navigation

    html = (
        '<ul><li class="toctree-l1"><a class="reference internal" href="start.html">Start</a></li>'
        '<li class="toctree-l1"><a class="reference internal" href="api/ops.html">Ops</a><ul>'
        '<li class="toctree-l2"><a class="reference internal" href="api/ops/add.html">add</a></li>'
        "</ul></li></ul>"
    )
    calls = []
    builder = SimpleNamespace(
        get_target_uri=lambda page: page + ".html",
        _get_local_toctree=lambda *args, **kwargs: calls.append(args) or html,
    )
    app = SimpleNamespace(builder=builder, config=SimpleNamespace(root_doc="index"))
    tree = navigation.Tree(app)
    shown = tree.show("api/ops/add")
    assert 'href="../../start.html">Start' in shown and ">add<" not in shown
    assert (
        'class="current toctree-l1"><a class="current reference internal" href="../ops.html"'
        in shown
    )
    assert 'href="api/ops.html">Ops' in tree.show("start") and len(calls) == 1
    assert 'class="current reference internal" href="#">Start' in tree.show("start")
