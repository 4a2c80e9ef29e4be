# SPDX-License-Identifier: BSD-3-Clause
"""profile(profile_memory=True) and the page that a profile writes."""

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
