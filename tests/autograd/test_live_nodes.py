# SPDX-License-Identifier: BSD-3-Clause
"""The number of live graph nodes, which leak tests compare, is that of all threads."""

import threading

from children import outcome

import cograd as torch

live = torch._C._live_nodes


def chain(n):
    """Returns a tensor whose history has n nodes."""
    x = torch.ones(1, requires_grad=True)
    for _ in range(n):
        x = x * 2
    return x


def on_thread(work):
    """Returns the result of ``work``, run on a new thread that has ended."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found.pop()


def test_nodes_that_another_thread_frees():
    before = live()
    made = [chain(20)]
    assert live() == before + 21  # with the leaf's own
    on_thread(made.clear)
    assert live() == before


def test_nodes_of_a_thread_that_has_ended():
    before = live()
    made = on_thread(lambda: chain(20))
    assert live() == before + 21
    del made
    assert live() == before


def test_nodes_of_a_thread_that_runs():
    ready, done, counts = threading.Event(), threading.Event(), []
    before = live()

    def work():
        made = chain(20)
        ready.set()
        done.wait(10)
        del made
        counts.append(live())

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(10)
    during = live()
    done.set()
    thread.join()
    assert during == before + 21 and counts == [before]


def test_count_of_a_forked_child():
    """The threads that the fork left behind still count: their nodes are in the child, too."""
    ready, done = threading.Event(), threading.Event()
    before = live()

    def work():
        made = [chain(20)]
        ready.set()
        done.wait(20)
        made.clear()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(10)

    def child():
        made = on_thread(lambda: chain(5))  # may get the memory of the thread that is gone
        counts = live() - before
        del made
        return counts, live() - before

    try:
        assert outcome(child) == "ok (27, 21)"
    finally:
        done.set()
        thread.join()
    assert live() == before
