# SPDX-License-Identifier: BSD-3-Clause
"""The checks of every op of the table; each one receives a record and mostly one sample."""

import math
import warnings

import numpy as np
from op_table import (
    F8,
    FLAGS,
    OPS,
    TOLERANCE,
    arguments,
    assert_same,
    bind,
    call,
    evaluate_ref,
    has_derivative,
    is_float,
    plain,
    results,
    samples_of,
    tensors_in,
    tree_map,
)

import cograd as torch
from cograd.autograd import gradcheck, gradgradcheck


def check_record(record):
    assert record["doc"].strip(), f"{record['name']}: empty docstring"
    assert all(isinstance(record[flag], bool) for flag in FLAGS), record["name"]
    assert record["namespace"] in ("", "_nn")
    text = record["samples"].strip()
    assert text, f"{record['name']}: no samples; give some or say samples='none: <reason>'"
    if text.startswith("none:"):
        assert text[5:].strip(), f"{record['name']}: samples='none:' needs a reason"
    for sample in samples_of(record):
        bind(record, *arguments(record, sample))


def compare_with_ref(record, got, want, label, rtol):
    got = results(got)
    assert len(got) == len(want), f"{label}: {len(got)} results, ref gives {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        w = np.asarray(w)
        assert tuple(g.shape) == w.shape, (
            f"{label}: result {i} has shape {tuple(g.shape)}, ref {w.shape}"
        )
        if is_float(g):
            wide = np.complex128 if g.is_complex() else np.float64
            np.testing.assert_allclose(
                plain(g).astype(wide),
                w.astype(wide),
                rtol=rtol,
                atol=rtol,
                err_msg=f"{label}: result {i}",
            )
        else:
            np.testing.assert_array_equal(
                plain(g), w.astype(plain(g).dtype), err_msg=f"{label}: result {i}"
            )


def forward_dtypes(record):
    return (F8,) if record["reads_bytes"] else (F8, torch.float32)


def check_forward(record, sample, ops=OPS, dtypes=None):
    """Compares the op with its NumPy expression in float64 and float32."""
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    for dtype in dtypes or forward_dtypes(record):
        a, k = tree_map(lambda t, d=dtype: t.to(d) if is_float(t) else t, (args, kwargs))
        label = f"{record['name']}({sample}) in {dtype}"
        before = [t.clone() for t in tensors_in((a, k))]
        got = call(f, a, k)
        if not record["name"].endswith("_"):
            for t, b in zip(tensors_in((a, k)), before, strict=True):
                assert torch.equal(t, b), f"{label}: an argument was changed"
        if record["ref"]:
            want = evaluate_ref(
                record, a, k, lambda t: plain(t).astype(np.float64) if is_float(t) else plain(t)
            )
            made = not tensors_in((a, k))  # a creation op: its results have the default dtype
            rtol = TOLERANCE[torch.get_default_dtype() if made else dtype]
            compare_with_ref(record, got, want, label, rtol)


def check_small_floats(record, sample, ops=OPS, dtypes=(torch.float16, torch.bfloat16)):
    """Checks that float16 and bfloat16 give rounded float64 results, or raise and name the op."""
    if record["reads_bytes"]:
        return
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    for dtype in dtypes:
        a, k = tree_map(lambda t, d=dtype: t.to(d) if is_float(t) else t, (args, kwargs))
        label = f"{record['name']}({sample}) in {dtype}"
        try:
            got = call(f, a, k)
        except (RuntimeError, TypeError) as e:
            clear = (record["name"].strip("_"), "not implemented", "dtype")
            assert any(word in str(e) for word in clear), f"{label}: unclear refusal: {e}"
            continue
        wide = call(f, *tree_map(lambda t: t.double() if is_float(t) else t, (a, k)))
        for g, w in zip(results(got), results(wide), strict=True):
            assert g.shape == w.shape, label
            if is_float(g):
                finite = np.abs(plain(w).astype(np.float64)) < torch.finfo(dtype).max / 2
                np.testing.assert_allclose(
                    plain(g).astype(np.float64)[finite],
                    plain(w)[finite],
                    rtol=TOLERANCE[dtype],
                    atol=TOLERANCE[dtype],
                    err_msg=label,
                )


INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.bool)


