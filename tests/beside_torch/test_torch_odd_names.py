# SPDX-License-Identifier: BSD-3-Clause
"""Unusual names that packages import from torch: dtypes to compare with, helpers, classes."""

import os
import subprocess
import sys
import textwrap
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import cograd as torch
from cograd.nn import functional as F
from cograd.utils import _pytree as pytree

Pair = namedtuple("Pair", "a b")


def run_as_torch(tmp_path, code):
    (tmp_path / "program.py").write_text(textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, "-m", "cograd", "run", "program.py"],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_dtypes_that_are_names(tmp_path):
    out = run_as_torch(
        tmp_path,
        """
        import copy, pickle, torch
        names = "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
        names += "float4_e2m1fn_x2 qint8 quint8 qint32 quint4x2 quint2x4 bits8 int4 uint1"
        for name in names.split():
            d = getattr(torch, name)
            assert d != torch.float32 != d and d == d and repr(d) == f"torch.{name}"
            assert pickle.loads(pickle.dumps(d)) is d is copy.deepcopy(d)
            assert d.itemsize == (4 if name == "qint32" else 1)
            assert d.is_floating_point == name.startswith("float") and not d.is_complex
        print(torch.finfo(torch.float8_e4m3fn))
        print(torch.finfo(torch.float8_e5m2), torch.finfo(torch.float8_e5m2).bits)
        print(torch.finfo(torch.float8_e8m0fnu))
        wrong = (lambda: torch.zeros(2, dtype=torch.float8_e5m2), lambda: torch.finfo(torch.qint8))
        for call in wrong:
            try:
                call()
            except TypeError as error:
                print(error)
        """,
    )
    assert out[:3] == [
        "finfo(resolution=1, min=-448, max=448, eps=0.125, smallest_normal=0.015625, "
        "tiny=0.015625, dtype=float8_e4m3fn)",
        "finfo(resolution=1, min=-57344, max=57344, eps=0.25, smallest_normal=6.10352e-05, "
        "tiny=6.10352e-05, dtype=float8_e5m2) 8",
        "finfo(resolution=1, min=5.87747e-39, max=1.70141e+38, eps=1, "
        "smallest_normal=5.87747e-39, tiny=5.87747e-39, dtype=float8_e8m0fnu)",
    ]
    assert "does not take float8_e5m2" in out[3] and "finfo" in out[4]


def test_imports_from_corners(tmp_path):
    out = run_as_torch(
        tmp_path,
        """
        import torch
        from torch.nn.modules.instancenorm import _InstanceNorm
        from torch.nn.modules.dropout import _DropoutNd
        from torch.nn.modules.padding import _ReflectionPadNd, _ReplicationPadNd
        from torch.nn.modules.transformer import _get_activation_fn
        from torch.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX, _global_forward_hooks
        from torch.utils.model_zoo import load_url, tqdm
        from torch.utils.tensorboard.writer import SummaryWriter
        from torch._C import Graph, Value
        from torch._dynamo.eval_frame import OptimizedModule
        from torch._dynamo.utils import is_compile_supported
        from torch.distributed.fsdp import FullyShardedDataParallel
        assert isinstance(torch.nn.InstanceNorm2d(2), _InstanceNorm)
        assert isinstance(torch.nn.AlphaDropout(), _DropoutNd)
        assert isinstance(torch.nn.ReflectionPad3d(1), _ReflectionPadNd)
        assert isinstance(torch.nn.ReplicationPad1d(1), _ReplicationPadNd)
        assert _get_activation_fn("gelu") is torch.nn.functional.gelu
        assert _EXTRA_STATE_KEY_SUFFIX == "_extra_state" and not _global_forward_hooks
        assert torch.hub.tqdm is tqdm and torch.utils.tensorboard.SummaryWriter is SummaryWriter
        assert torch.serialization.DEFAULT_PROTOCOL == 2
        assert type(torch.Tensor) is torch._C._TensorMeta
        assert not isinstance(torch.nn.Linear(1, 1), (OptimizedModule, FullyShardedDataParallel))
        assert not is_compile_supported("cpu")
        torch._dynamo.mark_static_address(torch.ones(1))
        for code in (
            "from torch._C import DispatchKey; DispatchKey()",
            "from torch._C._functorch import _grad_layer_at_top as f; f(1)",
            "from torch.nn.modules.module import _of_nothing",
            "from torch.utils.data.sampler import SequentialSample",
            "FullyShardedDataParallel(torch.nn.Linear(1, 1))",
            "Graph()",
        ):
            try:
                exec(code)
            except Exception as error:
                print(type(error).__name__, error)
        """,
    )
    kinds = [line.split()[0] for line in out]
    refused = ["NotImplementedError"] * 2
    assert kinds == [*refused, "ImportError", "ImportError", *refused]
    assert all("cograd docs coming_from_torch" in line for line in out)
    assert "the dispatcher is not exposed" in out[0] and "the dispatcher is not exposed" in out[1]
    assert "_of_nothing" in out[2] and "did you mean 'SequentialSampler'" in out[3]


