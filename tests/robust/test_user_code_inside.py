# SPDX-License-Identifier: BSD-3-Clause
"""Python code that runs inside C++ code: finalizers in a collection that an allocation starts,
warning filters, conversions of arguments, other threads during an import. The C++ code must not see
a mix of old and new state after its changes. The repeats run in forked children, as most of them
used to end the process.
"""

import gc
import subprocess
import sys
import warnings
import weakref

import children
import numpy as np
import pytest

import cograd as cg

IN_ALLOCATIONS = sys.version_info < (3, 12)  # later collections wait for the interpreter's loop


def check(function, **kwargs):
    """Runs it in a child; it must return True."""
    assert children.outcome(function, **kwargs) == "ok True"


def raises(function, text):
    found = children.outcome(function)
    assert children.is_error(found) and text in found, found


class collecting:
    """Calls ``finalizer`` in every collection of the block; nearly every allocation starts one."""

    def __init__(self, finalizer):
        self.finalizer = finalizer

    def callback(self, phase, info):
        if phase == "stop":
            self.finalizer()

    def __enter__(self):
        gc.collect()
        gc.callbacks.append(self.callback)
        gc.set_threshold(1)

    def __exit__(self, *error):
        gc.set_threshold(0)
        gc.callbacks.remove(self.callback)


def no_free_objects():
    """Makes every new tensor object an allocation while the result lives."""
    return [cg.ones(1) for _ in range(1000)]


# --- two objects for one thing -----------------------------------------------------------------


def test_wrap_looks_again_after_the_allocation():
    def run():
        p = cg.ones(3, requires_grad=True)
        p.sum().backward()
        keep = no_free_objects()
        found = []
        with collecting(lambda: found or found.append(p.grad)):
            b = p.grad
        same = not IN_ALLOCATIONS or b is found[0]
        b.foo = 1
        found.clear()
        others = [p.grad for _ in range(9)]
        return same and len(keep) == 1000 and all(o is b for o in others) and b.foo == 1

    check(run)


def test_node_objects_are_one():
    def run():
        y = cg.ones(3, requires_grad=True).frexp()[0] + 1
        found = []
        with collecting(lambda: found or found.append(y.grad_fn)):
            fn = y.grad_fn
        fn.metadata["a"] = 1
        found.clear()
        return all(y.grad_fn is fn for _ in range(9)) and y.grad_fn.metadata == {"a": 1}

    check(run)


def test_node_types_keep_their_name():
    def run():
        x = cg.ones(3, requires_grad=True)
        y = cg.logaddexp(x, x)
        found = []
        with collecting(lambda: found or found.append(type(y.grad_fn))):
            made = type(y.grad_fn)
        filler = [f"cograd.{i}" + "x" * 20 for i in range(10_000)]
        names = {t.__name__ for t in [made, *found]}
        return len(filler) == 10_000 and names == {y.grad_fn.name()} and made is type(y.grad_fn)

    check(run)


def test_metadata_is_one_dict():
    def run():
        nodes = [(cg.ones(3, requires_grad=True) * 2).grad_fn for _ in range(20)]
        keep = [{} for _ in range(1000)]  # the next one is an allocation
        armed, lost = [], []

        def finalizer():
            if armed:
                armed.pop().metadata["kept"] = True

        with collecting(finalizer):
            for i, fn in enumerate(nodes):
                for _ in range(i % 6):  # some of the nodes are at the allocation that collects
                    keep.append({})
                armed.append(fn)
                found = fn.metadata
                if not armed and "kept" not in found:
                    lost.append(i)
                armed.clear()
        return not lost and len(keep) > 1000

    check(run)


def test_a_callback_of_a_weakref_gets_a_live_node_object():
    def run():
        x = cg.ones(3, requires_grad=True)
        y = x * 2
        found = []
        held = weakref.ref(y.grad_fn, lambda r: found.append(y.grad_fn))
        others = [x.exp() for _ in range(50)]
        objects = [o.grad_fn for o in others]  # in the memory of dead objects
        names = {o.name() for o in objects}
        return held() is None and (found[0].name(), names) == ("MulBackward0", {"ExpBackward0"})

    check(run)


def test_an_object_of_a_class_of_nodes_made_in_python_is_no_node():
    def run():
        x = cg.ones(3, requires_grad=True)
        x.sum().backward(create_graph=True)

        class Bare(cg._C.Node):
            pass

        bare = Bare()
        bare.me = bare
        gone = weakref.ref(bare)
        y = x * 2
        y.me = y
        died = weakref.ref(y)
        del bare, y
        gc.collect()
        return gone() is None and died() is None

    check(run)


# --- geometry that changes while Python objects are made ------------------------------------------


def test_tolist_reads_one_tensor():
    def run():
        x = cg.arange(4000.0).reshape(2000, 2)
        other = cg.zeros(1, 5_000_000)
        expected = x.tolist()
        with collecting(lambda: setattr(x, "data", other)):
            found = x.tolist()
        return found == expected or found == other[0, :2].tolist()

    check(run)


