# SPDX-License-Identifier: BSD-3-Clause
"""Names the in-place rule that an error reports; the tests of in-place writes import this."""

import re

from conftest import ones

import cograd as torch

RULES = (
    ("multi-output view, base written", "has been modified inplace.*returns multiple views"),
    ("multi-output view", "is being modified inplace.*returns multiple views"),
    (
        "custom Function view, base written",
        "has been modified inplace.*created inside a custom Function",
    ),
    ("custom Function view", "is being modified inplace.*created inside a custom Function"),
    (
        "view of a no_grad view",
        "is a view of a view which was created in no_grad mode and is being",
    ),
    ("no_grad view, base written", "A view was created in no_grad mode and its base"),
    ("no_grad view", "A view was created in no_grad mode and is being modified inplace"),
    (
        "inference view",
        "A view was created in inference mode and is being modified inplace in normal",
    ),
    ("view of a leaf", "a view of a leaf Variable that requires grad is being used in an in-place"),
    ("leaf", "a leaf Variable that requires grad is being used in an in-place"),
    ("leaf was written", "a leaf Variable that requires grad has been used in an in-place"),
    (
        "saved tensor was written",
        "needed for gradient computation has been modified by an inplace operation",
    ),
    ("inference tensor", "Inplace update to inference tensor outside InferenceMode"),
    ("inference tensor saved", "Inference tensors cannot be saved for backward"),
    ("inference leaf", "Setting requires_grad=True on inference tensor outside"),
    ("no version", "Inference tensors do not track version counter"),
    ("no grad_fn", "does not require grad and does not have a grad_fn"),
    ("not a leaf", "only change requires_grad flags of leaf variables"),
    ("detach_ of a view", "Can't detach views in-place"),
    ("overlapping memory", "more than one element of the written-to tensor refers to a single"),
    (
        "dirty view, several results",
        "Function modifies inplace an input that is a view of another Tensor",
    ),
    ("out= with gradients", "don't support automatic differentiation"),
    ("cannot be cast", "can't be cast to the desired output type"),
)


def tried(function, *args, **kwargs):
    """Returns the result of ``function``, or the name of the rule that it broke."""
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        for name, pattern in RULES:
            if re.search(pattern, str(error), re.DOTALL):
                return name
        raise


def plain(value):
    """Returns tensors as nested lists, and names of nodes without the suffix ``Backward0``."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return re.sub(r"Backward\d?$", "", value) if isinstance(value, str) else value


def name(tensor):
    """Returns the name of the tensor's node."""
    return None if tensor.grad_fn is None else tensor.grad_fn.name()


def gradient(result, of):
    """Returns ``of.grad`` after ``result.backward(ones)``."""
    result.backward(ones(*result.shape))
    return of.grad
