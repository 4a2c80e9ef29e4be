# SPDX-License-Identifier: BSD-3-Clause
"""Runs one case in this process and raises Wrong for any fault that does not end the process."""

import contextlib
import copy
import gc
import pickle
import re
import threading
import types
import warnings
import weakref
import zlib

from op_table import DTYPES as TABLE_DTYPES
from op_table import environment
from op_table import makers as sample_makers

import cograd as torch
from cograd import _C
from fuzz.makers import ENVIRONMENT, Boom, Evil, Sub, scene


class Wrong(Exception):
    """Raised for a fault that does not end the process."""


# Exceptions that no argument may cause: they show a bug in the core or in the Python package.
FAULTS = (SystemError, UnboundLocalError, NameError)
LEAKED = re.compile(
    r"basic_string|vector::|std::|bad_optional|bad variant|unordered_map|map::at|invalid unordered"
    r"|internal error|this is a bug|Unable to cast|cannot create std::|locale::|stoi|unknown exception"
)


class Attribute:
    """`attribute.name(self, value)` sets an attribute of `self` and reads it."""

    def __getattr__(self, name):
        def use(self, *value):
            if isinstance(self, types.ModuleType):
                raise TypeError("modules stay as they are")
            if value:
                setattr(self, name, value[0])
            return getattr(self, name)

        return use


NAMES = environment() | {n: d for n, d in TABLE_DTYPES.items() if n != "bool"} | ENVIRONMENT
SAMPLE = re.compile(r"\bS[TPSIB]\(")


def environment_of(case):
    names = NAMES | {"attribute": Attribute()}
    if any(SAMPLE.search(text) for text in (*case.args, *case.words.values())):
        made = sample_makers(zlib.crc32(case.path.encode()))
        names |= {"S" + n: make for n, make in made.items()}
    return names


def tensors_in(value, found, depth=0):
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif type(value) in (tuple, list) or (isinstance(value, tuple) and depth < 3):
        for v in list(value)[:50]:
            tensors_in(v, found, depth + 1)
    return found


def with_tensors(value, put):
    """Returns the argument with each tensor replaced by the next one of `put`."""
    if isinstance(value, torch.Tensor):
        return put.pop(0) if put else value
    if type(value) in (tuple, list):
        return type(value)(with_tensors(v, put) for v in value)
    return value


class Under(
    torch.overrides.TorchFunctionMode if hasattr(torch.overrides, "TorchFunctionMode") else object
):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def pure(function, args, words):
    """Returns the call as a function of its tensors, and these tensors."""
    given = tensors_in([*args, *words.values()], [])

    def call(*values):
        left = list(values)
        a = [with_tensors(v, left) for v in args]
        return function(*a, **{k: with_tensors(v, left) for k, v in words.items()})

    return call, given


def total(value):
    """Returns the sum of all tensors of the result; raises Boom if that would take too long."""
    if not small(value):
        raise Boom("too large")
    parts = [t for t in tensors_in(value, []) if t.is_floating_point() or t.is_complex()]
    parts = [t.real if t.is_complex() else t for t in parts]
    return sum((t.sum().to(torch.float64) for t in parts), torch.zeros((), dtype=torch.float64))


def call_in_mode(mode, function, args, words):
    func = torch.func
    plain = lambda: function(*args, **words)
    if mode == "plain":
        return plain()
    if mode in ("no_grad", "inference", "anomaly", "mode", "hooks"):
        scopes = {
            "no_grad": torch.no_grad,
            "inference": torch.inference_mode,
            "anomaly": lambda: torch.autograd.detect_anomaly(check_nan=False),
            "mode": Under,
            "hooks": lambda: torch.autograd.graph.saved_tensors_hooks(
                lambda t: t.clone(), lambda t: t
            ),
        }
        with (
            scopes[mode]()
            if mode != "mode" or hasattr(Under, "__enter__")
            else contextlib.nullcontext()
        ):
            return plain()
    if mode == "thread":
        box = []

        def body():
            try:
                box.append(plain())
            except BaseException as e:
                box.append(e)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        if isinstance(box[0], BaseException):
            raise box[0]
        return box[0]
    call, given = pure(function, args, words)
    scalar = lambda *v: total(call(*v))
    ones = [torch.ones_like(t) for t in given]
    if mode == "vmap":
        return torch.vmap(call)(*given)
    if mode == "vmap2":
        return torch.vmap(torch.vmap(call), in_dims=0)(*given)
    if mode == "jvp":
        return func.jvp(call, tuple(given), tuple(ones))
    if mode == "vjp":
        out, pull = func.vjp(call, *given)
        return out, pull(torch.ones_like(out) if isinstance(out, torch.Tensor) else out)
    if mode == "grad":
        return func.grad(scalar)(*given)
    if mode in ("jacrev", "jacfwd", "hessian"):
        if sum(t.numel() for t in given) > 40:
            raise Boom("too large")
        return getattr(func, mode)(scalar if mode == "hessian" else call)(*given)
    if mode == "dual":
        with torch.autograd.forward_ad.dual_level():
            duals = [torch.autograd.forward_ad.make_dual(t, o) for t, o in zip(given, ones)]
            return call(*duals)
    if mode == "checkpoint":
        from cograd.utils.checkpoint import checkpoint

        return checkpoint(call, *given, use_reentrant=False)
    if mode == "functional":
        return torch.autograd.functional.vjp(scalar, tuple(given))
    raise ValueError(mode)


