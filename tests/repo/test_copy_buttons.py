# SPDX-License-Identifier: BSD-3-Clause
"""The copy buttons of the documentation: each block of a page has one, with the right text."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import CHROMIUM, in_browser

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "_static" / "copy.js"
NODE = shutil.which("node") or shutil.which("nodejs")
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="not run from a source checkout")

PAGE = """
Blocks
======

.. code-block:: python

   if a < b and "&amp;" in c:
       print(">>> kept")

.. code-block:: pycon

   >>> x = cograd.ones(2)
   >>> for v in x:
   ...     print(v)
   ...
   tensor(1.)
   tensor(1.)
   >>> x
   tensor([1., 1.])

.. code-block:: sh

   make install   # then
   make test

.. code-block:: cpp

   std::vector<int> v{1, 2};
"""
COPIED = [
    'if a < b and "&amp;" in c:\n    print(">>> kept")',
    "x = cograd.ones(2)\nfor v in x:\n    print(v)\n\nx",
    "make install   # then\nmake test",
    "std::vector<int> v{1, 2};",
]
# A document with the blocks of the page, which says what is written to the clipboard.
DOCUMENT = """
const said = [], buttons = [];
const blocks = BLOCKS.map((text) => ({
  querySelector: (what) => what === "pre" ? {textContent: text} : null,
  append: (button) => buttons.push(button),
}));
globalThis.document = {
  querySelectorAll: (what) => what === "div.highlight" ? blocks : [],
  createElement: (name) => ({name}),
};
Object.defineProperty(globalThis, "navigator",
  {value: {clipboard: {writeText: async (text) => said.push(text)}}, configurable: true});
globalThis.setTimeout = (f) => f();
let start;
globalThis.addEventListener = (name, f) => { if (name === "DOMContentLoaded") start = f; };
require(SCRIPT);
start();
(async () => {
  for (const b of buttons) { await b.onclick(); said.push([b.name, b.className, b.textContent]); }
  console.log(JSON.stringify(said));
})();
"""
IN_PAGE = """
Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => say(text)}});
const buttons = [...document.querySelectorAll('div.highlight > button.copy')];
say(buttons.length);
for (const button of buttons) { button.click(); await frame(); say(button.textContent); }
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The page as Sphinx writes it with the scripts that docs/conf.py names."""
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("docs")
    (folder / "index.rst").write_text(PAGE)
    scripts = re.search(r"^html_js_files = \[(.*)\]$", (ROOT / "docs/conf.py").read_text(), re.M)
    names = re.findall(r'^"(\w+\.js)"', scripts[1])
    command = [sys.executable, "-m", "sphinx", "-q", "-C", "-b", "html", "-D", "html_theme=basic"]
    command += ["-D", f"html_static_path={SCRIPT.parent}", "-D", f"html_js_files={','.join(names)}"]
    subprocess.run([*command, str(folder), str(folder / "html")], check=True, timeout=120)
    return folder / "html" / "index.html"


class Blocks(HTMLParser):
    """Collects the texts of the pre elements inside of div.highlight."""

    def __init__(self, text):
        super().__init__()
        self.found, self.inside = [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "pre":
            self.inside = True
            self.found.append("")

    def handle_endtag(self, tag):
        self.inside &= tag != "pre"

    def handle_data(self, data):
        if self.inside:
            self.found[-1] += data


def test_the_built_page_loads_the_script(built):
    text = built.read_text()
    assert re.search(r'<script src="_static/copy\.js(\?v=\w+)?"></script>', text)
    assert (built.parent / "_static" / "copy.js").read_bytes() == SCRIPT.read_bytes()
    assert text.count('<div class="highlight"><pre>') == len(COPIED)


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_a_click_copies_what_was_typed(built):
    document = DOCUMENT.replace("BLOCKS", json.dumps(Blocks(built.read_text()).found))
    document = document.replace("SCRIPT", json.dumps(str(SCRIPT)))
    run = subprocess.run([NODE, "-e", document], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    assert said[::2] == COPIED
    assert said[1::2] == [["button", "copy", "copy"]] * len(COPIED)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_click_copies_in_a_browser(built):
    ready = "<script>document.body.dataset.ready = 1;</script></html>"
    page = built.parent / "ready.html"
    page.write_text(built.read_text().replace("</html>", ready))
    said = in_browser(page, built.parent, IN_PAGE)
    assert said[0] == len(COPIED) and said[1::2] == COPIED
    assert said[2::2] == ["copied"] * len(COPIED)
