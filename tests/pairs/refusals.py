# SPDX-License-Identifier: BSD-3-Clause
"""Cells that may raise, because torch 2.13 raises as well or docs/differences.md says so.

An entry has the reason, and patterns for the error and the parts of the cell.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    reason: str
    error: str
    subject: str = ""
    contexts: str = ""
    measure: str = ""
    form: str = ""

    def fits(self, subject, form, contexts, measure, error):
        places = (
            (self.subject, subject.name),
            (self.form, form),
            (self.contexts, " + ".join(contexts)),
            (self.measure, measure.name),
            (self.error, f"{type(error).__name__}: {error}"),
        )
        return all(re.search(pattern, text) for pattern, text in places)


WRITES = (
    "vmap: .*is not possible: the written values differ from sample to sample"
    "|the input has a value for each sample of a vmap, but running_"
)
REFUSALS = [
    Refusal(
        "NumPy has no bfloat16",
        "NumPy has no bfloat16|ScalarType BFloat16",
        contexts="NumPy|nested packs",
    ),
    Refusal(
        # In docs/differences.md: pickle of a result in a graph. deepcopy raises in torch, too.
        "the older weight_norm keeps a weight that is no leaf",
        "deepcopy protocol|cannot pickle a Tensor that is not a leaf",
        subject=r"utils\.(weight|spectral)_norm",
    ),
    Refusal(
        "vmap of running statistics, which are one for all samples (torch: batching rule raises)",
        WRITES,
        subject=r"BatchNorm|InstanceNorm",
        measure="vmap",  # not ensemble and hessian, whose inputs are the same for all samples
    ),
    Refusal(
        "the same in an ensemble, after a layer with parameters of its own (torch raises as well)",
        WRITES,
        subject=r"Sequential\(nn\.Conv2d.*BatchNorm",
        measure="^ensemble$",
    ),
    Refusal(
        # Not of nested functions: what a hook is for there begins inside of the vmap.
        "the vmap ends before the backward (torch: such a tensor does not require grad inside)",
        r"vmap: register_hook\(\) is not possible on a Tensor inside of a vmap",
        contexts="hooks",
        measure=r"^(backward through vmap|ensemble)|of vmap\(jvp\)$",
    ),
    Refusal(
        "max_norm writes the weight that the checkpoint saved (torch raises as well)",
        "modified by an inplace operation.*_SaveInputs|embedding_renorm_.* captured Tensor",
        subject="max_norm",
        contexts="checkpoint",
    ),
    Refusal("the loss looks for negative variances", r"vmap: .*\.item\(\)", subject="GaussianNLL"),
    Refusal(
        # The Jacobian in forward mode of a gradient is a Hessian, whatever the name.
        "running statistics in a hessian (docs/differences.md)",
        WRITES,
        subject=r"BatchNorm|InstanceNorm",
        measure=r"hessian|(jacfwd|jacobian\(forward\)) of |of func\.jacfwd",
    ),
    Refusal(
        "a write to what a module with backward hooks got, in a batch (torch raises outside too)",
        "BackwardHookFunctionBackward is a view and is being modified inplace",
        subject="inplace=True",
        contexts="full backward|all module hooks",
        measure=r"vmap|jac|hessian|ensemble",
    ),
    Refusal(
        "parametrized modules are not pickled", "Serialization of parametrized", contexts="pickle"
    ),
    Refusal(
        # In a thread torch raises as well; what enable_grad() records: docs/differences.md.
        "an inference tensor, made by the outer context, is saved where ops are recorded",
        "Inference tensors cannot be saved for backward",
        contexts=r"(hooks|retain_grad|nested checkpoint|in a reentrant one|a Function) "
        r"\+ (enable_grad|another thread)",
        measure="^inference_mode$",
    ),
    Refusal(
        "a backward that reads elements has no derivative, and no elements in a vmap",
        r"the backward of Cube\w+: it reads elements|differentiate twice|once_differentiable"
        r"|vmap: .*(tolist|\.item)\(\)|a function that is differentiable once",
        subject=r"own\.cube_",
    ),
    Refusal(
        "what one custom Function saves of another's result has no second tangent",
        "is an intermediate result of forward, whose tangent is not known",
        subject=r"own\.cube_",
        contexts="a Function",
        measure="jvp|jacfwd|dual|linearize|forward",
    ),
    Refusal(
        "the sparsity of a product in a vmap depends on the sample",
        "vmap: .*an operation that reads values|sparse.*vmap|vmap.*sparse",
        subject="to_sparse",
        measure="vmap|jac|hessian|batched|ensemble",
    ),
    Refusal("a state that power iteration writes", WRITES, subject="spectral_norm"),
    Refusal(
        "hooks that are lambdas have no name to pickle",
        "pickle",
        contexts="pickle.*hooks|hooks.*pickle",
    ),
]


def reason(subject, form, contexts, measure, error):
    """Returns the reason why the cell may raise this error; None if it may not."""
    for refusal in REFUSALS:
        if refusal.fits(subject, form, contexts, measure, error):
            return refusal.reason
    return None
