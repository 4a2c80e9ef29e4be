# SPDX-License-Identifier: BSD-3-Clause
"""A Sphinx extension that writes a page for each class of cograd.nn, and the list of them.

As the pages of ops, they are orphans: the list and search lead to them, and no sidebar has them.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

FAMILIES = {
    "Containers and parameters": "module container parameter data_parallel",
    "Linear": "linear",
    "Convolutions": "conv fold",
    "Activations": "activation softmax",
    "Losses": "loss loss_labels adaptive",
    "Normalisation": "batchnorm instancenorm normalization",
    "Pooling and resampling": "pooling upsampling pixelshuffle channelshuffle",
    "Padding and shape": "padding flatten",
    "Dropout": "dropout",
    "Embeddings and distances": "sparse distance",
    "Recurrent": "rnn",
    "Attention and transformers": "attention transformer",
}


def families() -> dict[str, list[str]]:
    """Returns the names of the public classes of each family."""
    from cograd import nn

    of = {module: family for family, names in FAMILIES.items() for module in names.split()}
    found: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name in nn.__all__:
        cls = getattr(nn, name)
        if inspect.isclass(cls):
            module = cls.__module__.rpartition(".")[2]
            # MultiheadAttention is in torch's module of activations.
            family = "Attention and transformers" if "Attention" in name else of[module]
            found[family].append(name)
    return found


def summary(name: str) -> str:
    """Returns the first sentence of a class's docstring."""
    from cograd import nn

    first = (inspect.getdoc(getattr(nn, name)) or "").split("\n\n")[0]
    return " ".join(first.replace("``", "`").split())


def page(name: str) -> str:
    """Returns the text of a class's page."""
    return f"""---
orphan: true
---

# {name}

```{{eval-rst}}
.. autoclass:: cograd.nn.{name}
   :members:
```

All classes: [cograd.nn](../nn.md).
"""


def index() -> str:
    """Returns the page that lists the classes."""
    lines = ["# cograd.nn", "", "Each class has a page. `cograd.nn.functional` has [the same as"]
    lines += ["functions](nn_functional.md).", ""]
    for family, names in families().items():
        lines += [f"## {family}", ""]
        for name in sorted(names):
            lines += [f"[`{name}`](nn/{name}.md)", f": {summary(name)}", ""]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Writes the pages that changed into docs/api, and removes those of classes that are gone."""
    texts = {f"nn/{n}.md": page(n) for names in families().values() for n in names}
    texts["nn.md"] = index()
    (folder / "nn").mkdir(parents=True, exist_ok=True)
    for old in (folder / "nn").glob("*.md"):
        if f"nn/{old.name}" not in texts:
            old.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    """Registers with Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "api"))
    return {"parallel_read_safe": True}
