# SPDX-License-Identifier: BSD-3-Clause
"""profile(profile_memory=True) and the page that a profile writes."""

import json
import re
import threading
import time

import pytest
from browser import browser, in_browser

import cograd as torch
from cograd.autograd import profiler


def work():
    x = torch.randn(64, 64, requires_grad=True)
    with profiler.record_function("forward"):
        big = (x * 2).repeat(20, 1)  # the line of the peak
        y = big.sum()
        del big
    y.backward()
    return x


def profiled(**options):
    with profiler.profile(**options) as prof:
        x = work()
    assert x.grad is not None
    return prof


def test_memory_after_each_event_and_the_line_of_the_peak():
    prof = profiled(profile_memory=True)
    events = prof.function_events
    assert all(e.memory >= 0 for e in events)
    most = max(events, key=lambda e: e.memory)
    assert most.name == "repeat"
    assert "test_profile_page.py" in most.place
    assert "in work" in most.place
    assert most.memory >= 20 * 64 * 64 * 4
    first, last = events[0].memory, events[-1].memory
    assert last - first < 10 * 64 * 64 * 4


def test_places_of_every_op_and_none_without_being_asked():
    events = profiled(with_stack=True).function_events
    assert all("in work" in e.place for e in events if e.kind == "op")
    assert all(e.memory == -1 for e in events)
    events = profiled().function_events
    assert {(e.memory, e.place) for e in events} == {(-1, "")}


def test_memory_of_a_second_profile_has_a_peak_of_its_own():
    profiled(profile_memory=True)
    events = profiled(profile_memory=True).function_events
    assert "in work" in max(events, key=lambda e: e.memory).place


def test_an_empty_profile_has_a_page(tmp_path):
    with profiler.profile() as prof:
        pass
    prof.export_html(tmp_path / "p.html")
    assert (tmp_path / "p.html").read_text().startswith("<!doctype html>")


@browser
def test_page_in_a_browser(tmp_path):
    prof = profiled(profile_memory=True, with_stack=True)
    path = tmp_path / "profile.html"
    prof.export_html(path)
    said = in_browser(
        path,
        tmp_path,
        """
        view.paint();
        say(view.p.N); say(document.body.dataset.peak);
        const whole = Number(document.body.dataset.span);
        const i = view.p.name.indexOf(view.p.names.indexOf('repeat'));
        view.t0 = view.p.start[i]; view.t1 = view.p.end[i]; view.paint();
        say(Number(document.body.dataset.span) < whole);
        const top = document.getElementById('time').getBoundingClientRect().top;
        const row = view.p.laneTop[view.p.thread[i]] + view.p.depth[i];
        click(innerWidth / 2, top + 22 + 19 * row + 9, 'time');
        say(document.getElementById('about').textContent);
        type('repeat'); say(Number(document.body.dataset.found));
        say(document.querySelector('tr.hit td').textContent);
        """,
    )
    count, peak, closer, about, found, row = said
    assert count == len(prof.function_events)
    assert "after repeat at" in peak
    assert "in work" in peak
    assert closer
    assert about.startswith("repeat ")
    assert "held after it" in about
    assert found >= 1
    assert row.lower().startswith("repeat")


def slow_step():
    """An op, sleep, an op, a loop of Python, an op."""
    x = torch.ones(300, 300)
    with profiler.profile(with_stack=True) as prof:
        x.exp()
        time.sleep(0.05)
        x.log()
        total = 0
        begin = time.thread_time()
        while time.thread_time() - begin < 0.03:
            total += 1
        x.sin()
    return prof


def test_gaps_are_labelled_by_what_the_thread_did():
    prof = slow_step()
    gaps = [g for g in prof.function_events.gaps() if g.after is not None and g.duration > 5000]
    by_name = {(g.after.name, g.before.name): g for g in gaps}
    slept, worked = by_name["exp", "log"], by_name["log", "sin"]
    assert slept.kind == "waiting"
    assert 45_000 < slept.waited <= slept.duration
    # Other programs may take the core away, but the loop has run for this long.
    assert worked.duration - worked.waited == pytest.approx(30_000, rel=0.2)
    summary = prof.summary()
    assert summary.waiting >= slept.waited
    assert summary.interpreter > 25_000
    last = max(e.end for e in prof.function_events)
    assert summary.total == pytest.approx(last)
    assert re.fullmatch(
        r"[\d.]+ ms: kernel [\d.]+ ms \(\d+ %\), interpreter .*, waiting [\d.]+ ms .*", str(summary)
    )


