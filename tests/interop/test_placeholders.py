# SPDX-License-Identifier: BSD-3-Clause
"""Under the alias an import of torch's names does not fail; what is absent can only be named."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

MODULES = Path(__file__).resolve().parents[1] / "recorded" / "torch_modules.txt"


def run(folder, text):
    """Runs a program under the alias and returns the lines that it prints."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    command = [sys.executable, "-m", "cograd", "run", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_module_of_torch_imports(tmp_path):
    out = run(
        tmp_path,
        f"""
        import importlib, torch
        for name in open({str(MODULES)!r}).read().split():
            try:
                importlib.import_module(name)
            except Exception as error:
                print(name, type(error).__name__, error)
        import torch.ao.nn.quantized.modules.linear as linear
        print(linear.Linear, torch.ao.nn)
        """,
    )
    kind = "<class 'torch.ao.nn.quantized.modules.linear.Linear'>"
    assert out == [f"{kind} <module 'torch.ao.nn' (placeholders)>"]


# Imports that packages make, and never use in what they are run for.
IMPORTS = """
_C: PyTorchFileReader ScriptModule DispatchKeySet
_C._distributed_rpc: PyRRef
_dynamo._trace_wrapped_higher_order_op: TransformGetItemToIndex
_dynamo: assume_constant_result
_inductor: config
autograd.profiler: emit_nvtx
cuda: StreamContext graph stream
distributed: rpc autograd device_mesh distributed_c10d
distributed._composable.fsdp: FSDPModule fully_shard
distributed._functional_collectives: AsyncCollectiveTensor all_gather_tensor
distributed.checkpoint.hf_storage: HuggingFaceStorageReader
distributed.device_mesh: DeviceMesh init_device_mesh
distributed.fsdp: MixedPrecision ShardingStrategy fully_shard FullyShardedDataParallel
distributed.fsdp.wrap: transformer_auto_wrap_policy
distributed.tensor: DTensor Replicate Shard Placement
distributed.tensor.parallel: ColwiseParallel parallelize_module
fx.experimental.proxy_tensor: make_fx get_proxy_mode
jit: annotations
nn.attention.flex_attention: BlockMask flex_attention create_block_mask
nn.utils._per_sample_grad: call_for_per_sample_grads
optim.optimizer: _use_grad_for_differentiable _default_to_fused_or_foreach
utils._python_dispatch: TorchDispatchMode is_traceable_wrapper_subclass
utils.data: IterDataPipe functional_datapipe datapipes
utils.data.dataloader: _collate_fn_t
utils.flop_counter: FlopCounterMode
"""


def test_names_that_packages_import(tmp_path):
    lines = (line.split(": ") for line in IMPORTS.strip().splitlines())
    code = [f"from torch.{module} import {', '.join(names.split())}" for module, names in lines]
    assert run(tmp_path, "\n".join(["from torch import Stream", *code, "print('all')"])) == ["all"]


def test_placeholders_can_be_named(tmp_path):
    out = run(
        tmp_path,
        """
        import abc, copy, pickle, typing, torch
        from torch.distributed.fsdp import MixedPrecision, ShardingStrategy
        from torch.distributed.fsdp.api import MixedPrecision as Again
        from torch.distributed.rpc import RRef, init_rpc
        from torch.onnx import OnnxExporterError
        from torch.optim.optimizer import _use_grad_for_differentiable
        from torch.utils.data import IterDataPipe, functional_datapipe

        def annotated(x: MixedPrecision | None, y: "RRef[int]", z: RRef[int] = None) -> init_rpc:
            pass

        typing.get_type_hints(annotated)
        from torch.jit.annotations import List
        assert List[int] == typing.List[int]
        shard = ShardingStrategy.FULL_SHARD
        assert Again is MixedPrecision and ShardingStrategy.FULL_SHARD is shard
        for kind in (MixedPrecision, RRef, IterDataPipe, type(torch.ones(1)) | RRef):
            assert not isinstance(object(), kind) and not issubclass(int, kind)
        assert {MixedPrecision: 1, init_rpc: 2, ShardingStrategy.NO_SHARD: 3}[init_rpc] == 2
        typing.Optional[init_rpc], typing.Union[int, MixedPrecision], shard | None, int | shard

        T = typing.TypeVar("T")

        @functional_datapipe("mine")
        class Pipe(IterDataPipe[T]):
            value = 3

        class Both(torch.nn.Module, MixedPrecision):
            pass

        class Abstract(MixedPrecision, abc.ABC, option=1):
            pass

        from torch.jit._script import ScriptMeta

        class Scripted(metaclass=ScriptMeta):
            pass

        @_use_grad_for_differentiable
        def step():
            return 5

        assert Pipe.value == 3 and issubclass(Pipe, IterDataPipe) and step() == 5
        for thing in (MixedPrecision, shard, Pipe, Abstract, init_rpc):
            assert copy.deepcopy(thing) is thing
            again = pickle.loads(pickle.dumps(thing))
            assert again is thing, (thing, again)
        try:
            raise ValueError
        except (OnnxExporterError, ValueError):
            pass
        for call in (
            MixedPrecision,
            Pipe,
            Both,
            lambda: init_rpc("worker"),
            shard,
            lambda: shard + 1,
            lambda: ShardingStrategy.NOT_ONE,
        ):
            try:
                call()
            except (NotImplementedError, AttributeError) as error:
                print(type(error).__name__, error)
        """,
    )
    advice = "processes communicate by MPI through distributed"
    assert len(out) == 7 and all("python -m cograd docs " in line for line in out)
    place = "torch.distributed.fsdp.MixedPrecision has no implementation in cograd: "
    assert out[0].startswith(f"NotImplementedError {place}{advice}")
    assert out[1].startswith("NotImplementedError __main__.Pipe derives from it: torch.utils")
    assert out[2].startswith(f"NotImplementedError __main__.Both derives from it: {place}")
    assert "torch.distributed.rpc.init_rpc" in out[3] and advice in out[3]
    assert "ShardingStrategy.FULL_SHARD" in out[4] and "FULL_SHARD" in out[5]
    assert out[6].startswith("AttributeError type object 'ShardingStrategy' has no attribute")


