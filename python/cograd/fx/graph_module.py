# SPDX-License-Identifier: BSD-3-Clause
"""GraphModule: a module whose forward is written from a graph."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cograd
from cograd.fx._codegen import BUILTINS, PythonCode, PyTreeCodeGen
from cograd.fx._names import qualified_name, root_name
from cograd.fx._tracer import Tracer
from cograd.fx.graph import Graph
from cograd.nn import Module, Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

_numbers = itertools.count()
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def _compile(source: str, names: dict[str, Any]) -> dict[str, Any]:
    """Runs generated source; tracebacks and debuggers find its text."""
    file = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = dict(names)
    exec(compile(source, file, "exec"), names)
    for value in names.values():
        if getattr(getattr(value, "__code__", None), "co_filename", "") == file:
            weakref.finalize(value, linecache.cache.pop, file, None).atexit = False
    return names


def _method_from_src(method_name: str, src: str, globals: dict[str, Any]) -> Callable[..., Any]:
    return _compile(src, globals)[method_name]  # type: ignore[no-any-return]


def _forward_from_src(src: str, globals: dict[str, Any]) -> Callable[..., Any]:
    return _method_from_src("forward", src, globals)


def _import_statement(name: str, value: Any) -> str:
    """Returns the statement that makes ``name`` mean ``value``."""
    if name in BUILTINS and BUILTINS[name].obj is value:
        return (
            "import cograd as torch"
            if name == "torch" != root_name()
            else (BUILTINS[name].import_str.replace("torch", root_name()))
        )
    if value is cograd:
        return f"import {root_name()}" if name == root_name() else f"import cograd as {name}"
    path = qualified_name(value)
    module, _, attribute = path.rpartition(".")
    if module == "operator":
        module = "_operator"
    return f"from {module or 'builtins'} import {attribute} as {name}"


def _import_block(names: dict[str, Any]) -> str:
    return "\n".join(sorted(_import_statement(name, value) for name, value in names.items()))


def _split(target: str) -> tuple[str, str]:
    prefix, _, name = target.rpartition(".")
    return prefix, name


def _get_attr(model: Module, attr_name: str) -> Any:
    found: Any = model
    for part in attr_name.split("."):
        found = getattr(found, part)
    return found


def _assign_attr(value: Any, module: Module, target: str) -> None:
    """Sets an attribute, making the modules on its way; tensors become buffers."""
    *path, name = target.split(".")
    for part in path:
        if getattr(module, part, None) is None:
            setattr(module, part, Module())
        module = getattr(module, part)
    if isinstance(value, cograd.Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def _copy_attr(source: Module, module: Module, target: str) -> None:
    """Copies an attribute if ``module`` lacks it."""
    value = _get_attr(source, target)
    prefix = _split(target)[0]
    owner: Any = source
    for part in [part for part in prefix.split(".") if part]:
        owner = getattr(owner, part)
        if getattr(module, part, None) is owner:  # copied as a whole
            return
        if getattr(module, part, None) is None:
            setattr(module, part, Module())
        module = getattr(module, part)
    name = _split(target)[1]
    is_buffer = isinstance(value, cograd.Tensor) and not isinstance(value, Parameter)
    if is_buffer:
        persistent = name not in getattr(owner, "_non_persistent_buffers_set", ())
        module.register_buffer(name, value, persistent=persistent)
    else:
        setattr(module, name, value)


class GraphModule(Module):
    """A module that runs a graph: its ``forward`` is Python source that is written from it.

    After the graph has been changed, call ``recompile``.

    Args:
        root: a module that has what the nodes name, or a dict from these names to the values.
        graph: the graph.
        class_name: the name of the class in prints.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """Makes a class for this instance alone, whose forward can change."""
        for base in cls.__mro__:
            if base.__qualname__ != "GraphModule.__new__.<locals>.GraphModuleImpl":
                cls = base
                break

        class GraphModuleImpl(cls):  # type: ignore[misc, valid-type]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = root.training
            for target in dict.fromkeys(targets):
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
            for target in sorted(dict.fromkeys(targets), key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self._tracer_cls = None
        if graph._tracer_cls and "<locals>" not in graph._tracer_cls.__qualname__:
            self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Any] = dict(getattr(root, "meta", None) or {})
        self._replace_hooks: list[Callable[..., Any]] = []
        self._create_node_hooks: list[Callable[..., Any]] = []
        self._erase_node_hooks: list[Callable[..., Any]] = []
        self._deepcopy_hooks: list[Callable[..., Any]] = []
        for name, value in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(self, name, value)
        self.graph = graph

    @property
    def graph(self) -> Graph:
        """The graph. Assigning another one recompiles."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of ``forward``."""
        if not hasattr(self, "_code"):
            raise RuntimeError("GraphModule: the code has not been generated; call recompile()")
        return self._code

    def recompile(self) -> PythonCode:
        """Writes ``forward`` anew from the graph; returns its source."""
        if isinstance(self._graph._codegen, PyTreeCodeGen):
            info = self._graph._codegen.pytree_info
            self._in_spec, self._out_spec = info.in_spec, info.out_spec
        code = self._graph.python_code(root_module="self")
        self._code = code.src
        self._lineno_map = code._lineno_map
        self._prologue_start = code._prologue_start
        vars(self).pop("_lazy", None)
        type(self).forward = _forward_from_src(code.src, code.globals)  # type: ignore[method-assign]
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs ``forward``; an error has a note with the line of it that failed."""
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            _note_line(error, type(self).forward)
            raise

    # Submodules.

    def add_submodule(self, target: str, m: Module) -> bool:
        """Adds ``m`` under a path, making the modules on its way.

        Returns:
            False if something on the way is no module.
        """
        prefix, name = _split(target)
        module: Any = self
        for part in [part for part in prefix.split(".") if part]:
            following = getattr(module, part, None)
            if following is None:
                following = Module()
                setattr(module, part, following)
            if not isinstance(following, Module):
                return False
            module = following
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Deletes the submodule at a path.

        Returns:
            False if there is none.
        """
        prefix, name = _split(target)
        module: Any = self
        for part in [part for part in prefix.split(".") if part]:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Deletes the submodules that no node names, and that no such module has."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:n]) for n in range(1, len(parts) + 1))
                if node.op == "call_module":
                    submodule = self.get_submodule(node.target)
                    used.update(f"{node.target}.{name}" for name, _ in submodule.named_modules())
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # Copies and files.

    def _kept(self) -> dict[str, Any]:
        """Returns the attributes that a copy shares."""
        names = ("_tracer_cls", "_tracer_extras", "meta", "_replace_hooks", "_create_node_hooks",
                 "_erase_node_hooks", "_deepcopy_hooks")  # fmt: skip
        return {name: vars(self)[name] for name in names if name in vars(self)}

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        held = _CodeOnlyModule({k: v for k, v in vars(self).items() if k != "_graph"})
        state = copy.deepcopy(vars(held), memo)
        shell = Module.__new__(Module)
        vars(shell).update(state)
        GraphModule.__init__(copied, shell, copy.deepcopy(self._graph), self._get_name())
        kept = {**state, **vars(copied)}
        kept["_graph"] = copied._graph
        kept.update(copy.copy(self._kept()), meta=copy.deepcopy(self.meta, memo))
        vars(copied).update(kept)
        for name in ("_parameters", "_buffers", "_modules"):  # also what no node names
            vars(copied)[name] = state[name]
        for hook in self._deepcopy_hooks:
            hook(copied)
        return copied

    def __copy__(self) -> GraphModule:
        copied = GraphModule(self, self.graph, self._get_name())
        self.graph.owning_module = self
        vars(copied).update(self._kept())
        copied.meta = dict(self.meta)
        return copied

    def __reduce__(self) -> Any:
        """Pickles the source and the attributes: reading it traces the source again."""
        body = {key: value for key, value in vars(self).items() if key != "_graph"}
        body["_graphmodule_cls_name"] = self._get_name()
        code = self._graph.python_code(root_module="self")
        return reduce_graph_module, (body, _import_block(code.globals))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Writes a package with a class that does the same, and with its parameters.

        Args:
            folder: a directory, which is made.
            module_name: the name of the class.
        """
        folder = Path(folder)
        folder.mkdir(exist_ok=True, parents=True)
        hidden = {name: self._buffers[name] for name in self._non_persistent_buffers_set}
        cograd.save({**self.state_dict(), **hidden}, folder / "state_dict.pt")
        code = self._graph.python_code(root_module="self")
        root = root_name()
        lines, pickled = [], []
        for name, child in self.named_children():
            if type(child) in _SHOWN and not list(child.children()):
                lines.append(f"self.{name} = {root}.nn.{child!r}" if name.isidentifier() else
                             f"setattr(self, {name!r}, {root}.nn.{child!r})")  # fmt: skip
                continue
            file = folder / f"{name}.pt"
            cograd.save(child, file)
            pickled.append(name)
            load = f"{root}.load(_HERE / {file.name!r}, weights_only=False)"
            lines.append(f"setattr(self, {name!r}, {load})")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                made = f"{root}.empty({list(buffer.shape)}, dtype={buffer.dtype})"
                lines.append(f"self.register_buffer({name!r}, {made})")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                made = f"{root}.empty({list(parameter.shape)}, dtype={parameter.dtype})"
                lines.append(f"setattr(self, {name!r}, {root}.nn.Parameter({made}))")
        lines.append(f"self.load_state_dict({root}.load(_HERE / 'state_dict.pt'))")
        body = "\n".join(f"        {line}" for line in lines)
        forward = "\n".join("    " + line if line else "" for line in code.src.split("\n"))
        text = (
            f"from pathlib import Path\n\nimport {root}\n{_import_block(code.globals)}\n"
            f"\n_HERE = Path(__file__).parent\n\n\nclass {module_name}({root}.nn.Module):\n"
            f"    def __init__(self):\n        super().__init__()\n{body}\n{forward}\n"
        )
        (folder / "module.py").write_text(text, encoding="utf-8")
        (folder / "__init__.py").write_text("from .module import *\n", encoding="utf-8")
        if pickled:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as pickled "
                f"files instead: {pickled}",
                stacklevel=2,
            )

    # Text.

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """Prints and returns the source with comments, and that of submodules with graphs.

        Args:
            print_output: False only returns it.
            include_stride, include_device, colored, fast_sympy_print, additional_meta: no effect.
        """
        text = _readable(self, self._get_name(), expanded_def)
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        said = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, said])

    def _replicate_for_data_parallel(self) -> Any:
        return copy.copy(self)

    # Hooks on changes of the graph.

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[..., Any]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[..., Any]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable[..., Any]) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable[..., Any]) -> None:
        self._deepcopy_hooks.remove(f)

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)


_SHOWN = (
    cograd.nn.Linear, cograd.nn.Conv1d, cograd.nn.Conv2d, cograd.nn.Conv3d, cograd.nn.BatchNorm1d,
    cograd.nn.BatchNorm2d, cograd.nn.BatchNorm3d, cograd.nn.ReLU,
)  # fmt: skip


def _note_line(error: Exception, forward: Any) -> None:
    """Adds the line of generated source to an error: plain tracebacks do not show it."""
    code: Any = getattr(forward, "__code__", None)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    if trace is not None and hasattr(error, "add_note"):  # from Python 3.11 on
        line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
        error.add_note(
            f"Call using an FX-traced Module, line {trace.tb_lineno} of the traced Module's "
            f"generated forward function:\n    {line}"
        )


def _readable(module: Module, name: str, expanded_def: bool) -> str:
    graph = getattr(module, "graph", None)
    if not isinstance(graph, Graph):
        raise AssertionError("print_readable must be used on a module with a graph")
    code = graph.python_code("self", verbose=True, expanded_def=expanded_def).src
    code = f"class {name}(torch.nn.Module):\n{_indented(code.lstrip())}"
    parts = [
        _indented(_readable(child, child_name, expanded_def))
        for child_name, child in module.named_children()
        if isinstance(getattr(child, "graph", None), Graph)
    ]
    return "\n".join([code.rstrip() + "\n", *parts])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line.strip() else "" for line in text.split("\n"))


class _CodeOnlyModule(Module):
    """A module with the attributes and the source of a GraphModule, to be traced again."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        vars(self).update(body)


class _KeepModules(Tracer):
    """Records all calls of submodules."""

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """Returns the GraphModule of a pickle."""
    source = body.get("_code") or body["code"]
    if sys.modules.get("torch") is not cograd:  # the file may be written under the alias
        import_block = import_block.replace("import torch\n", "import cograd as torch\n")
        import_block = import_block.replace("from torch", "from cograd")
        import_block = import_block.replace("import torch.", "import cograd.")
    names = _compile(f"{import_block}\n{source}", {})
    held = _CodeOnlyModule(body)
    tracer_cls = body.get("_tracer_cls") or Tracer
    keeping = type("KeepModules", (_KeepModules, tracer_cls), {})
    shell = type("_Shell", (_CodeOnlyModule,), {"forward": names["forward"]})
    vars(held).pop("_graphmodule_cls_name", None)
    module = shell(vars(held))
    graph = keeping().trace(module, **(body.get("_tracer_extras") or {}))
    graph._tracer_cls = tracer_cls
    made = GraphModule(module, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    own = vars(made)
    for name, value in body.items():
        if name not in own or name in ("_parameters", "_buffers", "_modules", "meta", "training"):
            own[name] = value
    own.pop("_graphmodule_cls_name", None)
    return made