@pytest.mark.parametrize("what", ["shape", "size", "stride"])
def test_sizes_are_read_at_once(what):
    def run():
        few, many = cg.zeros(2, 3), cg.zeros(1, 2, 3, 4, 5, 6)
        read = {"shape": lambda t: t.shape, "size": lambda t: t.size(), "stride": cg.Tensor.stride}
        allowed = [tuple(read[what](t)) for t in (few, many)]
        for before, after in [(few, many), (many, few)]:
            for _ in range(50):
                x = before.detach()
                kept = []
                with collecting(lambda: setattr(x, "data", after)):
                    for _ in range(20):
                        x.data = before
                        kept.append(read[what](x))
                if any(tuple(k) not in allowed for k in kept):
                    return kept
        return True

    check(run)


@pytest.mark.parametrize("name", ["numpy", "buffer", "dlpack", "repr", "iter"])
def test_exports_while_collections_set_the_data(name):
    exports = {
        "numpy": lambda x: x.numpy().sum(),
        "buffer": lambda x: np.asarray(memoryview(x)).sum(),
        "dlpack": lambda x: np.from_dlpack(x).sum(),
        "repr": lambda x: len(repr(x)) > 3,
        "iter": lambda x: sum(float(row.sum()) for row in x),
    }

    def run():
        small, large = cg.ones(200, 2), cg.ones(1, 4_000)
        x = small.detach()
        turn = iter(range(10**9))
        with collecting(lambda: setattr(x, "data", (small, large)[next(turn) % 2])):
            found = [float(exports[name](x)) for _ in range(3)]
        return all(f in (400.0, 4000.0, 1.0) for f in found) or found

    check(run)


class Runs:
    """A value whose conversions call ``function`` first."""

    def __init__(self, function, value):
        self.function, self.value = function, value

    def __index__(self):
        self.function()
        return self.value

    __int__ = __index__

    def __float__(self):
        return float(self.__index__())

    def __bool__(self):
        return bool(self.__index__())


def test_dlpack_of_memory_that_became_read_only_says_so():
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_only = cg.from_numpy(frozen)

    class Version(list):
        def __getitem__(self, i):
            x.data = read_only
            return super().__getitem__(i)

        def __iter__(self):
            x.data = read_only
            return super().__iter__()

    class Exporter:
        def __dlpack__(self, **kwargs):
            return x.__dlpack__(max_version=Version([1, 0]))

        def __dlpack_device__(self):
            return (1, 0)

    x = cg.ones(4, dtype=cg.float64)
    y = cg.from_dlpack(Exporter())
    assert x.data_ptr() == y.data_ptr() or y.tolist() == [1.0] * 4
    if y.data_ptr() == read_only.data_ptr():
        with pytest.raises(RuntimeError, match="read-only"):
            y.add_(1)
    assert frozen.sum() == 0


# --- lists and arguments of the user ----------------------------------------------------------


