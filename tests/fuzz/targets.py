# SPDX-License-Identifier: BSD-3-Clause
"""The targets of `ops`: every record of the op table in every form, and everything else public.

A target is (path, parameters, samples): the Python text of the callable, a list of (name, kind,
keyword_only), and for an op its samples as texts of arguments.
"""

import ast
import inspect

from op_table import samples_of

import cograd as torch
from cograd import _C

# Calls that end the process, write files, wait, or change what all later calls do.
LEFT_OUT = set(
    """set_num_threads set_num_interop_threads load save set_default_dtype set_default_device
    set_default_tensor_type set_anomaly_enabled set_printoptions printoptions set_warn_always
    use_deterministic_algorithms set_deterministic_debug_mode set_flush_denormal preload_openblas
    set_grad_enabled set_float32_matmul_precision vmap set_rng set_rng_state share_memory_ import_ir
    seed set_multithreading_enabled set_detect_anomaly detect_anomaly from_file apply_ map_ map2_
    set_forward_mode_ad_enabled reinforce pin_memory module_load install_as_torch""".split()
)
KINDS_OF_NAMES = {
    "Tensor": "input other x y a b tensor weight bias self target A B C vec mat mat1 mat2 batch1 batch2 "
    "tensor1 tensor2 end value values src source mask index indices running_mean running_var hx anchor "
    "positive negative test_elements elements boundaries sorted_sequence scale offsets log_probs "
    "query key grad theta grid exponent data",
    "Int": "n num_classes k r N M steps bins diagonal offset groups num_samples minlength "
    "sections chunks kernel dilation_ num_groups ignore_index start end_ step length decimals hop_length "
    "n_fft win_length window_length upscale_factor downscale_factor num_heads embed_dim_to_check",
    "Dim": "dim dim0 dim1 axis dim_ start_dim end_dim source_ destination",
    "Dims": "dims axes",
    "Ints": "stride padding dilation kernel_size output_size output_padding normalized_shape s pad shifts "
    "repeats split_size split_size_or_sections indices_or_sections",
    "Shape": "size shape sizes",
    "Double": "p eps alpha beta rtol atol rcond lambd margin momentum dropout_p negative_slope threshold std "
    "mean low high lower upper scale_factor max_norm norm_type label_smoothing lambd tol",
    "Bool": "keepdim unbiased inplace training largest sorted descending stable right bidirectional "
    "batch_first upper_ transpose unitriangular left equal_nan hermitian full_matrices align_corners "
    "ceil_mode return_indices return_counts return_inverse requires_grad scale_grad_by_freq sparse "
    "is_causal accumulate log_target log_input full swap one_sided normalized",
    "String": "reduction mode norm padding_mode reduce driver approximate indexing rounding_mode UPLO ord_",
    "Tensors": "tensors arrays inputs outputs params parameters flat_weights",
    "DType": "dtype type", "Generator": "generator", "Device": "device",
    "Callable": "func fn hook function f",
}  # fmt: skip
KIND_OF = {n: kind for kind, names in KINDS_OF_NAMES.items() for n in names.split()}
SAMPLE_MAKERS = {n: "S" + n for n in "TPSIB"}


class _Rename(ast.NodeTransformer):
    def visit_Name(self, node):
        return ast.Name(SAMPLE_MAKERS.get(node.id, node.id), node.ctx)


def sample_texts(record):
    """Returns the samples of a record as (positional texts, {keyword: text})."""
    found = []
    for sample in samples_of(record):
        call = ast.parse(f"f({sample.removeprefix('~')})", mode="eval").body
        call = _Rename().visit(call)
        if any(isinstance(a, ast.Starred) or isinstance(a, ast.Lambda) for a in call.args):
            continue
        words = {k.arg: ast.unparse(k.value) for k in call.keywords if k.arg}
        found.append(([ast.unparse(a) for a in call.args], words))
    return found


def of_op_table():
    for record in _C._op_table():
        name = record["name"]
        params = [(a["name"], a["kind"], a["keyword_only"]) for a in record["args"]]
        samples = sample_texts(record)
        space = "_C._nn" if record["namespace"] == "_nn" else "_C._ops"
        if name in LEFT_OUT:
            continue
        for form in (name, name + "_"):
            if hasattr(eval(space, {"_C": _C}), form):
                more = [("out", "Tensor", True)] if record["out"] and form == name else []
                yield f"{space}.{form}", params + more, samples
            if hasattr(torch.Tensor, form) and (record["method"] or form.endswith("_")):
                yield f"torch.Tensor.{form}", params, samples


def parameters(function):
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return [("input", "Tensor", False), ("b", "Any", False), ("c", "Any", False)]
    found = []
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            found.append((p.name, KIND_OF.get(p.name, "Any"), False))
        elif p.kind is not p.VAR_KEYWORD and p.name not in ("cls",):
            kind = KIND_OF.get(p.name)
            if kind is None:
                kind = "Bool" if isinstance(p.default, bool) else "Any"
            found.append((p.name, kind, p.kind is p.KEYWORD_ONLY))
    return found


MODULES = """torch torch.linalg torch.special torch.fft torch.nn.functional torch.signal.windows
torch.nn.init torch.nn.utils torch.nn.utils.rnn""".split()


def of_modules():
    for path in MODULES:
        try:
            module = eval(path, {"torch": torch})
        except AttributeError:
            continue
        for name in sorted(getattr(module, "__all__", None) or dir(module)):
            value = getattr(module, name, None)
            if name.startswith("_") or name in LEFT_OUT or not callable(value):
                continue
            if isinstance(value, type) and not name.endswith("Tensor") and name != "Size":
                continue
            yield f"{path}.{name}", parameters(value), []


METHODS = """__getitem__ __setitem__ __len__ __bool__ __float__ __int__ __index__ __complex__ __contains__
__iter__ __array__ __dlpack__ __add__ __radd__ __iadd__ __rsub__ __isub__ __mul__ __imul__
__truediv__ __itruediv__ __rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__
__ipow__ __matmul__ __rmatmul__ __imatmul__ __and__ __iand__ __rand__ __or__ __xor__ __lshift__
__rshift__ __ilshift__ __irshift__ __invert__ __neg__ __abs__ __eq__ __lt__ __deepcopy__
__reduce_ex__ __setstate__ __repr__ __format__ __dir__ __copy__""".split()


def of_methods():
    """Yields the methods and slots of Tensor; methods of ops also come from the op table."""
    for name in sorted({*dir(torch.Tensor), *METHODS}):
        value = getattr(torch.Tensor, name, None)
        if name in LEFT_OUT or value is None or not callable(value):
            continue
        if name.startswith("_") and name not in METHODS:
            continue
        params = parameters(value) if not name.startswith("__") else [("b", "Any", False)]
        if not params or params[0][0] not in ("self", "input"):
            params = [("self", "Tensor", False), *params]
        yield f"torch.Tensor.{name}", params, []
    for name in ("data", "grad", "requires_grad", "names", "shape", "T", "mT", "H", "real", "imag"):
        if hasattr(torch.Tensor, name):
            yield f"attribute.{name}", [("self", "Tensor", False), ("value", "Any", False)], []


def all_targets():
    found = [*of_op_table(), *of_modules(), *of_methods()]
    # Indexing has more cases than other methods, so it is drawn more often.
    found += [t for t in found if t[0].endswith(("__getitem__", "__setitem__"))] * 12
    return found
