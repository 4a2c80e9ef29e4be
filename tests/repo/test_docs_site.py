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


MADE = {
    "ops.md",
    "c.md",
    "cpp.md",
    "nn.md",
}  # the build makes these in docs/api, and directories of the pages of ops and of classes
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/api/*.md")]
PAGES += ROOT.glob("docs/tutorials/*.md")
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
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
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


@pytest.fixture
def reference(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    import cpp_reference

    return cpp_reference


def test_the_cpp_reference_lists_public_declarations_only(reference):
    text = reference.page()
    for line in (
        "class Tensor {",
        "  int64_t size(int64_t d) const;",
        "  Tensor& copy_(const Tensor& src, bool non_blocking = false) const;",
        "  // Returns the only element; raises RuntimeError unless there is exactly one.",
        "class AutogradContext {",
        "  double to_double() const;",
        "  explicit SafeTensors(std::string path);",
        "  Class<T> class_(const char* name, const char* doc = nullptr);",
        "#define COGRAD_LIBRARY(ns, m)",
        "Tensor eye(int64_t n, const TensorOptions& options);",
        "### `autograd::grad`",
        "A reference to consecutive elements that something else owns.",
    ):
        assert line in text.splitlines(), line
    for hidden in (
        "p_ = ",
        "toDouble",
        "BasicIValue",
        "NOLINT",
        "### ``",
        "static_assert",
        "stow(",
    ):
        assert hidden not in text, hidden
    code = "".join(re.findall(r"^```cpp\n(.*?)^```", text, re.M | re.S))
    code = re.sub(r"//.*", "", code)
    assert code.count("{") == code.count("}") and code.count("(") == code.count(")")
    assert not re.search(r"^\s*;$", code, re.M)


def test_classes_of_the_cpp_interface_are_described(reference):
    bare = []
    for header in reference.HEADERS:
        head, _, rest = (reference.INCLUDE / header).read_text().partition("#pragma once")
        for item in reference.parse(reference.macros(reference.renamed(rest))):
            if item.items and not item.comment:
                bare.append((header, item.name))
    # These headers are part of the core, too, and say in their first lines what the class is for.
    assert set(bare) <= {("error.h", "Error"), ("dtype.h", "TypeTag")}


def test_the_forms_of_cpp_that_the_reference_reads(reference):
    text = """
    namespace cograd {
    namespace ext { void hidden(); }  // namespace ext
    class Gone;
    // A pair.
    class Pair {
     public:
      explicit Pair(int a, int b = 1) : a_{a}, b_(b) { check("}"); }
      Pair(const Pair&) = delete;
      ~Pair() {}
      // The sum;
      // of both.
      [[nodiscard]] int sum() const noexcept { return a_ + b_; }
      template <class T>
      T as() const;

     private:
      int secret() const;
      int a_, b_;
    };
    inline constexpr int kList[] = {1, 2};
    enum class Kind : uint8_t { A, B };
    }  // namespace cograd
    """
    pair, table, kind = reference.parse(reference.macros(text))
    assert (pair.code, pair.comment, pair.name) == ("class Pair", "A pair.", "Pair")
    assert [(m.code, m.comment) for m in pair.items] == [
        ("explicit Pair(int a, int b = 1)", ""),
        ("int sum() const noexcept", "The sum;\nof both."),
        ("template <class T>\nT as() const", ""),
    ]
    assert (table.code, table.name) == ("constexpr int kList[]", "kList")
    assert kind.code == "enum class Kind : uint8_t { A, B }"