def check_integers(record, sample, ops=OPS, dtypes=INTEGERS):
    """Checks that integer and bool inputs agree with NumPy, or raise with the op's name."""
    if not record["ref"] or record["reads_bytes"]:
        return
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    for dtype in dtypes:

        def convert(t, dtype=dtype):
            if not is_float(t):
                return t
            t = (t * 3).round()
            return (t.abs() if dtype is torch.uint8 else t).to(dtype)

        a, k = tree_map(convert, (args, kwargs))
        made = {id(t) for t in tensors_in((a, k))} - {id(t) for t in tensors_in((args, kwargs))}
        label = f"{record['name']}({sample}) in {dtype}"
        try:
            got = call(f, a, k)
        except (RuntimeError, TypeError) as e:
            assert len(str(e)) > 10, f"{label}: unclear refusal: {e!r}"
            continue
        kinds = [g.dtype for g in results(got)]
        kind = (
            np.float64
            if any(d.is_floating_point for d in kinds)
            else np.bool_
            if kinds and all(d is torch.bool for d in kinds)
            else np.int64
        )
        masks = {id(t) for t in tensors_in((args, kwargs)) if t.dtype is torch.bool}

        def wide(t, kind=kind, masks=masks, made=made):
            x = plain(t)
            if id(t) in masks or (x.dtype == bool and kind is np.bool_):
                return x
            return x.astype(np.float64 if kind is np.float64 and id(t) in made else np.int64)

        # torch truncates the scalar factors of integer sums.
        k = {n: int(v) if n in ("alpha", "beta", "value") else v for n, v in k.items()}
        try:
            want = evaluate_ref(record, a, k, wide)
        except (TypeError, ValueError, np.exceptions.AxisError):
            continue
        if all(np.isfinite(np.asarray(w, dtype=np.float64)).all() for w in want):
            compare_with_ref(record, got, want, label, 1e-4)


def strided_copies(t):
    """Returns tensors equal to t with other memory layouts."""
    wide = torch.zeros(
        tuple(t.shape[:-1]) + (2 * t.shape[-1] + 1,) if t.ndim else (3,), dtype=t.dtype
    )
    spaced = wide[..., 1::2] if t.ndim else wide[1]
    spaced.copy_(t)
    yield "spaced", spaced
    if t.ndim >= 2:
        order = tuple(reversed(range(t.ndim)))
        yield "transposed", t.permute(order).contiguous().permute(order)
    if t.ndim and t.shape[0] > 0:
        yield "offset", torch.cat([t[:1], t])[1:]


def check_non_contiguous(record, sample, ops=OPS):
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    want = call(f, args, kwargs)
    for layout in ("spaced", "transposed", "offset"):
        a, k = tree_map(lambda t, w=layout: dict(strided_copies(t)).get(w, t), (args, kwargs))
        try:
            got = call(f, a, k)
        except RuntimeError as e:
            # Only view() and similar ops may depend on the layout.
            bytes_read = record["reads_bytes"]
            words = "must be 1 to view" if bytes_read else "view size is not compatible"
            if record["name"] == "view_as_complex":
                words = "last dimension with stride 1"
            assert words in str(e), f"{record['name']}({sample}) {layout}: {e}"
            continue
        if not record["reads_bytes"]:
            assert_same(got, want, f"{record['name']}({sample}) {layout}")


def flat_arguments(record, sample):
    """Returns the sample with its tensors in one dim, or None if their shapes differ."""
    args, kwargs = arguments(record, sample)
    shapes = {tuple(t.shape) for t in tensors_in((args, kwargs)) if t.ndim}
    if len(shapes) != 1 or math.prod(next(iter(shapes))) < 2:
        return None
    return tree_map(lambda t: t.reshape(-1) if t.ndim else t, (args, kwargs))


def is_elementwise(record, sample):
    """Returns whether the op is declared elementwise and the sample's tensors have one shape."""
    if record["kind"] != "elementwise" or record.get("internal"):
        return False  # callers of an internal op check shapes: only its samples are valid
    return flat_arguments(record, sample) is not None