def test_vmap_over_a_function_whose_list_is_emptied():
    def run():
        given = []

        class Fn(cg.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                if not given:
                    given[:] = [1, 2]
                    return given
                given.clear()
                for _ in range(3):
                    given.extend(range(50))
                    given.clear()
                return [1, 2]

        cg.vmap(lambda v: (Fn.apply(v), v)[1])(cg.rand(2, 3))
        return True

    check(run)


def test_a_comparison_of_samples_that_empties_the_list():
    def run():
        class Value:
            def __eq__(self, other):
                for one in given:
                    one.clear()
                return True

            __hash__ = None

        given = []

        class Fn(cg.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                given.append([Value() for _ in range(1000)])
                return given[-1]

        cg.vmap(lambda v: (Fn.apply(v), v)[1])(cg.rand(3, 3))
        return len(given) == 3

    check(run)


def test_a_vmap_rule_returns_a_list():
    class Fn(cg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.shape

        @staticmethod
        def vmap(info, in_dims, x):
            return [x * 2, 7], [0, None]

    x = cg.rand(2, 3)
    y, number = cg.vmap(Fn.apply, out_dims=(0, None))(x)
    assert cg.equal(y, x * 2) and number == 7


def test_backward_reads_its_options_before_the_gradient():
    def run():
        y = cg.softmax(cg.ones(3, requires_grad=True), 0)
        g = cg.ones(3)
        y.backward(g, retain_graph=Runs(lambda: setattr(g, "data", cg.ones(2, 5)), 1))

    raises(run, "Mismatch in shape")


def test_an_index_list_that_a_later_item_changes():
    def run():
        x = cg.zeros(4, 5, 6)
        small = cg.zeros(1)

        def change():
            rows[0] = Runs(lambda: setattr(x, "data", small), 3)

        rows = [0, 1]
        found = x[rows, Runs(change, 2)]
        return found.shape == (2, 6) and x.shape == (4, 5, 6)

    check(run)


def test_a_value_that_changes_the_tensor_it_is_stored_in():
    def run():
        x, small = cg.zeros(1000, 1000), cg.zeros(2, 2)
        try:
            x[::-1, cg.tensor([0, 1])] = Runs(lambda: setattr(x, "data", small), 3)
        except TypeError as e:
            return "can't assign a Runs" in str(e) and x.shape == (1000, 1000) and not x.any()
        return False

    check(run)


def test_membership_with_a_value_that_runs_code():
    x = cg.ones(3)
    assert Runs(lambda: setattr(x, "data", cg.zeros(5)), 1) not in x


# --- warnings ----------------------------------------------------------------------------------


@pytest.fixture
def read_only(tmp_path):
    np.zeros(4096).tofile(tmp_path / "memory.bin")
    mapped = np.memmap(tmp_path / "memory.bin", dtype="float64", mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cg.from_numpy(mapped)


def warned(action):
    """Makes warnings call ``action``, except those that it issues itself."""
    acting = []

    def show(*args, **kwargs):
        if acting:
            return
        acting.append(1)
        try:
            action()
        finally:
            acting.clear()

    warnings.simplefilter("always")
    warnings.showwarning = show


def test_out_that_becomes_read_only_while_a_warning_is_shown(read_only):
    def run():
        out = cg.zeros(3, dtype=cg.float64)
        warned(lambda: setattr(out, "data", read_only))
        cg.add(cg.ones(1000, dtype=cg.float64), 1.0, out=out)

    raises(run, "the tensor is an argument of add(), which is under way")


def test_one_of_two_outs_that_becomes_read_only(read_only):
    def run():
        x = cg.rand(2, 2048, dtype=cg.float64)
        values, indices = cg.zeros(2048, dtype=cg.float64), cg.zeros(3, dtype=cg.int64)
        warned(lambda: setattr(values, "data", read_only[:2048]))
        cg.max(x, 0, out=(values, indices))

    raises(run, "the tensor is an argument of max(), which is under way")


@pytest.mark.parametrize("change", ["shape", "dtype", "grad", "input"])
def test_out_that_changes_while_a_warning_is_shown(change):
    def run():
        x, out = cg.ones(1000), cg.zeros(3)
        actions = {
            "shape": lambda: setattr(out, "data", cg.zeros(1)),
            "dtype": lambda: setattr(out, "data", cg.zeros(1000, dtype=cg.int8)),
            "grad": lambda: out.requires_grad_(),
            "input": lambda: setattr(x, "data", cg.zeros(2, 2)),
        }
        warned(actions[change])
        cg.positive(x, out=out)
        return out.shape == (1000,) and float(out.sum()) == 1000

    told = (
        r"positive(): out= or an input was changed"
        if change == "grad"
        else "the tensor is an argument of positive(), which is under way"
    )
    raises(run, told)


def test_an_out_that_is_left_alone_is_resized():
    out = cg.zeros(3)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        cg.add(cg.ones(1000), 1.0, out=out)
    assert out.shape == (1000,) and float(out.sum()) == 2000


@pytest.mark.parametrize("name", ["from_numpy", "as_tensor"])
def test_an_array_that_a_warning_changes(name):
    def run():
        a = np.zeros(1000)
        a.flags.writeable = False
        warned(lambda: setattr(a, "dtype", np.uint8))
        t = getattr(cg, name)(a)
        return (t.dtype, t.shape) == (cg.uint8, (8000,)) and float(t.sum()) == 0

    check(run)


def test_an_array_that_is_refused_raises_before_the_warning():
    a = np.zeros(10)[::-1]
    a.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="negative"):
            cg.from_numpy(a)


def test_an_array_class_whose_dtype_lies():
    def run():
        class Lies(np.ndarray):
            @property
            def dtype(self):
                return np.dtype("float64")

        a = np.arange(16, dtype="uint8").view(Lies)
        return (
            cg.from_numpy(a).dtype == cg.uint8
            and cg.tensor(a).tolist() == list(range(16))
            and cg.tensor([a, a]).shape == (2, 16)
        )

    check(run)


def test_an_array_class_whose_copy_is_another_array():
    def run():
        class Odd(np.ndarray):
            def copy(self, *args):
                return np.arange(3, dtype="int8")

        a = np.arange(1000.0).view(Odd)[::-1]
        return cg.tensor(a).tolist() == [0, 1, 2]

    check(run)


def test_an_array_that_shrinks_while_a_list_is_read():
    def run():
        class Shrinks(np.ndarray):
            @property
            def dtype(self):
                calls.append(1)
                if len(calls) > 2:
                    base.resize(10, refcheck=False)
                return np.dtype("float64")

        calls = []
        base = np.zeros(100)
        a = base.view(Shrinks)
        return cg.tensor([a, a]).shape == (2, 100)

    check(run)


# --- locks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["layout", "overrides"])
def test_two_threads_at_the_first_import(name):
    code = {
        "layout": "x.layout",
        "overrides": "cg.add(Sub(), 1)",
    }[name]
    script = f"""
import builtins, sys, threading, time
import cograd as cg
class Sub:
    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        return 3
x = cg.ones(2)
found = []
plain = builtins.__import__
def slow(*args, **kwargs):
    time.sleep(0.1)
    return plain(*args, **kwargs)
builtins.__import__ = slow
threads = [threading.Thread(target=lambda: found.append({code}), daemon=True) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join(5)
sys.stdout.write(str(len(found)))
sys.stdout.flush()
import os
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "2", done
