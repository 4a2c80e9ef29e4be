# SPDX-License-Identifier: BSD-3-Clause
"""Drives pages that the library writes in headless Chromium, where it is installed."""

import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=1000,700", "--virtual-time-budget=20000", "--dump-dom",
]  # fmt: skip
browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

# Functions for a test's script: say, click, type into the search, press Enter.
DRIVER = """
const said = [], say = (x) => said.push(x);
const frame = () => new Promise((f) => setTimeout(f, 50));
const click = (x, y, id) => {
  for (const kind of ['pointerdown', 'pointerup'])
    document.getElementById(id).dispatchEvent(
      new PointerEvent(kind, {clientX: x, clientY: y, bubbles: true}));
};
const find = document.getElementById('find');
const type = (s) => { find.value = s; find.dispatchEvent(new Event('input', {bubbles: true})); };
const enter = () => find.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
(async () => {
  while (!document.body.dataset.ready) await frame();
  try { SCRIPT } catch (e) { say('failed: ' + e.stack); }
  const out = document.createElement('pre');
  out.id = 'said';
  out.textContent = JSON.stringify(said);
  document.body.append(out);
})();
"""


def in_browser(path, tmp_path, script):
    """Runs a script in the page once it is ready; returns the texts that it passes to say(...)."""
    driver = DRIVER.replace("SCRIPT", script)
    page = path.read_text().replace("</html>", f"<script>{driver}</script></html>")
    test_page = tmp_path / "driven.html"
    test_page.write_text(page)
    run = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"file://{test_page}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search(r'<pre id="said">(.*?)</pre>', run.stdout)
    assert found, run.stderr[-2000:]
    return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