def check_kind(record, sample, ops=OPS):
    """Checks what the kind promises about elements, memory and the origin of values."""
    args, kwargs = arguments(record, sample)
    f, label = ops.function(record), f"{record['name']}({sample})"
    inputs = tensors_in((args, kwargs))
    got = results(call(f, args, kwargs))
    if record["kind"] == "view":
        assert got and all(
            t.numel() == 0 or any(shares_memory(t, x) for x in inputs) for t in got
        ), f"{label}: a view that has memory of its own"
    if record["kind"] == "creation":
        assert not any(shares_memory(t, x) for t in got for x in inputs), f"{label}: not new"
    if is_elementwise(record, sample):
        flat = flat_arguments(record, sample)
        n = max(t.numel() for t in tensors_in(flat))
        order = torch.tensor(np.random.default_rng(0).permutation(n))
        mixed = tree_map(lambda t: t[order] if t.ndim else t, flat)
        one, other = call(f, *flat), call(f, *mixed)
        assert one.shape == (n,) and np.array_equal(
            plain(one[order]), plain(other), equal_nan=True
        ), f"{label}: permuting the inputs does not permute the result"


def shares_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def has_floats(record):
    return any(is_float(t) for s in samples_of(record) for t in tensors_in(arguments(record, s)))


def cast_sample(record, sample, dtype):
    """Returns the sample with the tensors of the claim cast to `dtype`; None if it has none."""
    args, kwargs = arguments(record, sample)
    about = is_float if has_floats(record) else lambda t: t.dtype is torch.int64
    chosen = [t for t in tensors_in((args, kwargs)) if about(t)]
    ids = {id(t) for t in chosen}

    def convert(t):
        if id(t) not in ids:
            return t
        if is_float(t) and not dtype.is_floating_point:
            t = (t * 3).round()
            t = t.abs() if dtype is torch.uint8 else t
        return t.to(dtype)

    return tree_map(convert, (args, kwargs)) if chosen else None


REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


def check_dtypes(record, dtype, ops=OPS):
    """Checks that a claimed dtype works in forward, gradient and out=, and that others raise."""
    f, claimed = ops.function(record), str(dtype).partition(".")[2] in record["dtypes"]
    label = f"{record['name']} in {dtype}"
    worked, refused, tried = [], [], 0
    for sample in samples_of(record):
        if (found := cast_sample(record, sample, dtype)) is None:
            continue
        tried += 1
        args, kwargs = found
        try:
            worked.append((args, kwargs, call(f, args, kwargs)))
        except REFUSALS as e:
            refused.append(f"{sample}: {e}")
    if not claimed:
        assert not worked or not tried, f"{label}: not claimed, but works"
        return bool(tried)
    # Integers may be refused if the sample has fractions.
    enough = worked if not dtype.is_floating_point else not refused
    assert enough or not tried, f"{label}: claimed, but {refused}"
    for args, kwargs, want in worked:
        if record["out"] and isinstance(want, torch.Tensor):
            out = torch.zeros_like(want)
            call(f, args, kwargs | {"out": out})
            assert_same(out, want, f"{label}: out=")
        if record["differentiable"] and dtype.is_floating_point:
            check_gradient_runs(record, args, kwargs, dtype, label, ops)
    return bool(tried)


def check_gradient_runs(record, args, kwargs, dtype, label, ops):
    """Checks that backward returns gradients of the inputs' shapes and dtypes."""
    constants = constants_of(record, args)
    args, kwargs = tree_map(
        lambda t: (
            t.detach().clone()
            if t.dtype is not dtype or id(t) in constants
            else t.detach().clone().requires_grad_()
        ),
        (args, kwargs),
    )
    got = [r for r in results(call(ops.function(record), args, kwargs)) if r.requires_grad]
    if not got:
        return
    torch.autograd.backward(got, [torch.ones_like(r) for r in got])
    for t in tensors_in((args, kwargs)):
        assert t.grad is None or (t.grad.dtype is t.dtype and t.grad.shape == t.shape), label


def check_dims(record, sample, ops=OPS):
    """Checks that a dim that no tensor has raises IndexError, for each parameter."""
    args, kwargs = arguments(record, sample)
    kinds = {a["name"]: a["kind"] for a in record["args"]}
    values = bind(record, args, kwargs)
    applied = False
    for name, kind in kinds.items():
        if kind not in ("Dim", "Dims") or values.get(name) is None:
            continue
        wrong = 70 if kind == "Dim" else (70,)
        try:
            call(ops.function(record), *replaced(record, values, name, wrong))
        except (IndexError, RuntimeError) as e:
            known = isinstance(e, IndexError) or "dim" in str(e) or "axis" in str(e)
            assert known, f"{record['name']}: dim 70 gives {e!r}"
        else:
            raise AssertionError(f"{record['name']}({sample}): {name}=70 is taken")
        applied = True
    return applied


