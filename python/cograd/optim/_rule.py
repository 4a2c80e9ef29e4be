# SPDX-License-Identifier: BSD-3-Clause
"""Rule: the declaration of an optimizer, from which everything else about it is made.

The signature of the optimizer's ``__init__`` says its options with their order, types and defaults;
it is written out once, so that editors and type checkers see it. The Rule adds their ranges, the
state of a parameter, the formula, and the op of the table that runs a step in the core. The class
gets from both: the checks, ``defaults``, the options that old checkpoints lack, the docs of common
options, the arguments of the op, and the form for lists (see _lists.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import cograd
from cograd import _C, Tensor

from ._options import MODES, Check, check_modes, new_counter, number, on_gpu, rate

Group: TypeAlias = dict[str, Any]
Formula: TypeAlias = Callable[[Tensor, Tensor, dict[str, Any], Group], Tensor]


@dataclass(frozen=True)
class State:
    """A part of a parameter's state.

    Attributes:
        name: its key in the state.
        make: creates it from the parameter and the group; returns None for a parameter that does
            not have this part.
        when: the option that must be set for this part to be in use; "": it always is.
        column: the parameter of the form for lists that has this part of all parameters.
        counter: whether it is a 0-dim tensor, not of the parameter's size.
        late: whether the formula creates it itself.
    """

    name: str
    make: Callable[[Tensor, Group], Tensor | None]
    when: str = ""
    column: str = ""
    counter: bool = False
    late: bool = False

    def active(self, group: Group) -> bool:
        """Returns whether a group with these options uses this part."""
        return not self.when or bool(group[self.when])


def counter(name: str, first: float | Callable[[Group], float] = 0.0) -> State:
    """Declares a number that changes with every step; ``first`` may depend on the options."""

    def make(param: Tensor, group: Group) -> Tensor:
        device = param.device if on_gpu(param, group) else None
        value = first(group) if callable(first) else first
        return new_counter(value, group.get("fused"), device)

    column = "state_steps" if name == "step" else name + "s"
    return State(name, make, column=column, counter=True)


def zeros(name: str, when: str = "", column: str = "") -> State:
    """Declares a tensor like the parameter that starts with zeros."""
    return State(
        name, lambda param, group: cograd.zeros_like(param).detach(), when, column or name + "s"
    )


def filled(name: str, value: Callable[[Group], Any], column: str = "") -> State:
    """Declares a tensor like the parameter that starts with a number, which depends on options."""

    def make(param: Tensor, group: Group) -> Tensor:
        first: Any = number(value(group))
        start = complex(first, first) if param.is_complex() else first
        return cograd.full_like(param, start).detach()

    return State(name, make, column=column or name + "s")


@dataclass(frozen=True)
class Rule:
    """Declares an optimizer, together with the signature of its ``__init__``.

    Attributes:
        formula: one step of one parameter; None if the optimizer defines ``_update`` or ``step``.
        op: the name of the internal op that runs a step; None if there is only the formula. Its
            lists after params and grads have the names of ``state``, and its options the names of
            the optimizer's options or of their parts.
        state: the parts of a parameter's state, in the order in which they are created.
        checks: raises ValueError for an option out of range; in the order of the checks, after lr.
        parts: for options that are tuples, the names of the items in the op and the form for lists.
        later: options that the first releases did not have, besides the modes, with the values that
            checkpoints without them imply.
        gpu_counts: whether the op leaves counters where they are if they are on a GPU.
        sparse: one step of one parameter with a sparse gradient; None if there is none.
        order: the options in the order in which torch's groups have them, so that state dicts
            print as torch's do; "" if that is the order of the signature.
    """

    formula: Formula | None = None
    op: str | None = None
    state: tuple[State, ...] = ()
    checks: Mapping[str, Check] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    later: Mapping[str, Any] = field(default_factory=dict)
    gpu_counts: bool = False
    sparse: Callable[[Tensor, Tensor, dict[str, Any], Group], None] | None = None
    order: str = ""

    def defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the options among the local variables of an ``__init__``, after checking them."""
        options = {k: v for k, v in given.items() if k not in ("self", "params", "__class__")}
        for name, check in {"lr": rate(), **self.checks}.items():
            if name in options:
                check(options[name])
        check_modes(options)
        return {name: options[name] for name in self.order.split() or options}

    def keeps_state(self, group: Group) -> bool:
        """Returns whether parameters have state with these options, which may be tensors."""
        return any(
            not part.when or isinstance(group[part.when], Tensor) or bool(group[part.when])
            for part in self.state
        )

    # the call of the op

    @cached_property
    def _parameters(self) -> tuple[list[str], list[str]]:
        """The names of the op's lists of state and of its options."""
        text = getattr(_C._ops, self.op or "").__text_signature__.strip("()")
        names = [name.split("=")[0] for name in text.split(", ")]
        star = names.index("*")
        return names[2:star], [name for name in names[star + 1 :] if name != "created"]

    @cached_property
    def columns(self) -> tuple[State, ...]:
        """The state in the order of the op's lists."""
        state = {part.name: part for part in self.state}
        return tuple(state[name] for name in self._parameters[0])

    @cached_property
    def keys(self) -> tuple[Any, ...]:
        """For each option of the op its key in a group, or the key of a tuple and a position."""
        parts = {
            name: (option, i)
            for option, names in self.parts.items()
            for i, name in enumerate(names)
        }
        return tuple(parts.get(name, name) for name in self._parameters[1])


def options_of(kind: type) -> dict[str, Any]:
    """Returns the options of an optimizer class with their defaults, from its signature."""
    parameters = inspect.signature(kind).parameters.values()
    return {p.name: p.default for p in parameters if p.name != "params"}


def later_options(kind: type, rule: Rule) -> dict[str, Any]:
    """Returns the options that old checkpoints lack, with the values that this implies."""
    modes = {name: value for name, value in options_of(kind).items() if name in MODES}
    return {**modes, **rule.later}