def test_the_answer_to_a_question_is_no(tmp_path):
    out = run(
        tmp_path,
        """
        import torch
        import torch.distributed.autograd as autograd
        import torch.distributed.rpc as rpc
        print(autograd.is_available(), rpc.is_available())
        """,
    )
    assert out == ["False False"]


def test_placements_are_values(tmp_path):
    out = run(
        tmp_path,
        """
        import pickle
        from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
        from torch.distributed.tensor.placement_types import Shard as Again, _StridedShard
        assert Again is Shard and Shard(1) == Shard(1) != Shard(0) and Replicate() == Replicate()
        assert {Shard(-1): 1, Replicate(): 2}[Shard(-1)] == 1 and Shard(0) != Replicate()
        assert Shard(0).is_shard() and Shard(0).is_shard(0) and not Shard(0).is_shard(1)
        assert Replicate().is_replicate() and Partial().is_partial("sum")
        assert not Partial().is_partial("avg") and isinstance(Partial(), Placement)
        assert pickle.loads(pickle.dumps(Shard(2))) == Shard(2)
        print(Shard(1), repr(Shard(1)), Replicate(), repr(Partial("avg")))
        print(repr(_StridedShard(0, split_factor=2)))
        try:
            DTensor()
        except NotImplementedError:
            print("refused")
        """,
    )
    assert out == ["S(1) Shard(dim=1) R Partial(avg)", "_StridedShard(dim=0, sf=2)", "refused"]


def test_names_of_the_functorch_binding(tmp_path):
    out = run(
        tmp_path,
        """
        import torch
        from torch._C._functorch import _grad_increment_nesting, _vmap_decrement_nesting
        print(isinstance("cpu", torch.DeviceObjType))
        try:
            _grad_increment_nesting()
        except NotImplementedError as error:
            print("_grad_increment_nesting has no implementation in cograd" in str(error))
        """,
    )
    assert out == ["False", "True"]


def test_attributes_tell_the_truth(tmp_path):
    run(
        tmp_path,
        """
        import torch
        from torch.distributed.fsdp import MixedPrecision
        from torch.nn.functional import grouped_mm
        assert not hasattr(torch.distributed.fsdp, "MixedPrecision")
        assert not hasattr(torch.nn.functional, "grouped_mm") and not hasattr(torch, "nested")
        assert not hasattr(torch._C, "_cuda_getDeviceCount") and not hasattr(torch.cuda, "MemPool")
        try:
            torch.distributed.fsdp.MixedPrecision
        except AttributeError as error:
            assert "processes communicate by MPI" in str(error)
        import torch.ao.quantization, torch.distributed.rpc, torch.distributed.device_mesh
        assert hasattr(torch.distributed.rpc, "init_rpc") and hasattr(torch, "ao")
        assert not hasattr(torch.distributed.device_mesh, "there_is_no_such")
        assert not torch.distributed.rpc.is_available()
        for text in (
            "from torch import there_is_no_such",
            "import torch.there_is_no_such",
            "from torch.distributed.rpc import there_is_no_such",
            "from torch.nn import Liner",
        ):
            try:
                exec(text)
            except ImportError as error:
                assert "there_is_no_such" in str(error) or "'Linear'" in str(error)
            else:
                raise AssertionError(text)
        """,
    )


