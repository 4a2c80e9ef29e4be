# SPDX-License-Identifier: BSD-3-Clause
"""Creates a case from a seed: a call with its arguments as text, a mode, and what follows it."""

import random
from dataclasses import dataclass, field, replace

from fuzz.makers import ACTIONS, DTYPES, FILLS, LAYOUTS

FLOATS = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
SHAPES = """() | (1,) | (2,) | (3,) | (4, 4) | (3, 4) | (2, 3) | (1, 3) | (0,) | (0, 3) | (3, 0) |
(2, 3, 4) | (2, 2, 2) | (1, 2, 4, 4) | (2, 3, 5, 5) | (2, 1, 3, 3, 3) | (17,) | (65, 3) |
(1, 1, 1, 1, 1, 1) | (5, 5) | (300,)""".replace("\n", " ").split(" | ")
SHAPES = [s.strip(" |") for s in SHAPES]
INTS = "0 1 2 3 -1 -2 5 7 -7 64 255 -128 TOP LOW BIG -BIG 2**31 -2**31 2**32 2**40 2**63 -2**70 10**6".split()
MODES = (
    ["plain"] * 20
    + "no_grad inference vmap vmap vmap2 jvp jvp vjp grad jacrev jacfwd hessian dual hooks anomaly checkpoint "
    "functional thread mode".split()
)
AFTERS = (
    "backward backward_again create_graph third_order repr numpy pickle clone resize_input write_input free_input "
    "write_result iterate hash drop_graph"
).split()


@dataclass
class Case:
    path: str
    args: list = field(default_factory=list)
    words: dict = field(default_factory=dict)
    mode: str = "plain"
    after: list = field(default_factory=list)
    seed: int = 0

    def text(self):
        parts = [*self.args, *(f"{k}={v}" for k, v in self.words.items())]
        return (
            f"{self.mode}: {self.path}({', '.join(parts)}) then {' '.join(self.after) or 'nothing'}"
        )

    def smaller(self):
        """Yields cases with one thing less or one thing simpler, the greatest change first."""
        if self.mode != "plain":
            yield replace(self, mode="plain")
        if self.after:
            yield replace(self, after=[])
            for i in range(len(self.after)):
                yield replace(self, after=self.after[:i] + self.after[i + 1 :])
        for k in self.words:
            yield replace(self, words={n: v for n, v in self.words.items() if n != k})
        for i in reversed(range(len(self.args))):
            yield replace(self, args=self.args[:i])
            for plain in PLAINER:
                if len(plain) < len(self.args[i]):
                    yield replace(self, args=[*self.args[:i], plain, *self.args[i + 1 :]])
        for k, v in self.words.items():
            for plain in PLAINER:
                if len(plain) < len(v):
                    yield replace(self, words={**self.words, k: plain})


PLAINER = ["None", "1", "0", "T(())", "T((2,))", "T((2, 2))", "T((0,))", "Same(0)", "(1,)", "[]"]


