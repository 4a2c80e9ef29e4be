# SPDX-License-Identifier: BSD-3-Clause
"""Fixtures, markers and small helpers that the whole test suite shares."""

import ctypes
import gc
import importlib.util
import os
import tempfile

import numpy as np
import pytest

import cograd as torch

pytest.register_assert_rewrite("op_table", "op_checks", "op_samples")
import on_device  # noqa: E402
import op_items  # noqa: E402

MARKERS = (
    "slow: takes more than a few seconds; leave out with -m 'not slow'",
    "beyond_torch: cograd differs from torch 2.13 here on purpose",
    "needs_torch: compares with an installed torch; skipped where there is none",
    "keeps_nodes: leaves graph nodes behind on purpose, or makes and frees them on other threads",
)


def pytest_addoption(parser):
    parser.addoption(
        "--sample",
        metavar="OP[:INDEX[:DTYPE]]",
        help="run only this sample of the op table, in the tests that are made from it",
    )
    parser.addoption(
        "--device", help="run on this device, fake or cuda:0, what left_out.toml does not list"
    )
    parser.addoption(
        "--every", type=int, default=1, metavar="N", help="with --device: run every N-th test"
    )


def compile_through_ccache():
    """Puts ccache's links to compilers first on the PATH: most compilations are repeats."""
    links = [
        f"/usr/{lib}/ccache" for lib in ("lib", "lib64") if os.path.isdir(f"/usr/{lib}/ccache")
    ]
    path = os.environ.get("PATH", "").split(os.pathsep)
    if links and links[0] not in path:
        os.environ["PATH"] = os.pathsep.join([links[0], *path])
    # Each run of tests has temporary folders of other names, so paths in them become relative.
    os.environ["CCACHE_BASEDIR"] = os.path.realpath(tempfile.gettempdir())
    os.environ["CCACHE_NOHASHDIR"] = os.environ["CCACHE_ABSSTDERR"] = "true"
    os.environ["CCACHE_SLOPPINESS"] = "pch_defines,time_macros"


def pytest_configure(config):
    compile_through_ccache()
    if config.getoption("--device"):
        on_device.start(config.getoption("--device"))
    op_items.select(config.getoption("sample"))
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def leave_nightly_out(config, items):
    """Deselects tests marked nightly, unless -m, --sample or the name of a test asks for them."""
    asked = "nightly" in config.option.markexpr or config.getoption("sample")
    if not asked and not any("::" in str(arg) for arg in config.args):
        left = {i: None for i in items if i.get_closest_marker("nightly")}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [i for i in items if i not in left]


def pytest_collection_modifyitems(config, items):
    leave_nightly_out(config, items)
    if config.getoption("--device"):
        on_device.deselect(config, items)
    if config.getoption("sample"):
        config.hook.pytest_deselected(items=[i for i in items if not op_items.is_selected(i)])
        items[:] = [i for i in items if op_items.is_selected(i)]
    if importlib.util.find_spec("torch") is not None:
        return
    skip = pytest.mark.skip(reason="torch is not installed")
    for item in items:
        if item.get_closest_marker("needs_torch"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collects without the garbage collector: of tens of thousands of new items none is dropped."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def light_collections():
    """Excludes pytest's objects from garbage collections; with 50,000 items one takes 0.5 s."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Records which tests failed, for the leak check: their tracebacks keep objects alive."""
    report = yield
    if call.when == "call":
        item.call_passed = report.passed
    return report


@pytest.fixture(autouse=True)
def clean_state(request):
    """Seeds before each test; fails a test that leaves a mode changed or graph nodes behind.

    Contexts of Functions are nodes, too. It is one fixture, because each takes 0.2 ms.
    """
    torch.manual_seed(1234)
    assert torch.is_grad_enabled()
    dtype, before = torch.get_default_dtype(), torch._C._live_nodes()
    yield
    grad_mode, left_dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    torch.set_grad_enabled(True)
    torch.set_default_dtype(dtype)
    assert grad_mode, "the test left grad mode switched off"
    assert left_dtype == dtype, "the test left another default dtype"
    if getattr(request.node, "call_passed", False):
        no_nodes_are_left(request.node, before)


def no_nodes_are_left(item, before):
    if torch._C._live_nodes() <= before or item.get_closest_marker("keeps_nodes") is not None:
        return
    gc.collect()  # cycles are allowed, as long as the collector finds them
    left = torch._C._live_nodes() - before
    assert left <= 0, f"{left} graph nodes that the test made are still alive"


def leaf(values, dtype=None):
    """Returns a float64 leaf that requires grad, from nested lists, a number or a NumPy array."""
    return torch.tensor(np.asarray(values).tolist(), dtype=dtype or torch.float64).requires_grad_()


def ones(*shape):
    """Returns a float64 tensor of ones that does not require grad."""
    return torch.ones(shape, dtype=torch.float64)


def arr(tensor):
    """Returns a tensor's values as a NumPy copy, whatever its history."""
    return np.array(tensor.detach().tolist())


def same(tensor, expected, tol=1e-12):
    """Returns whether shape and values agree within a relative and absolute tolerance."""
    expected = np.asarray(expected, dtype=np.float64)
    got = arr(tensor)
    return tuple(tensor.shape) == expected.shape and np.allclose(got, expected, rtol=tol, atol=tol)


def live_tensors():
    """Returns the tensor objects that Python can see after a full collection."""
    gc.collect()
    return sum(issubclass(type(obj), torch.Tensor) for obj in gc.get_objects())


def resident_mb():
    """Returns the resident memory of this process in MiB, after a full collection and heap trim."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