def replaced(record, values, name, value):
    """Returns the call (args, kwargs) with one argument changed."""
    values = dict(values) | {name: value}
    args, kwargs = [], {}
    for a in record["args"]:
        if a["variadic"]:
            args.append(tuple(values[a["name"]]))
        elif a["keyword_only"]:
            kwargs[a["name"]] = values[a["name"]]
        else:
            args.append(values[a["name"]])
    return tuple(args), kwargs


def check_elementwise_shapes(record, sample, ops=OPS):
    """Checks 0-dim, empty, large and broadcast inputs of an elementwise op."""
    if not is_elementwise(record, sample):
        return
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    flat = tree_map(lambda t: t.reshape(-1) if t.ndim else t, (args, kwargs))
    want = call(f, *flat)
    label = f"{record['name']}({sample})"
    zero_dim = call(f, *tree_map(lambda t: t[0] if t.ndim else t, flat))
    assert zero_dim.shape == (), f"{label}: 0-dim input gave {zero_dim.shape}"
    np.testing.assert_allclose(
        plain(zero_dim), plain(want[0]), rtol=1e-10, err_msg=f"{label}: 0-dim"
    )
    for shape in ((0,), (0, 3), (2, 0, 1)):
        r = call(
            f, *tree_map(lambda t, s=shape: torch.zeros(s, dtype=t.dtype) if t.ndim else t, flat)
        )
        assert r.shape == shape and r.dtype is want.dtype, (
            f"{label}: empty {shape} gave {r.shape} {r.dtype}"
        )
    many = call(f, *tree_map(lambda t: t.repeat(5000) if t.ndim else t, flat))
    np.testing.assert_allclose(
        plain(many), plain(want.repeat(5000)), rtol=1e-10, err_msg=f"{label}: large"
    )
    tensors = [t for t in tensors_in(flat) if t.ndim]
    if len(tensors) >= 2:
        # The i-th tensor keeps only dim i; the result must be that of the expanded tensors.
        k, size = len(tensors), 2
        position = iter(range(k))

        def alone(t):
            if not t.ndim:
                return t
            shape = [1] * k
            shape[next(position)] = size
            return t[:size].reshape(shape)

        a = tree_map(alone, flat)
        full = tree_map(lambda t: t.expand((size,) * k).contiguous() if t.ndim else t, a)
        assert_same(call(f, *a), call(f, *full), f"{label}: broadcast")


# Steps and tolerances of the numeric derivative, for the coarsest dtype among the results.
STEPS = {
    F8: {"eps": 1e-6, "atol": 1e-5},
    torch.float32: {"eps": 2.0**-7, "atol": 1e-3},
    torch.float16: {"eps": 0.25, "atol": 2e-2},
    torch.bfloat16: {"eps": 0.25, "atol": 1e-1},
}


def constants_of(record, args):
    """Returns ids of tensors that must not require grad; class weights only for class targets."""
    return {
        id(args[i])
        for i in record["constants"]
        if len(args) > i and isinstance(args[i], torch.Tensor)
        if not (record["kind"] == "loss" and is_float(args[1]))
    }


def check_gradients(record, sample, ops=OPS):
    if not has_derivative(sample):
        return False
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    constants = constants_of(record, args)
    leaves = [
        t.requires_grad_()
        for t in tensors_in((args, kwargs))
        if t.dtype is F8 and id(t) not in constants
    ]
    if not leaves:
        return False
    label = f"{record['name']}({sample})"
    positions = {id(t): i for i, t in enumerate(leaves)}

    def run(*values):
        a, k = tree_map(
            lambda t: values[positions[id(t)]] if id(t) in positions else t, (args, kwargs)
        )
        return tuple(r for r in results(call(f, a, k)) if is_float(r))

    outputs = run(*leaves)
    if not outputs:  # a conversion to integers has no history
        every = results(call(f, args, kwargs))
        assert every and not any(r.requires_grad for r in every), f"{label}: integers with history"
        return True
    assert outputs and any(o.requires_grad for o in outputs), f"{label}: no result requires grad"
    if any(t.numel() == 0 for t in leaves):
        sum(o.sum() for o in outputs).backward()
        assert all(t.grad is None or t.grad.shape == t.shape for t in leaves), label
        return True
    coarsest = max((o.dtype for o in outputs), key=lambda d: torch.finfo(d).eps)
    coarsest = coarsest.to_real()
    step = STEPS[coarsest]
    try:
        with warnings.catch_warnings():
            if coarsest is not F8:
                warnings.simplefilter("ignore")  # not double precision: the step is wider instead
            assert gradcheck(run, leaves, **step, rtol=1e-3), label
        if coarsest is F8:
            assert gradgradcheck(run, leaves, atol=1e-4, rtol=1e-3), label
    except RuntimeError as e:
        raise AssertionError(f"{label}: {e}") from e
    return True


