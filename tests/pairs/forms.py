# SPDX-License-Identifier: BSD-3-Clause
"""Forms of the inputs: other strides, empty tensors, tensors of one element."""

from pairs.package import T

# Same values, other memory: compared with the contiguous form.
LAYOUTS = ("strided", "transposed", "offset", "view", "channels_last", "expanded")
# Other shapes: compared with what torch gave, and with the plain call in that form.
SHAPES = ("empty", "one")
FORMS = ("plain", *LAYOUTS, *SHAPES)


def strided(t):
    """Returns a tensor that uses every second element of its memory."""
    return T.stack([t, t + 1], -1)[..., 0]


def transposed(t):
    """Returns a tensor whose dims lie in memory in reverse order."""
    dims = tuple(range(t.dim()))[::-1]
    return t.permute(dims).contiguous().permute(dims)


def offset(t):
    """Returns a tensor that does not begin at the start of its memory."""
    return T.cat([t.new_zeros(3), t.reshape(-1)])[3:].view(t.shape)


def view(t):
    """A view of a constant, which a leaf may be as well."""
    return offset(t)


def channels_last(t):
    if t.dim() == 4:
        return t.contiguous(memory_format=T.channels_last)
    return t.contiguous(memory_format=T.channels_last_3d) if t.dim() == 5 else t


def expanded(t):
    """Returns the first slice along dim 0, repeated with stride 0."""
    return t[:1].expand(t.shape) if t.dim() and t.shape[0] > 1 else t


def values_of(form, t):
    """Returns the contiguous tensor with the values that `t` has in this form."""
    return expanded(t).contiguous() if form == "expanded" else t


def apply(form, floats, constants):
    """Returns (floats, constants) in this form; None if the form would change nothing."""
    if form == "plain":
        return floats, constants
    if form.startswith("values of "):
        return [values_of(form.removeprefix("values of "), t).clone() for t in floats], constants
    if form in LAYOUTS:
        made = [globals()[form](t) for t in floats]
        moved = form in ("offset", "view")
        changed = any(a.stride() != b.stride() or moved for a, b in zip(made, floats))
        made = made if form == "view" else [t.detach() for t in made]
        return (made, constants) if changed else None
    sized = [t for t in [*floats, *constants] if t.dim()]
    if not floats or not sized or not floats[0].dim() or floats[0].shape[0] < 2:
        return None
    size = floats[0].shape[0]
    n = 0 if form == "empty" else 1

    def cut(t):
        return t[:n].clone() if t.dim() and t.shape[0] == size else t

    return [cut(t) for t in floats], [cut(t) for t in constants]