def test_home_of_the_hub(monkeypatch):
    monkeypatch.setenv("TORCH_HOME", "/there")
    assert torch.hub._get_torch_home() == "/there"
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert torch.hub._get_torch_home() == "/cache/torch"
    bar = torch.hub._Faketqdm(total=3)
    with bar as inside:
        inside.update(2)
    assert bar.n == 2


def test_parts_of_collate():
    from cograd.utils.data._utils import collate

    assert collate.np_str_obj_array_pattern.search("<U3") and collate.np_str_obj_array_pattern
    assert not collate.np_str_obj_array_pattern.search("<f4")
    own = {**collate.default_collate_fn_map, set: lambda batch, *, collate_fn_map=None: len(batch)}
    batch = [{"x": np.ones(2), "y": {1}}, {"x": np.zeros(2), "y": {2}}]
    made = collate.collate(batch, collate_fn_map=own)
    assert made["y"] == 2 and made["x"].tolist() == [[1, 1], [0, 0]]
    assert collate.collate_tensor_fn([torch.ones(2), torch.ones(2)]).shape == (2, 2)
    with pytest.raises(TypeError, match="numbers"):
        collate.collate([{1}])


def test_iterators_of_loaders():
    from cograd.utils.data import DataLoader, dataloader

    found = iter(DataLoader([1, 2]))
    assert isinstance(found, dataloader._SingleProcessDataLoaderIter)
    assert isinstance(found, dataloader._BaseDataLoaderIter)
    assert not isinstance(found, dataloader._MultiProcessingDataLoaderIter)
    workers = iter(DataLoader([1, 2], num_workers=1))
    assert isinstance(workers, dataloader._MultiProcessingDataLoaderIter)
    assert [x.item() for x in workers] == [1, 2]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("_check", RuntimeError),
        ("_check_index", IndexError),
        ("_check_value", ValueError),
        ("_check_type", TypeError),
        ("_check_not_implemented", NotImplementedError),
    ],
)
def test_checks(name, error):
    check = getattr(torch, name)
    assert check(True) is None and check(True, lambda: 1 / 0) is None
    with pytest.raises(error, match="Expected cond to be True, but got False"):
        check(False)
    with pytest.raises(error, match="^because 3$"):
        check(False, lambda: f"because {3}")
    with pytest.raises(TypeError, match="message must be a callable"):
        check(False, "text")
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        check(1)
    with pytest.raises(TypeError, match="_check_tensor_all"):
        check(torch.tensor(True))


def test_other_checks():
    torch._assert(torch.tensor(True), "fine")
    with pytest.raises(AssertionError, match="^bad$"):
        torch._assert(False, "bad")
    with pytest.raises(KeyError, match="k"):
        torch._check_with(KeyError, False, lambda: "k")
    with pytest.warns(FutureWarning, match="_check_is_size"):
        torch._check_is_size(3)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="big"):
        torch._check_is_size(3, lambda: "big", max=2)
    torch._check_tensor_all(torch.tensor([True, True]))
    with pytest.raises(RuntimeError, match="some"):
        torch._check_tensor_all(torch.tensor([True, False]), lambda: "some")
    with pytest.raises(TypeError, match="must have dtype"):
        torch._check_tensor_all(torch.ones(2))


def test_functions_and_their_names():
    assert torch.meshgrid.__kwdefaults__ == {"indexing": None}
    x, y = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="xy")
    assert x.shape == y.shape == (3, 2)
    assert torch.meshgrid([torch.arange(2), torch.arange(3)])[0].shape == (2, 3)
    names = (
        "atleast_1d atleast_2d atleast_3d broadcast_shapes broadcast_tensors cartesian_prod "
        "block_diag cdist chain_matmul einsum istft lu norm meshgrid pca_lowrank split stft "
        "svd_lowrank tensordot unique unique_consecutive unravel_index"
    )
    for name in names.split():
        assert getattr(torch.functional, name) is getattr(torch, name), name
    assert F.grad is torch.nn.grad and not F.has_torch_function_unary(x)
    assert F._Reduction.legacy_get_string(None, False, emit_warning=False) == "none"
    with pytest.warns(UserWarning, match="reduction='sum'"):
        assert F._Reduction.legacy_get_enum(False, True) == 2


def test_softmax_data():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    g = torch.randn(3, 4, dtype=torch.float64)
    for plain, op, back in (
        (torch.softmax, torch._softmax, torch._softmax_backward_data),
        (torch.log_softmax, torch._log_softmax, torch._log_softmax_backward_data),
    ):
        y = op(x, 1, False)
        assert torch.equal(y, plain(x, 1))
        (want,) = torch.autograd.grad(y, x, g)
        torch.testing.assert_close(back(g, y.detach(), 1, torch.float64), want)
        with pytest.raises(RuntimeError, match="half to float"):
            op(x, 1, True)
        with pytest.raises(RuntimeError, match="expected scalar type"):
            back(g, y, 1, torch.float32)


