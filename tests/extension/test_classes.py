# SPDX-License-Identifier: BSD-3-Clause
"""C++ classes for Python (cograd/class.h): members, lifetimes, errors, state, gradients."""

import copy
import gc
import inspect
import pickle
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import cograd as torch
from cograd.utils import cpp_extension

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
SOURCE = Path(__file__).parents[1] / "extensions" / "classes.cpp"


@pytest.fixture(scope="module")
def path():
    return cpp_extension.load("t_classes", SOURCE, is_python_module=False)


@pytest.fixture(scope="module")
def classes(path):
    return torch.classes.t_classes


def alive():
    gc.collect()
    return torch.ops.t_classes.alive()


def test_members(classes):
    s = classes.Stack([torch.ones(2)], label="first")
    assert len(s) == s.size == 1
    s.push(torch.zeros(2), times=2)
    assert len(s) == 3
    assert s.pop().tolist() == [0.0, 0.0]
    assert s.total(scale=2.0).tolist() == [2.0, 2.0]
    assert s.label == "first"
    s.label = "second"
    assert s.label == "second"
    with pytest.raises(AttributeError):
        s.size = 4
    assert len(classes.Stack()) == 0
    p = classes.Plain()
    assert [p(2), p(3)] == [2, 5]
    assert isinstance(p, torch.classes.Object)


def test_docs_and_signatures(classes):
    assert classes.Stack.__doc__ == "Tensors, the last one first."
    assert "Puts x on top." in classes.Stack.push.__doc__
    expected = "(items: collections.abc.Sequence[cograd.Tensor] = [], label: str = '')"
    assert str(inspect.signature(classes.Stack)) == expected
    assert list(inspect.signature(classes.Stack().push).parameters) == ["x", "times"]
    assert {"Plain", "Stack"} <= set(dir(classes))
    assert "t_classes" in dir(torch.classes)


def test_objects_as_arguments_and_results(classes):
    a = classes.Stack([torch.ones(1)])
    b = classes.Stack.of(torch.zeros(1), 3)
    assert type(b) is classes.Stack
    a.merge(b)
    assert len(a) == 4
    assert a.me() is a
    assert a.linked() is None
    a.link(b)
    assert a.linked() is b
    assert torch.ops.t_classes.depth(a) == 4
    a.link(None)
    assert a.linked() is None


def test_lifetimes(classes):
    before = alive()
    a = classes.Stack()
    b = classes.Stack()
    a.link(b)
    del b
    assert alive() == before + 2  # a still holds it
    assert len(a.linked()) == 0
    a.link()
    assert alive() == before + 1
    held = a.me()
    del a
    assert alive() == before + 1
    held.__init__()  # creates another object in its place
    assert alive() == before + 1
    del held
    assert alive() == before


def test_errors(classes):
    s = classes.Stack()
    with pytest.raises(IndexError, match="empty Stack"):
        s.pop()
    with pytest.raises(ValueError, match="times is negative: -1"):
        s.push(torch.ones(1), -1)
    with pytest.raises(TypeError, match="missing required argument 'x'"):
        s.push()
    with pytest.raises(IndexError, match="far out"):
        classes.Plain().fail()
    for wrong in (classes.Plain(), 1, -1, 2**62):
        with pytest.raises(TypeError, match="expected an object of t_classes::Stack"):
            s.merge(wrong)
    before = alive()
    with pytest.raises(TypeError):
        classes.Stack("text")
    assert alive() == before
    empty = classes.Stack.__new__(classes.Stack)
    with pytest.raises(TypeError, match="does not take Stack"):
        len(empty)
    with pytest.raises(AttributeError, match=r"no such class; registered: .*t_classes\.Stack"):
        _ = torch.classes.t_classes.Nothing


def test_state(classes):
    s = classes.Stack([torch.arange(3.0)], "kept")
    for again in (pickle.loads(pickle.dumps(s)), copy.copy(s), copy.deepcopy(s)):
        assert again is not s
        assert type(again) is classes.Stack
        assert again.label == "kept"
        assert again.pop().tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(TypeError, match="t_classes::Plain: the class has no def_pickle"):
        pickle.dumps(classes.Plain())


def test_gradients_flow_through_methods(classes):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    s = classes.Stack([x, x * x])
    s.total(scale=3.0).sum().backward()
    assert x.grad.tolist() == [9.0, 15.0]


def test_subclasses(classes):
    class Named(classes.Stack):
        def __init__(self, name):
            super().__init__([torch.ones(1)])
            self.name = name

    n = Named("n")
    assert len(n) == 1
    assert n.name == "n"
    assert n.me() is n
    assert type(copy.copy(n)) is Named
    assert copy.copy(n).name == "n"


def test_slots_of_subclasses_are_kept(classes):
    class Slotted(classes.Stack):
        __slots__ = ("count", "unset")

    s = Slotted([torch.ones(1)])
    s.count = 3
    for again in (copy.copy(s), copy.deepcopy(s)):
        assert type(again) is Slotted and len(again) == 1
        assert again.count == 3 and not hasattr(again, "unset")
    s.name = "n"
    assert (copy.copy(s).name, copy.copy(s).count) == ("n", 3)


def test_operands_of_other_types(classes):
    class Other:
        def __eq__(self, other):
            return "asked"

        def __radd__(self, other):
            return "asked"

    p, q = classes.Plain(), classes.Plain()
    assert p == q and p + 2 == 2
    q(1)
    assert p != q
    assert (p == 3) is False and (p != "x") is True
    assert (p == Other()) == "asked" and p + Other() == "asked"
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+"):
        _ = p + "x"


def test_objects_made_while_one_is_being_made(classes):
    """Signal handlers and finalisers that the collector runs create objects this way."""
    made = []

    def work():
        with torch.classes._lock:
            made.append(classes.Plain())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert made, "it waits for itself"


def test_threads(classes):
    before = alive()
    shared = classes.Stack()
    failed = []

    def work():
        try:
            for _ in range(200):
                own = classes.Stack([torch.ones(1)])
                assert own.me() is own
                assert shared.me() is shared
        except BaseException as e:  # reported below
            failed.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    shared = None
    assert alive() == before


def test_objects_at_exit_and_in_other_processes(path):
    code = (
        "import sys, pickle, cograd; cograd.ops.load_library(sys.argv[1]);"
        "keep = cograd.classes.t_classes.Stack([cograd.ones(2)]);"
        "print(len(pickle.loads(bytes.fromhex(sys.argv[2]))))"
    )
    data = pickle.dumps(torch.classes.t_classes.Stack([torch.ones(1)] * 3)).hex()
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), data], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "3", "")
