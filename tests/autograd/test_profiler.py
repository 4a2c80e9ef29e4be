# SPDX-License-Identifier: BSD-3-Clause
"""The profiler, and pictures of graphs."""

import inspect
import json
import shutil
import threading

import pytest
from conftest import leaf

import cograd as torch
from cograd.autograd import Function, profiler
from cograd.autograd.graph import draw, to_dot, to_mermaid


class Triple(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 3


def profiled():
    x = torch.ones(1000, requires_grad=True)
    with profiler.profile() as prof:
        with profiler.record_function("forward part"):
            y = (x * 2).exp() + x
            y.add_(1)
        loss = Triple.apply(y).sum()
        loss.backward()
    return prof, loss


def test_events_asked_for_by_two_threads():
    """Another thread reads the events after this one has checked whether there are new ones and
    before it reads them.
    """
    found = []

    class Raced(profiler.profile):
        @property
        def _raw(self):
            raw = vars(self).get("raw")
            if raw is not None and not found:
                found.append(None)
                thread = threading.Thread(target=lambda: found.append(self.function_events))
                thread.start()
                thread.join()
            return raw

        @_raw.setter
        def _raw(self, value):
            vars(self)["raw"] = value

    with Raced() as prof:
        torch.ones(2).exp()
    events = prof.function_events
    assert events is found[1] is prof.function_events
    assert [e.name for e in events] == ["ones", "exp"]


def test_events_of_ops_nodes_and_blocks():
    prof, _ = profiled()
    by_kind = {}
    for e in prof.function_events:
        by_kind.setdefault(e.kind, []).append(e.name)
        assert e.end >= e.start >= 0
        assert 0 <= e.self_cpu_time_total <= e.cpu_time_total + 1e-9
    assert by_kind["user"] == ["forward part"]
    assert {"mul", "exp", "add", "sum"} <= set(by_kind["op"])
    nodes = by_kind["node"]
    assert nodes.index("SumBackward0") < nodes.index("TripleBackward")
    assert nodes.index("TripleBackward") < nodes.index("ExpBackward0")
    assert "AccumulateGrad" in nodes


def test_nested_time_is_not_counted_twice():
    prof, _ = profiled()
    block = next(e for e in prof.function_events if e.kind == "user")
    inside = [
        e
        for e in prof.function_events
        if e.kind == "op" and e.start >= block.start and e.end <= block.end
    ]
    assert len(inside) == 4
    expected = block.cpu_time_total - sum(e.cpu_time_total for e in inside)
    assert abs(block.self_cpu_time_total - expected) < 1e-6
    node = next(e for e in prof.function_events if e.name == "TripleBackward")
    assert node.self_cpu_time_total < node.cpu_time_total  # because of the mul in its backward


def test_averages_and_table():
    prof, _ = profiled()
    averages = prof.key_averages()
    mul = [a for a in averages if a.key == "mul"]
    assert len(mul) == 1 and mul[0].count == 3
    assert abs(mul[0].cpu_time * 3 - mul[0].cpu_time_total) < 1e-9
    text = averages.table(sort_by="cpu_time_total", row_limit=3)
    lines = text.splitlines()
    assert lines[1].split("  ")[0].strip() == "Name" and "# of Calls" in lines[1]
    assert len(lines) == 3 + 3 + 2
    columns = [" ".join(c.split()) for c in lines[1].split("  ") if c.strip()]
    assert columns[1:5] == ["Self CPU %", "Self CPU", "CPU total %", "CPU total"]
    totals = [a.cpu_time_total for a in averages]
    top = max(averages, key=lambda a: a.cpu_time_total)
    assert lines[3].startswith(top.key)
    whole = sum(a.self_cpu_time_total for a in averages)
    assert lines[3].split()[-4] == f"{100 * top.cpu_time_total / whole:.2f}%"
    assert prof.total_average().cpu_time_total == pytest.approx(sum(totals))
    assert "Self CPU time total" in str(prof)
    with pytest.raises(ValueError, match="sort_by"):
        prof.table(sort_by="colour")


def test_chrome_trace(tmp_path):
    prof, _ = profiled()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    events = [e for e in events if e.get("cat") != "gap" and e["ph"] != "M"]
    assert len(events) == len(prof.function_events)
    assert all({"name", "ph", "ts", "dur", "pid", "tid"} <= set(e) for e in events)
    node = next(e for e in events if e["name"] == "ExpBackward0")
    assert node["cat"] == "backward" and node["args"]["Sequence number"] >= 0


def test_rules_of_use():
    prof = profiler.profile()
    with pytest.raises(RuntimeError, match="didn't finish"):
        prof.function_events
    with prof:
        with pytest.raises(RuntimeError, match="already enabled"):
            with profiler.profile():
                pass
    with pytest.raises(RuntimeError, match="not reentrant"):
        prof.__enter__()
    with profiler.profile(enabled=False) as off:
        torch.ones(1) + 1
    with pytest.raises(RuntimeError, match="didn't finish"):
        off.table()
    with profiler.profile() as again:
        pass
    assert list(again.function_events) == []


def test_record_function_as_decorator_and_outside():
    @profiler.record_function("step")
    def step():
        return torch.ones(3) * 2

    step()
    with profiler.profile() as prof:
        step()
    assert [e.name for e in prof.function_events if e.kind == "user"] == ["step"]
    assert "step" not in [e.name for e in profiled()[0].function_events]


# --- pictures ----------------------------------------------------------------------------------


def test_dot_shows_shapes_dtypes_saved_bytes_and_names():
    x = torch.ones(3, 4, requires_grad=True)
    w = torch.ones(4, dtype=torch.float32, requires_grad=True)
    y = (x * w).exp()
    text = to_dot(y, params={"weight": w})
    assert text.startswith("digraph") and text.rstrip().endswith("}")
    assert "ExpBackward0\\n[3, 4] float32\\nsaves 48 B" in text
    assert "MulBackward0\\n[3, 4] float32\\nsaves 64 B" in text
    assert '"weight\\n[4] float32"' in text and "AccumulateGrad\\n[3, 4]" in text
    assert text.count(" -> ") == 3
    assert " us" not in text


def test_dot_shows_times_after_profile():
    x = leaf([1.0])
    y = Triple.apply(x.exp())
    with profiler.profile():
        y.sum().backward(retain_graph=True)
    text = to_dot(y)
    assert text.count(" us") == 3
    assert "TripleBackward\\n[1] float64\\nsaves 8 B" in text


def test_several_roots_and_several_outputs():
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    a, b = x.unbind(0)
    text = to_mermaid([a.exp(), b * 2])
    assert text.startswith("flowchart TD")
    assert text.count("UnbindBackward0") == 1 and "-->|1|" in text


def test_draw_writes_files(tmp_path):
    y = leaf([1.0]).exp()
    assert draw(y, tmp_path / "g.dot") == str(tmp_path / "g.dot")
    assert (tmp_path / "g.dot").read_text() == to_dot(y)
    draw(y, tmp_path / "g.md")
    assert (tmp_path / "g.md").read_text().startswith("```mermaid")
    if shutil.which("dot"):
        assert draw(y, tmp_path / "g.svg").endswith(".svg")


@pytest.mark.parametrize(
    "name, reason", [("g.png", "needs Graphviz' program dot"), ("g.txt", ".txt is no picture")]
)
def test_draw_says_what_it_wrote_instead(tmp_path, monkeypatch, name, reason):
    y = leaf([1.0]).exp()
    monkeypatch.setenv("PATH", str(tmp_path))  # without Graphviz
    with pytest.warns(UserWarning, match=reason) as caught:
        written = draw(y, tmp_path / name)
    assert written == str(tmp_path / "g.mmd") and written in str(caught[0].message)
    assert caught[0].filename == __file__ and (tmp_path / "g.mmd").read_text() == to_mermaid(y)


def test_draw_needs_a_history():
    with pytest.raises(RuntimeError, match="without history"):
        to_dot(torch.ones(2))


def test_draw_says_what_it_takes():
    for value, text in ((3, "got int 3"), (None, "got NoneType None")):
        with pytest.raises(TypeError, match="expected tensors with a grad_fn, or nodes, .*" + text):
            draw(value)


def test_signatures_of_apply_and_of_tensors():
    assert str(inspect.signature(Triple.apply)) == "(*args, **kwargs)"
    assert str(inspect.signature(Function.apply)) == "(*args, **kwargs)"
    assert str(inspect.signature(torch.Tensor)) == "(*data, device=None)"
    assert torch.Tensor.__doc__.startswith("A strided")
    assert Triple.apply.__doc__.startswith("Runs and records")