def test_internal_names_that_work(tmp_path):
    out = run(
        tmp_path,
        """
        import torch, pickle
        from datetime import timedelta
        from torch._tensor_str import PRINT_OPTS
        from torch.distributed.constants import default_pg_timeout
        from torch.distributed.distributed_c10d import ReduceOp
        from torch.utils._python_dispatch import is_traceable_wrapper_subclass

        x = torch.ones(2)
        parsed = torch._C._nn._parse_to("cpu", torch.float64, True)
        assert parsed == (torch.device("cpu"), torch.float64, True, None)
        assert torch._C._nn._parse_to(x) == (x.device, x.dtype, False, None)
        assert torch._C._nn._parse_to(memory_format=torch.channels_last)[3] is torch.channels_last
        try:
            torch._C._nn._parse_to(color=1)
        except TypeError as error:
            print(error)
        assert not is_traceable_wrapper_subclass(x) and not torch.xpu.is_current_stream_capturing()
        assert default_pg_timeout == timedelta(minutes=30)
        assert ReduceOp is torch.distributed.ReduceOp and ReduceOp.RedOpType.SUM is ReduceOp.SUM
        assert PRINT_OPTS.precision == 4 and not hasattr(PRINT_OPTS, "colour")
        PRINT_OPTS.precision = 2
        print(torch.tensor(0.12345))
        aten = torch.ops.aten
        names = (aten.clone, aten._to_copy.default, aten.cat, aten.index.Tensor, aten._foreach_add_)
        table = {op: str(op) for op in names}
        assert table[aten._to_copy.default] == "aten._to_copy.default" and len(table) == 5
        assert pickle.loads(pickle.dumps(aten.cat.default)) is aten.cat.default
        assert not hasattr(aten, "there_is_no_such")
        try:
            aten.clone(x)
        except NotImplementedError as error:
            print(error)
        assert x.layout != torch.sparse_coo is torch.sparse_coo != torch.sparse_csr
        assert str(torch.sparse_coo) == "torch.sparse_coo"
        """,
    )
    assert out == [
        "to() received an unexpected keyword argument 'color'",
        "tensor(0.12)",
        "torch.ops.aten.clone can only be named: call torch.clone",
    ]


def test_functorch(tmp_path):
    run(
        tmp_path,
        """
        from functorch import make_functional, make_functional_with_buffers, vmap, grad
        from functorch import combine_state_for_ensemble, hessian, jacfwd, jacrev, jvp, vjp
        import functorch.compile, torch, torch.func
        from functorch.experimental import control_flow

        assert vjp is torch.func.vjp and functorch.__version__ == torch.__version__
        torch.manual_seed(0)
        model, x = torch.nn.Linear(3, 1), torch.randn(5, 3)
        f, params = make_functional(model)
        rows = vmap(grad(lambda p, row: f(p, row).sum()), (None, 0))(params, x)
        assert torch.equal(rows[0], x.unsqueeze(1)) and torch.equal(f(params, x), model(x))
        assert params[0] is not model.weight and params[0].requires_grad
        assert not make_functional(model, disable_autograd_tracking=True)[1][0].requires_grad
        norm = torch.nn.Sequential(model, torch.nn.BatchNorm1d(1)).eval()
        g, params, buffers = make_functional_with_buffers(norm)
        assert len(buffers) == 3 and torch.equal(g(params, buffers, x), norm(x))
        models = [torch.nn.Linear(3, 2) for _ in range(4)]
        h, params, buffers = combine_state_for_ensemble(models)
        out = vmap(h, (0, 0, None))(params, buffers, x)
        torch.testing.assert_close(out[2], models[2](x))
        for call, text in (
            (lambda: make_functional(norm), "has buffers"),
            (lambda: combine_state_for_ensemble([]), "at least one model"),
            (lambda: combine_state_for_ensemble([model, norm]), "of the same class"),
            (lambda: functorch.compile.aot_function(f), "no implementation in cograd"),
        ):
            try:
                call()
            except (RuntimeError, NotImplementedError) as error:
                assert text in str(error), error
            else:
                raise AssertionError(text)
        """,
    )