class Maker:
    """Draws the texts of one case."""

    def __init__(self, rng):
        self.rng = rng
        self.shape = rng.choice(SHAPES)
        self.dtype = rng.choice(("float32", "float64", *DTYPES))
        self.grad = rng.random() < 0.6

    def one_of(self, texts):
        return self.rng.choice(texts)

    def tensor(self):
        r = self.rng
        if r.random() < 0.01:
            sizes = self.one_of(
                ["BIG", "2**31, 2**31", "0, BIG", "2**20, 0, 2**40", "TOP", "3, BIG"]
            )
            return f"Huge({sizes})"
        if r.random() < 0.1:
            return self.one_of([f"Same({r.randrange(3)})", f"Part({r.randrange(3)})"])
        shape = self.shape if r.random() < 0.75 else self.one_of(SHAPES)
        dtype = self.dtype if r.random() < 0.8 else self.one_of(list(DTYPES))
        layout = "plain" if r.random() < 0.4 else self.one_of(LAYOUTS)
        fill = "random" if r.random() < 0.5 else self.one_of(FILLS)
        return f"T({shape}, {dtype!r}, {layout!r}, {fill!r}, {self.grad and r.random() < 0.8})"

    def index_tensor(self):
        shape = self.one_of(SHAPES[:9])
        return (
            f"T({shape}, {self.one_of(['int64', 'int64', 'bool', 'uint8', 'int32'])!r}, 'plain', "
            f"{self.one_of(['index', 'small', 'zeros', 'extreme', 'negative'])!r})"
        )

    def number(self):
        return self.one_of(
            [
                *INTS,
                "0.5",
                "-1.5",
                "nan",
                "inf",
                "-inf",
                "1e308",
                "1j",
                "True",
                "False",
                "1e-320",
                "np.float32(2)",
            ]
        )

    def integer(self):
        if self.rng.random() < 0.7:
            return self.one_of(INTS[:9])
        return self.one_of([*INTS, "True", "np.int64(2)", "T((), 'int64')", "2.0"])

    def evil(self):
        r = self.rng
        what, k = self.one_of(ACTIONS), r.randrange(3)
        value = self.one_of(["0", "1", "2", "-1", "BIG", "0.5", "5000"])
        kind = r.random()
        if kind < 0.5:
            times = "" if r.random() < 0.7 else f", {r.randrange(1, 4)}"
            return f"Evil({what!r}, {value}, {k}{times})"
        if kind < 0.8:
            items = self.one_of(
                ["(1, 2)", "(0,)", "()", "(1, 2, 3)", "(T((2,)), T((2,)))", "('a',)", f"({value},)"]
            )
            claimed = self.one_of(["", "", "", ", 5", ", 0", ", 2**40", ", -1"])
            return f"EvilSeq({what!r}, {items}, {k}{claimed})"
        if kind < 0.9:
            return f"EvilArray({what!r}, {self.one_of(['array', 'dlpack', 'interface'])!r})"
        return f"EvilList({self.integer()}, {self.tensor()})"

    def ints(self):
        r = self.rng
        items = [
            self.integer() if r.random() < 0.9 else self.evil()
            for _ in range(r.choice((0, 1, 1, 2, 2, 2, 3, 4, 6)))
        ]
        if r.random() < 0.01:
            items = ["1"] * 70
        return self.sequence(items)

    def sequence(self, items):
        kind = self.rng.random()
        inside = ", ".join(items)
        if kind < 0.4:
            return f"({inside}{',' if items else ''})"
        return f"L({inside})" if kind < 0.9 else f"EvilList({inside})"

    def tensors(self):
        return self.sequence([self.tensor() for _ in range(self.rng.choice((0, 1, 2, 2, 3)))])

    def key(self):
        r = self.rng

        def one():
            kind = r.random()
            if kind < 0.25:
                return self.integer()
            if kind < 0.5:
                a, b, c = (
                    self.one_of(["None", self.integer(), self.evil()])
                    if r.random() < 0.8
                    else "None"
                    for _ in "abc"
                )
                return f"slice({a}, {b}, {c})"
            if kind < 0.75:
                return self.index_tensor()
            return self.one_of(
                [
                    "None",
                    "...",
                    "True",
                    self.ints(),
                    self.evil(),
                    "np.array([0, 1])",
                    "[True, False]",
                    "[[0, 1], [1, 0]]",
                ]
            )

        n = r.choice((1, 1, 1, 2, 2, 3, 4))
        items = [one() for _ in range(n)]
        return items[0] if n == 1 else self.sequence(items)

    def of_kind(self, kind):
        r = self.rng
        if r.random() < 0.04:
            return self.evil()
        if r.random() < 0.06:
            kind = self.one_of(list(self.KINDS))
        return self.KINDS.get(kind, Maker.anything)(self)

    def anything(self):
        return self.of_kind(
            self.one_of(
                ["Tensor", "Tensor", "Int", "Ints", "Scalar", "Bool", "Tensors", "Odd", "Index"]
            )
        )

    def string(self):
        return self.one_of(
            "'mean' 'sum' 'none' 'same' 'valid' 'L' 'U' 'ortho' 'forward' 'reflect' 'replicate' 'circular' 'constant' "
            "'prod' 'amax' 'floor' 'trunc' 'tanh' 'fro' 'nuc' 'ij' 'linear' 'bilinear' 'bicubic' 'nearest' 'reduced' "
            "'complete' '' 'x' '\\ud800' '\\x00' 'ij,jk->ik' 'i,i' '...->' 'ii->i' Name('mean') b'x'".split()
        )

    KINDS = {
        "Tensor": tensor, "TensorOrScalar": lambda m: m.tensor() if m.rng.random() < 0.7 else m.number(),
        "Tensors": tensors, "Scalar": number, "Int": integer, "Double": number, "Dim": integer,
        "Ints": ints, "Dims": ints, "Shape": ints, "Index": index_tensor, "Key": key, "String": string,
        "Bool": lambda m: m.one_of(["True", "False", "True", "False", "1", "None"]),
        "DType": lambda m: m.one_of([*(f"torch.{d}" for d in DTYPES), "float", "'float32'", "None"]),
        "Device": lambda m: m.one_of(["'cpu'", "torch.device('cpu')", "'cuda'", "0", "None", "'cpu:99'", "'meta'"]),
        "Generator": lambda m: m.one_of(["torch.Generator()", "None", "torch.Generator.__new__(torch.Generator)"]),
        "Callable": lambda m: f"Fn({m.one_of(ACTIONS)!r})",
        "Odd": lambda m: m.one_of(["object()", "{}", "torch", "...", "slice(None)", "range(3)", "b'xx'", "bytearray(8)",
                                   "np.ones((2, 2))", "np.zeros(0)", "torch.Size([2])", "memoryview(b'abcd')", "int", "set()",
                                   "{'a': 1}", "lambda *a: None", "torch.ones(2).untyped_storage()", "iter([1, 2])"]),
    }  # fmt: skip


