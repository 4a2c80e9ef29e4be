# SPDX-License-Identifier: BSD-3-Clause
"""Curves and pages that the docs' extensions make, titles that search finds, tutorials."""

import inspect
import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import cograd

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="not run from a source checkout")


@pytest.fixture
def extensions(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    import curves
    import nn_pages

    return curves, nn_pages


def test_everything_that_has_a_curve_is_drawn(extensions):
    curves, pages = extensions
    drawn = set(curves.all_figures())
    vectors = {"GLU", "Softmax", "Softmax2d", "Softmin", "LogSoftmax"}
    wanted = {f"nn.{n}" for n in pages.families()["Activations"] if n not in vectors}
    schedules = cograd.optim.lr_scheduler
    wanted |= {f"optim.lr_scheduler.{n}" for n in schedules.__all__ if n != "LRScheduler"}
    wanted |= {f"signal.windows.{n}" for n in cograd.signal.windows.__all__}
    wanted |= {n for n in dir(cograd) if n.endswith("_window")}
    assert wanted <= drawn
    assert len([n for n in drawn if n.startswith("distributions.")]) == 27
    assert len([n for n in drawn if n.endswith("Loss")]) == 15


def test_figures_are_small_and_take_their_colours_from_the_page(extensions):
    for name, make in extensions[0].all_figures().items():
        text = make()
        assert len(text) < 5000, name
        figure = ET.fromstring(text)
        assert figure.find("svg").get("aria-label")
        assert not re.search(r"#[0-9a-f]{3,6}|rgb\(|style=|fill=|stroke=", text), name
        for path in figure.iter("path"):
            assert "nan" not in path.get("d") and "inf" not in path.get("d"), name
        assert "\n" not in text, name


def test_a_figure_shows_the_values(extensions):
    curves = extensions[0]
    import curve_tables

    series = curve_tables.activation("Tanh")
    frame = curves.Frame(series, bars=False)
    drawn = re.findall(r'class="c0" d="([^"]+)"', curves.figure(series, "t"))[0]
    places = [tuple(map(float, p.split())) for p in re.split("[ML]", drawn)[1:]]
    assert len(places) == 97
    scale = frame.y(0.0) - frame.y(1.0)
    for (_, y), x in zip(places, series[0][1]):
        assert (frame.y(0.0) - y) / scale == pytest.approx(math.tanh(x), abs=0.1 / scale + 1e-6)
    assert series[1][2][48] == pytest.approx(1.0)  # the derivative at 0


def test_a_curve_breaks_at_a_pole(extensions):
    curves = extensions[0]
    text = curves.figure([("f", [-1.0, 0.0, 1.0, 2.0], [-1.0, math.inf, 1.0, 2.0])], "t")
    assert re.findall(r'class="c0" d="([^"]+)"', text)[0].count("M") == 2


def test_each_class_of_nn_has_a_page_in_one_family(extensions):
    pages = extensions[1]
    found = [n for names in pages.families().values() for n in names]
    assert sorted(found) == sorted(
        n for n in cograd.nn.__all__ if inspect.isclass(getattr(cograd.nn, n))
    )
    text = pages.index()
    for name in found:
        assert f"[`{name}`](nn/{name}.md)" in text
        assert pages.summary(name).endswith(".")
        assert f"autoclass:: cograd.nn.{name}\n" in pages.page(name)


# What users type -> the page that must be first. Search weighs words of a title three times.
SEARCHES = {
    "ODE": "fit_ode",
    "PINN": "pinn",
    "slow": "why_slow",
    "save model": "save_and_resume",
    "resume": "save_and_resume",
    "publish": "cpp_op",
    "script": "torch_script",
    "implicit": "implicit_gradients",
    "per-sample": "per_sample_gradients",
}


@pytest.mark.parametrize("words", SEARCHES)
def test_only_one_title_has_what_users_search(words):
    titles = {}
    for page in [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"), *DOCS.glob("api/*.md")]:
        title = re.search(r"^# (.*)$", page.read_text(), re.M)
        titles[page.stem] = re.findall(r"[\w-]+", title[1].lower()) if title else []
    wanted = words.lower().split()
    assert [n for n, title in titles.items() if all(w in title for w in wanted)] == [
        SEARCHES[words]
    ]


def test_every_example_is_in_the_gallery():
    text = (DOCS / "gallery.md").read_text()
    helpers = {"characters.py"}
    missing = [
        p.name
        for p in [
            *(ROOT / "examples").glob("*.py"),
            *(ROOT / "examples" / "for_torch").glob("*.py"),
        ]
        if "extensions" not in p.parts
        and p.name not in helpers
        and f"(../{p.relative_to(ROOT)})" not in text
    ]
    assert missing == []


def test_search_ranks_tutorials():
    """Titles decide; the scorer breaks ties with pages that have the words in headings."""
    assert '"scorer.js"' in (DOCS / "conf.py").read_text()
    assert 'startsWith("tutorials/")' in (DOCS / "_ext" / "scorer.js").read_text()


def test_every_tutorial_has_a_picture_a_source_and_a_card():
    cards = (DOCS / "index.md").read_text()
    for page in (DOCS / "tutorials").glob("*.md"):
        if page.name == "index.md":
            continue
        text = page.read_text()
        picture = re.search(r"!\[[^\]]+\]\(\.\./_static/([\w.]+)\)", text)
        assert picture and (DOCS / "_static" / picture[1]).stat().st_size < 100_000, page
        assert re.search(r"^Source: \[examples/", text, re.M), page
        assert f"(tutorials/{page.name})" in cards
        assert f"_static/{picture[1]}" in cards