def test_without_the_alias_nothing_changes():
    code = """
        import sys, cograd, cograd.distributed.fsdp, cograd.cuda
        for text in ("from cograd.distributed.fsdp import MixedPrecision", "import cograd.ao",
                     "import functorch", "from cograd import Stream"):
            try:
                exec(text)
            except ImportError:
                pass
            else:
                raise AssertionError(text)
        assert not hasattr(cograd, "qint8") and not hasattr(cograd.ops.aten, "clone")
        assert not {n for n in sys.modules if "placeholders" in n or "_as_torch.names" in n}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)


def test_the_filter_is_rarely_wrong():
    from cograd._as_torch.names import Names, guess, torch_names

    names = torch_names()
    assert len(names.table) < 32_000
    wrong = sum(f"torch_has_no_{n}.name" in names for n in range(5000))
    assert wrong < 150, f"{wrong} of 5000 unknown names are found"
    own = Names.of(["a", "b.c"], 4)
    assert "a" in own and "b.c" in own
    kinds = [guess(name) for name in ("Mode", "run", "_T_co", "LIMIT", "_NotHereError")]
    assert kinds == ["class", "function", "typevar", "other", "error"]


@pytest.mark.skipif(not MODULES.exists(), reason="no recorded files")
def test_the_filter_has_every_module():
    from cograd._as_torch.missing import has_module

    paths = [name.removeprefix("torch.") for name in MODULES.read_text().split()]
    assert len(paths) > 2000 and all(map(has_module, paths))


def test_names_that_torch_only_lists_can_be_imported(tmp_path):
    """Some modules of torch make the names of ``__all__`` when they are asked for, or never."""
    out = run(
        tmp_path,
        """
        from torch import cpp
        from torch.compiler.config import job_id, verbose
        from torch.distributed.config import use_torchcomms
        from torch.distributed.rpc import BackendValue, init_backend
        from torch.fx.experimental.sym_node import sym_acos
        from torch.sparse import solve
        print(bool(verbose), bool(use_torchcomms))
        try:
            init_backend()
        except NotImplementedError as error:
            print(str(error).split(":")[0])
        try:
            from torch.compiler.config import verbosity
        except ImportError:
            print("no verbosity")
        """,
    )
    refused = "torch.distributed.rpc.init_backend has no implementation in cograd"
    assert out == ["False False", refused, "no verbosity"]


def test_helpers_of_torch_that_are_a_line(tmp_path):
    out = run(
        tmp_path,
        """
        import torch
        from torch.random import thread_safe_generator
        f = lambda: None
        torch.utils.set_module(f, "elsewhere")
        print(f.__module__, torch.version.rocm, thread_safe_generator())
        print(torch.rand(2, generator=thread_safe_generator()).shape)
        try:
            torch.utils.set_module(f, 3)
        except TypeError as error:
            print(error)
        """,
    )
    assert out == [
        "elsewhere None None",
        "torch.Size([2])",
        "The mod argument should be a string",
    ]


def test_functions_by_which_containers_join_a_vmap(tmp_path):
    """tensordict batches its tensors by these, and asks for fake tensors."""
    out = run(
        tmp_path,
        """
        import torch
        from torch._C._functorch import _add_batch_dim, _remove_batch_dim
        from torch._C._functorch import get_unwrapped, is_batchedtensor
        from torch._functorch.vmap import _maybe_remove_batch_dim

        x = torch.arange(6.0).reshape(3, 2)
        seen = []

        def row(sample):
            assert is_batchedtensor(sample) and get_unwrapped(sample).shape == (3, 2)
            seen.append(sample)
            return sample * 2

        assert torch.vmap(row)(x).tolist() == (x * 2).tolist() and len(seen) == 1
        assert not is_batchedtensor(x) and get_unwrapped(x) is x
        assert _maybe_remove_batch_dim("f", x, 1, 3, None) is x
        with torch._C._vmap_scope(3, "error") as level:
            sample = _add_batch_dim(x, 0, level)
            assert sample.shape == (2,) and _remove_batch_dim(sample, level, 3, 1).shape == (2, 3)
            joined = _maybe_remove_batch_dim("f", sample + 1, level, 3, 0)
            assert joined.tolist() == (x + 1).tolist()
            for value, dim in ((sample, None), (3, 0)):
                try:
                    _maybe_remove_batch_dim("f", value, level, 3, dim)
                except ValueError as error:
                    print(error)
        assert torch._guards.active_fake_mode() is None
        assert isinstance(x.untyped_storage(), torch.StorageBase)
        """,
    )
    assert out[0].endswith("can not return a BatchedTensor when out_dim is None")
    assert "`f` must only return Tensors, got type <class 'int'>" in out[1]