def _hostile(m, text):
    """Returns a sample's argument, possibly in another dtype and layout, or some other value."""
    r = m.rng
    if r.random() < 0.07:
        return m.anything()
    if text.startswith(("ST(", "SP(", "SS(", "SI(", "SB(")):
        dtype = "None"
        if r.random() < 0.35:
            dtype = repr(m.dtype if r.random() < 0.7 else m.one_of(list(DTYPES)))
        elif text[1] in "TPS":
            dtype = repr(m.dtype if m.dtype in FLOATS else "float64")
        layout = "plain" if r.random() < 0.4 else m.one_of(LAYOUTS)
        fill = "None"
        if dtype != "None" and r.random() < 0.3:
            fill = repr(m.one_of(FILLS))
        return f"W({text}, {dtype}, {layout!r}, {fill}, {m.grad and text[1] in 'TPS'})"
    if r.random() < 0.15 and text.lstrip("-").isdigit():
        return m.integer()
    if r.random() < 0.05 and text.startswith(("(", "[")) and text.endswith((")", "]")):
        return f"L(*{text})"
    return text


def generate(targets, seed):
    """Returns the case of a seed, which is the same for equal seeds and equal targets."""
    rng = random.Random(seed)
    path, params, samples = rng.choice(targets)
    m = Maker(rng)
    args, words = [], {}
    if samples and rng.random() < 0.55:
        positional, named = rng.choice(samples)
        args = [_hostile(m, t) for t in positional]
        words = {k: _hostile(m, t) for k, t in named.items()}
        if any(p[0] == "out" for p in params) and rng.random() < 0.25:
            words["out"] = m.of_kind("Tensor")
        for name, kind, _ in params[len(args) :]:
            if rng.random() < 0.08 and name not in words:
                words[name] = m.of_kind(kind)
    else:
        setitem = path.endswith(("__getitem__", "__setitem__"))
        for i, (name, kind, keyword) in enumerate(params):
            if setitem and i == 1:
                kind = "Key"
            optional = i >= 2 and kind != "Tensor"
            if keyword or (optional and rng.random() < 0.4):
                if rng.random() < (0.25 if name != "out" else 0.3):
                    words[name] = m.of_kind(kind)
            elif not words:
                args.append(m.of_kind(kind))
            elif not keyword and rng.random() < 0.5:
                words[name] = m.of_kind(kind)
        if path.endswith("__setitem__"):
            args = args[:2] + [m.anything()]
        if rng.random() < 0.02:
            args.append(m.anything())
    mode = rng.choice(MODES)
    after = [rng.choice(AFTERS) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if m.grad and rng.random() < 0.5:
        after.insert(0, "backward")
    return Case(path, args, words, mode, after, seed)
