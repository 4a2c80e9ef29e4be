# SPDX-License-Identifier: BSD-3-Clause
"""The modules and functions that jit.trace and jit.load return."""

from __future__ import annotations

from typing import Any

import cograd
from cograd.nn import Module

__all__ = ["ScriptFunction", "ScriptModule", "TopLevelTracedModule", "TracedModule"]


class ScriptModule(Module):
    """torch's type of scripted modules: the base of what ``trace`` and ``load`` return."""

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Writes the module, see ``jit.save``."""
        cograd.jit.save(self, f, _extra_files)


class TracedModule(ScriptModule):
    """The parameters and buffers of a module inside of a traced one."""

    original_name: str = ""

    def extra_repr(self) -> str:
        """Returns the name of the class that was traced."""
        return f"original_name={self.original_name}"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: only the whole module has a graph."""
        raise RuntimeError(
            f"jit.trace: {self.original_name} was traced as a part of another module"
        )


def _compiled(graph: Any) -> Any:
    code = graph.python_code("self")
    names = dict(code.globals)
    exec(compile(code.src, f"<traced {code.src.partition('(')[0].strip()}>", "exec"), names)
    return names["forward"]


class TopLevelTracedModule(TracedModule):
    """A traced module: it runs a recorded graph with the parameters of the original."""

    _plain: Any = None  # the archive's functions to plain data and back, for pickle and copies

    def __init__(self, name: str, graphs: dict[str, Any]) -> None:
        super().__init__()
        self.original_name = name
        self._graphs = graphs
        self._methods = {method: _compiled(graph) for method, graph in graphs.items()}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the recorded calls."""
        if "forward" not in self._methods:
            raise RuntimeError("jit.trace_module: the method forward was not traced")
        return self._methods["forward"](self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        function = self.__dict__.get("_methods", {}).get(name)
        return super().__getattr__(name) if function is None else function.__get__(self)

    @property
    def graph(self) -> Any:
        """The recorded calls as a graph of ``cograd.fx``."""
        return next(iter(self._graphs.values()))

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The recorded calls as Python."""
        return str(self.graph.python_code("self").src).strip() + "\n"

    def __reduce_ex__(self, protocol: Any) -> Any:
        to_data, from_data = self._plain
        return from_data, (to_data(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        to_data, from_data = self._plain
        copied = from_data(to_data(self))
        with cograd.no_grad():
            for module in copied.modules():
                for tensor in [*module._parameters.values(), *module._buffers.values()]:
                    if tensor is not None and id(tensor) not in memo:
                        memo[id(tensor)] = tensor
                        tensor.data = tensor.data.clone()
        return copied


class ScriptFunction:
    """torch's type of scripted functions: what ``trace`` returns for a function."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.__name__ = self.name = module.original_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the recorded calls."""
        return self._module.forward(*args, **kwargs)

    @property
    def graph(self) -> Any:
        """The recorded calls as a graph of ``cograd.fx``."""
        return self._module.graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The recorded calls as Python."""
        return str(self._module.code)

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Writes the function, see ``jit.save``."""
        cograd.jit.save(self, f, _extra_files)