def test_paths_of_trees():
    tree = {"a": [1, (2,)], "b": Pair(3, OrderedDict(z=None))}
    leaves, spec = pytree.tree_flatten_with_path(tree)
    assert [(pytree.keystr(path), leaf) for path, leaf in leaves] == [
        ("['a'][0]", 1),
        ("['a'][1][0]", 2),
        ("['b'].a", 3),
        ("['b'].b['z']", None),
    ]
    assert spec == pytree.tree_structure(tree)
    assert leaves[0][0] == (pytree.MappingKey("a"), pytree.SequenceKey(0))
    assert pytree.key_get(tree, leaves[2][0]) == 3
    named = pytree.tree_map_with_path(lambda p, v, w: (len(p), v, w), tree, tree)
    assert named["b"].a == (2, 3, 3) and named["a"][1] == ((3, 2, 2),)
    assert pytree._dict_flatten({"k": 1}) == ([1], ["k"])
    assert pytree._dict_flatten_with_keys({"k": 1})[0] == [(pytree.MappingKey("k"), 1)]
    assert pytree._get_node_type(Pair(1, 2)) is namedtuple
    assert pytree._get_node_type([]) in pytree.SUPPORTED_NODES


def test_paths_through_own_containers():
    class Box:
        def __init__(self, value):
            self.value = value

    def flatten(box):
        return [box.value], None

    pytree._register_pytree_node(Box, flatten, lambda v, _: Box(*v))
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_flatten_with_path(Box(1))
    pytree.register_pytree_node(
        Box,
        flatten,
        lambda v, _: Box(*v),
        flatten_with_keys_fn=lambda b: ([(pytree.GetAttrKey("value"), b.value)], None),
    )
    assert pytree.keystr(pytree.tree_leaves_with_path([Box(1)])[0][0]) == "[0].value"
    assert pytree.tree_map(lambda v: v + 1, Box(1)).value == 2
    del pytree.SUPPORTED_NODES[Box]


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_weights_set_for_a_recurrent_layer(kind):
    rnn = getattr(torch.nn, kind)(3, 4)
    other = getattr(torch.nn, kind)(3, 4)
    x = torch.randn(5, 2, 3)
    before, want = rnn(x)[0], other(x)[0]
    fast = [w.detach().clone().requires_grad_() for w in other._flat_weights]
    rnn._flat_weights = fast
    got = rnn(x)[0]
    assert torch.equal(got, want) and not torch.equal(got, before)
    got.sum().backward()
    assert all(w.grad is not None for w in fast) and rnn.weight_ih_l0.grad is None
    rnn.weight_ih_l0 = torch.nn.Parameter(rnn.weight_ih_l0.detach().clone())  # as torch: all new
    assert torch.equal(rnn(x)[0], before)


def test_classes_of_the_gpu_and_scripts():
    for kind in (torch.cuda.Stream, torch.cuda.Event, torch.cuda.CUDAGraph):
        assert not isinstance(torch.ones(1), kind)
        with pytest.raises(RuntimeError, match="requires CUDA support"):
            kind()
    future = torch.jit.fork(lambda a, b=1: a + b, 2, b=5)
    assert isinstance(future, torch.Future) and torch.jit.wait(future) == 7
    with pytest.raises(KeyError):
        torch.jit.fork({}.__getitem__, 1)
    assert torch.jit._script_if_tracing(len) is len and torch.jit._overload_method(len) is len


def test_private_helpers():
    from cograd import _utils
    from cograd.utils import _contextlib

    tensors = [torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(3), torch.ones(1)]
    sizes = [[t.numel() for t in part] for part in _utils._take_tensors(tensors, 16)]
    assert sizes == [[2], [3, 1], [2]]
    assert _utils._get_device_index("cpu", allow_cpu=True) == -1
    assert _utils._get_device_index(3) == _utils._get_device_index("cuda:3") == 3
    for wrong in ("cpu", None):
        with pytest.raises(ValueError, match="Expected a"):
            _utils._get_device_index(wrong)
    try:
        raise KeyError("gone")
    except KeyError:
        kept = _utils.ExceptionWrapper(where="in worker 1")
    with pytest.raises(KeyError, match="Caught KeyError in worker 1.\nOriginal Traceback"):
        kept.reraise()

    class Depth(_contextlib._NoParamDecoratorContextManager):
        now = 0

        def __enter__(self):
            Depth.now += 1

        def __exit__(self, *error):
            Depth.now -= 1

    @Depth
    def inside():
        return Depth.now

    @Depth()
    def steps():
        sent = yield Depth.now
        yield sent, Depth.now

    running = steps()
    assert inside() == 1 and next(running) == 1 and Depth.now == 0
    assert running.send("x") == ("x", 1) and Depth.now == 0 and list(running) == []


def test_ops_of_torch_say_what_to_call():
    with pytest.raises(AttributeError, match="torch's own ops: call cograd.clone"):
        torch.ops.aten.clone
    with pytest.raises(AttributeError, match="cograd has no such op"):
        torch.ops.aten.of_nothing
