# SPDX-License-Identifier: BSD-3-Clause
"""Captures on several threads and streams, one of which is not captured, and what they may copy."""

import fakes
import pytest

why = None if fakes.REAL else fakes.why_not()
pytestmark = pytest.mark.skipif(why is not None, reason=str(why))

THREADS = (
    fakes.GRAPHS
    + """
import gc, threading
def on_thread(f):
    failed = []
    def run():
        try:
            f()
        except BaseException as e:
            failed.append(e)
    t = threading.Thread(target=run)
    t.start()
    t.join()
    if failed:
        raise failed[0]
x = torch.arange(4.).cuda()
s = cuda.Stream()
"""
)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_another_thread_ends_a_relaxed_capture_only(mode):
    fakes.run(
        THREADS
        + f"""
g = cuda.CUDAGraph()
def end():
    raises(RuntimeError, "the current stream is not the one", g.capture_end) if relaxed else None
    with cuda.stream(s):
        g.capture_end()
relaxed = {mode!r} == "relaxed"
with cuda.stream(s):
    g.capture_begin(capture_error_mode={mode!r})
    y = x + 1
    if relaxed:
        on_thread(end)
    else:
        raises(RuntimeError, "another thread has called capture_begin()", on_thread, end)
        raises(RuntimeError, "has not been captured yet", on_thread, g.replay)
        assert cuda.is_current_stream_capturing()
        y += 1  # the capture goes on
        g.capture_end()
    assert not cuda.is_current_stream_capturing()
raises(RuntimeError, "no capture has begun", g.capture_end)
for k in range(2):
    x.fill_(k)
    g.replay()
    assert y.tolist() == [k + 1. + (not relaxed)] * 4
"""
    )


@pytest.mark.parametrize("drop", ["g.reset()", "g._abort()", "del held[0]; gc.collect()"])
@pytest.mark.parametrize("use", ["x + 1", "x.tolist()", "s.synchronize()", "cuda.empty_cache()"])
def test_a_capture_that_another_thread_drops_is_ended_by_its_own(drop, use):
    """The driver lets no other thread end it, so work must not go on into a lost graph."""
    fakes.run(
        THREADS
        + f"""
held = [cuda.CUDAGraph()]
reserved = cuda.memory_reserved()
def dropped():
    g = held[0] if "held" not in {drop!r} else None
    {drop}
with cuda.stream(s):
    held[0].capture_begin()
    y = x + 1
    p = torch.zeros(4).pin_memory()
    y.copy_(p, non_blocking=True)
    del y
    on_thread(dropped)
    {use}
    z = x + 2
    assert not cuda.is_current_stream_capturing()
    assert z.tolist() == [2., 3., 4., 5.]
    if held:
        raises(RuntimeError, "no capture has begun", held[0].capture_end)
        raises(RuntimeError, "has not been captured", held[0].replay)
        held[0].capture_begin()
        w = x * 2
        held[0].capture_end()
        held[0].replay()
        assert w.tolist() == [0., 2., 4., 6.]
        held.clear()
    x.add_(1)
if os.path.exists(os.environ.get("COGRAD_CUDA_DRIVER", "")):
    assert fake.fake_cuda_graphs() == 0
""",
    )
