# SPDX-License-Identifier: BSD-3-Clause
"""Checks what notebooks show: graphs, profiles, saved memory and reports of checks."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest

import cograd as torch
from cograd._base import notebook
from cograd.autograd import graph, profiler
from cograd.testing import check

HOSTILE = '</script><img src=x onerror="alert(1)">&amp;'


class Tags(HTMLParser):
    """Collects the elements of a text, and those that are not closed."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.open, self.attributes, self.data = [], [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.open.append(tag)
        self.attributes.update(attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.data.append(data)


def tags(text):
    parsed = Tags(text)
    assert parsed.open == []
    return parsed


def page_of(frame):
    parsed = tags(frame)
    assert parsed.seen == ["iframe"]
    assert parsed.attributes["sandbox"] == "allow-scripts"
    return parsed.attributes["srcdoc"]


def test_tables_escape_everything():
    text = notebook.table(HOSTILE, [HOSTILE], [[HOSTILE], [3]])
    parsed = tags(text)
    assert set(parsed.seen) == {"table", "caption", "tr", "th", "td"}
    assert parsed.data.count(HOSTILE) == 3 and "3" in parsed.data


def test_frames_keep_the_page():
    page = f'<!doctype html><script>var x = "{HOSTILE}";</script>'
    assert page_of(notebook.frame(page)) == page


def test_graphs(tmp_path):
    w = torch.ones(2, 2, requires_grad=True)
    y = (w @ w).tanh().sum()
    drawing = graph.draw(y, params={HOSTILE: w})
    page = page_of(drawing._repr_html_())
    assert page == drawing.html and "TanhBackward0" in page and HOSTILE not in page
    assert "<img" not in page
    path = tmp_path / "graph.html"
    assert graph.draw(y, path, params={HOSTILE: w}) == str(path)
    assert page == path.read_text(encoding="utf-8")
    assert "draw(value" in repr(drawing) and len(repr(drawing)) < 100
    with pytest.raises(RuntimeError, match="without history"):
        graph.draw(torch.ones(2))


def test_saved_memory():
    w = torch.ones(30, 30, requires_grad=True)
    y = (w @ w).exp()
    memory = graph.saved_memory()
    parsed = tags(memory._repr_html_())
    assert str(memory).splitlines()[0] in parsed.data[0] + parsed.data[1]
    assert "30x30" in parsed.data and any("ExpBackward0.result" in d for d in parsed.data)
    assert tags(graph.SavedMemory()._repr_html_()).seen.count("tr") == 1
    many = graph.SavedMemory([memory[0]] * 500)
    assert tags(many._repr_html_()).seen.count("tr") == 201
    assert "the largest 200" in many._repr_html_()
    del y


def test_profiles():
    with profiler.profile() as prof:
        assert prof._repr_html_() is None
        with profiler.record_function(HOSTILE):
            torch.ones(2).exp()
    page = page_of(prof._repr_html_())
    assert "exp" in page and "<img" not in page
    averages = tags(prof.key_averages()._repr_html_())
    assert averages.seen == ["pre"] and "exp" in "".join(averages.data)
    assert tags(profiler.EventList()._repr_html_()).seen == ["pre"]
    new = torch.profiler.profile()
    assert new._repr_html_() is None
    with new:
        torch.ones(2).exp()
    assert "exp" in page_of(new._repr_html_())


def test_reports():
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    report = check(torch.exp, (x,), only=["gradcheck"])
    parsed = tags(report._repr_html_())
    assert "gradcheck" in parsed.data and "pass" in parsed.data
    assert str(report).splitlines()[0] in parsed.data
    report.name = HOSTILE
    assert HOSTILE not in report._repr_html_() and HOSTILE in unescape(report._repr_html_())


CELLS = [
    "import cograd as torch\nfrom cograd.autograd import graph, profiler\n"
    "w = torch.ones(2, 2, requires_grad=True); y = (w @ w).sum()\ngraph.draw(y)",
    "with profiler.profile() as p:\n    y.backward()\np",
    "z = w.exp()\ngraph.saved_memory()",
    "from cograd.testing import check\n"
    "check(torch.exp, (torch.ones(2, dtype=torch.float64, requires_grad=True),))",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_executed_notebook():
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    nbclient.NotebookClient(book, timeout=120).execute()
    shown = []
    for cell in book.cells:
        (output,) = [o for o in cell.outputs if o.output_type == "execute_result"]
        shown.append(output.data["text/html"])
    assert "SumBackward0" in page_of(shown[0]) and "MmBackward0" in page_of(shown[1])
    assert "ExpBackward0" in shown[2] and re.search("gradcheck.*pass", shown[3])