def test_the_backward_of_a_function_in_python_is_not_a_kernel():
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            time.sleep(0.02)
            return g * 2

    x = torch.ones(3, requires_grad=True)
    with profiler.profile() as prof:
        Slow.apply(x).sum().backward()
    assert prof.summary().waiting > 15_000
    assert prof.summary().kernel < 10_000


def test_gaps_of_a_second_thread_are_not_those_of_the_first():
    def other():
        torch.ones(2).exp()
        time.sleep(0.03)
        torch.ones(2).exp()

    with profiler.profile() as prof:
        thread = threading.Thread(target=other)
        x = torch.ones(2000)
        thread.start()
        for _ in range(400):
            x = x.cos()
        thread.join()
    events = prof.function_events
    assert len({e.thread for e in events}) == 2
    assert {g.before.thread for g in events.gaps()} == {events.gaps()[0].before.thread}
    assert all(g.after is None or g.after.name != "exp" for g in events.gaps())


def test_gaps_are_a_track_of_the_trace(tmp_path):
    prof = slow_step()
    prof.export_chrome_trace(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    gaps = [e for e in events if e.get("cat") == "gap"]
    long = [g for g in prof.function_events.gaps() if g.duration >= 10]
    assert [(e["name"], e["ts"]) for e in gaps] == [(g.kind, g.start) for g in long]
    assert "waiting" in {e["name"] for e in gaps}
    (name,) = [e for e in events if e["ph"] == "M"]
    assert name["args"]["name"] == "between ops"
    assert {e["tid"] for e in gaps} == {name["tid"]}
    assert name["tid"] not in {e["tid"] for e in events if e["ph"] == "X" and e not in gaps}


def test_summary_of_an_empty_profile_and_of_several_cycles():
    with profiler.profile() as prof:
        pass
    assert prof.summary().total == 0
    from cograd.profiler import profile, schedule

    steps = schedule(wait=0, warmup=0, active=1, repeat=2)
    with profile(schedule=steps, acc_events=True) as cycles:
        for _ in range(2):
            torch.ones(3).exp()
            cycles.step()
    assert len([e for e in cycles.events() if e.name == "exp"]) == 2
    assert 0 < cycles.summary().total < 1e6
    assert {g.before.name for g in cycles.events().gaps()} <= {"ones", "exp"}


@browser
def test_summary_and_gaps_in_a_browser(tmp_path):
    prof = slow_step()
    prof.export_html(tmp_path / "profile.html")
    gaps = prof.function_events.gaps()
    number = next(i for i, g in enumerate(gaps) if g.after and g.after.name == "exp")
    said = in_browser(
        tmp_path / "profile.html",
        tmp_path,
        f"const number = {number};"
        """
        view.paint();
        say(document.body.dataset.most); say(document.getElementById('summary').textContent);
        const slept = view.p.gaps[number];
        const top = document.getElementById('time').getBoundingClientRect().top;
        click(view.x((slept.start + slept.end) / 2), top + 22 + 19 * view.p.strip + 5, 'time');
        say(document.getElementById('about').textContent);
        say(document.getElementById('memory').offsetHeight);
        """,
    )
    most, summary, about, height = said
    assert most == "waiting"
    assert "Most of the time the thread waits" in summary
    assert "kernel" in summary and "interpreter" in summary
    assert about.startswith("waiting ")
    assert "after exp" in about and "before log at" in about
    assert height == 0


def test_a_thread_that_an_earlier_profile_measured_begins_anew():
    """The time between two profiles does not count as waiting of the second."""
    go, done = threading.Semaphore(0), threading.Semaphore(0)

    def other():
        for _ in range(2):
            go.acquire()
            x = torch.ones(300, 300)
            begin = time.thread_time()
            while time.thread_time() - begin < 0.02:
                pass
            for _ in range(20):
                x = x.exp()
            done.release()

    thread = threading.Thread(target=other)
    thread.start()
    for _ in range(2):
        with profiler.profile() as prof:
            go.release()
            done.acquire()
        time.sleep(0.1)
    thread.join()
    waits = prof.function_events._waits
    assert all(begin > -50_000 for _, begin, _, _ in waits)
    assert prof.summary().total > 0