def follow(step, result, given):
    """Does with a result what programs do: differentiates it, prints it, pickles it, and so on."""
    out = tensors_in(result, [])
    if len(out) > 1000:  # Python takes longer to copy a million than a call may take
        result = out = out[:1000]
    first = out[0] if out else None
    if step in ("backward", "backward_again"):
        loss = total(result)
        if loss.requires_grad:
            loss.backward(retain_graph=step == "backward_again")
            if step == "backward_again":
                loss.backward()
    elif step in ("create_graph", "third_order"):
        leaves = [t for t in given if t.requires_grad and t.is_leaf]
        loss = total(result)
        for _ in range(2 if step == "create_graph" else 3):
            if not (loss.requires_grad and leaves):
                break
            grads = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
            loss = total([g for g in grads if g is not None])
    elif step == "repr":
        repr(result)
    elif step == "pickle":
        pickle.loads(pickle.dumps(result))
    elif step == "clone":
        copy.deepcopy(result)
        [t.clone() for t in out]
    elif step == "numpy":
        [t.detach().numpy() for t in out]
    elif step == "resize_input" and given:
        given[0].resize_(0) if given[0].numel() else given[0].resize_(7)
    elif step == "write_input" and given:
        given[0].detach().fill_(2)
    elif step == "free_input" and given:
        given[0].untyped_storage().resize_(0)
    elif step == "write_result" and first is not None:
        first.add_(1)
        first.zero_()
    elif step == "iterate" and first is not None:
        [list(zip(range(20), t)) for t in out if t.dim()]
    elif step == "hash":
        [hash(t) for t in out]
    elif step == "drop_graph":
        [t.detach_() for t in out]


SMALL = 1 << 22


def small(value):
    """Returns whether the tensors are so small that reading them takes no time."""
    return all(t.numel() <= SMALL for t in tensors_in(value, []))


def run(case):
    """Returns "ok", or the name of the exception that the call raised; raises Wrong at a fault."""
    scene.__init__()
    scene.rng.seed(case.seed)
    torch.manual_seed(case.seed & 0xFFFF)
    names = environment_of(case)
    outcome = "ok"
    result, args, words, given = None, [], {}, []
    try:
        function = eval(case.path, names)
        args = [eval(a, names) for a in case.args]
        words = {k: eval(v, names) for k, v in case.words.items()}
        given = tensors_in([*args, *words.values()], [])
        scene.again = lambda: function(*args, **words)
        result = call_in_mode(case.mode, function, args, words)
    except Exception as e:
        outcome = judge(e)
    if (result is not None and type(result).__module__ != "builtins") or isinstance(
        result, (tuple, list)
    ):
        for step in case.after:
            if not small(result) or not small(given):
                break
            try:
                follow(step, result, given)
            except Exception as e:
                judge(e)
    scene.again = None
    return outcome


def judge(e):
    text = str(e) if not isinstance(e, (Boom, Evil)) else ""
    if isinstance(e, FAULTS) or LEAKED.search(text):
        if not isinstance(e, Boom):
            raise Wrong(f"{type(e).__name__}: {text[:300]}") from e
    return type(e).__name__


def check_state(case):
    """Raises Wrong if the case left a mode changed or a vmap open."""
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        torch.set_grad_enabled(True)
        raise Wrong("a mode was left switched")
    if _C._vmap_depth() if callable(getattr(_C, "_vmap_depth", None)) else False:
        raise Wrong("a vmap was left open")
    if torch.is_autocast_enabled("cpu"):  # a case may; cached casts stay while it is on
        torch.set_autocast_enabled("cpu", False)
        torch.clear_autocast_cache()


def run_and_check(case):
    base_nodes = _C._live_nodes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = run(case)
    watched = [weakref.ref(t) for t in scene.tensors]
    scene.__init__()
    check_state(case)
    if _C._live_nodes() != base_nodes or any(r() is not None for r in watched):
        gc.collect()
        if _C._live_nodes() != base_nodes:
            raise Wrong(f"{_C._live_nodes() - base_nodes} nodes were left behind")
        alive = [r() for r in watched if r() is not None]
        if alive:
            raise Wrong(f"{len(alive)} tensors were left behind")
    return outcome


__all__ = ["Sub", "Wrong", "run", "run_and_check"]