def raises_without_derivative(result, name):
    try:
        result.sum().backward()
    except RuntimeError as e:
        return f"derivative for {name} is not implemented" in str(e).replace("'", "")
    return False


def check_not_differentiable(record, sample, ops=OPS):
    """Checks that results of an op without derivative have no history, or that backward raises."""
    args, kwargs = arguments(record, sample)
    args, kwargs = tree_map(lambda t: t.requires_grad_() if t.dtype is F8 else t, (args, kwargs))
    for r in results(call(ops.function(record), args, kwargs)):
        if r.requires_grad and raises_without_derivative(r, record["name"]):
            continue
        assert not r.requires_grad or any(r is t for t in tensors_in((args, kwargs))), (
            f"{record['name']}({sample})"
        )


def check_method(record, sample, ops=OPS):
    args, kwargs = arguments(record, sample)
    if not (args and isinstance(args[0], torch.Tensor)):
        return False
    want = call(ops.function(record), args, kwargs)
    assert_same(call(ops.method(record), args, kwargs), want, f"Tensor.{record['name']}({sample})")
    return True


def check_inplace(record, sample, ops=OPS):
    """Checks the in-place form: equal values and gradient, the same object, a new version."""
    args, kwargs = arguments(record, sample)
    if not (args and isinstance(args[0], torch.Tensor)):
        return False
    label = f"Tensor.{record['name']}_({sample})"
    want = call(ops.function(record), args, kwargs)
    if not isinstance(want, torch.Tensor) or want.shape != args[0].shape:
        return False
    if not torch.can_cast(want.dtype, args[0].dtype):
        return False
    target = args[0].clone()
    alias, version = target.view(target.shape), target._version
    assert call(ops.inplace(record), (target, *args[1:]), kwargs) is target, (
        f"{label}: returns another object"
    )
    assert target._version == version + 1, (
        f"{label}: version went from {version} to {target._version}"
    )
    assert target.dtype is args[0].dtype, f"{label}: dtype changed"
    assert_same(target, want.to(target.dtype), label)
    assert torch.equal(alias, target) or target.isnan().any(), f"{label}: storage was replaced"
    constant = id(args[0]) in constants_of(record, args)
    if record["differentiable"] and not constant and args[0].dtype is F8 and want.dtype is F8:
        grads = []
        for form in (
            lambda x: call(ops.function(record), (x * 1, *args[1:]), kwargs),
            lambda x: call(ops.inplace(record), (x * 1, *args[1:]), kwargs),
        ):
            x = args[0].clone().requires_grad_()
            y = form(x)
            y.backward(
                torch.linspace(1, 2, max(y.numel(), 1), dtype=F8)[: y.numel()].reshape(y.shape)
            )
            grads.append(x.grad)
        assert_same(grads[1], grads[0], f"{label}: gradient")
    return True


def check_out(record, sample, ops=OPS):
    args, kwargs = arguments(record, sample)
    f = ops.function(record)
    label = f"{record['name']}({sample}, out=...)"
    want = call(f, args, kwargs)
    fresh = [torch.zeros_like(w) for w in results(want)]
    pointers = [o.data_ptr() for o in fresh]
    got = call(
        f, args, kwargs | {"out": fresh[0] if isinstance(want, torch.Tensor) else tuple(fresh)}
    )
    assert_same(fresh, want, label)
    assert [o.data_ptr() for o in fresh] == pointers, f"{label}: memory was replaced"
    for g, o in zip(results(got), fresh, strict=True):
        assert g is o, f"{label}: returned another tensor"
        assert o._version > 0 or o.numel() == 0, f"{label}: version not bumped"
    if isinstance(want, torch.Tensor) and want.ndim:
        wide = torch.zeros(tuple(want.shape[:-1]) + (2 * want.shape[-1],), dtype=want.dtype)
        call(f, args, kwargs | {"out": wide[..., ::2]})
        assert_same(wide[..., ::2], want, f"{label} strided")
        assert not wide[..., 1::2].any().item(), f"{label}: wrote outside its strides"
    return True
