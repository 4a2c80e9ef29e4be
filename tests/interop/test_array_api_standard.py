# SPDX-License-Identifier: BSD-3-Clause
"""The text of the array API standard, read as tests: names, signatures, special cases.

The distribution ``array-api`` has the docstrings of every edition. It is read as text, because its
modules need Python 3.12; COGRAD_ARRAY_API is the directory that it was installed to. .ci/nightly
installs it: `pip install --no-deps --target DIRECTORY array-api==1.0.0`.
"""

import ast
import inspect
import itertools
import math
import operator
import os
import re
from functools import cache
from pathlib import Path

import pytest

import cograd
from cograd import array_api as xp

FILE = Path(os.environ.get("COGRAD_ARRAY_API", "")) / "array_api" / "_2024_12.py"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not FILE.is_file(), reason="COGRAD_ARRAY_API does not name array-api"),
]

# Names of the standard whose protocol here is no function of the namespace.
NOT_FUNCTIONS = {"Array", "Info", "NestedSequence", "finfo_object", "iinfo_object"}
# Differences that stay, each with its reason; docs/array_api.md says the same.
# The second item is part of the line.
SKIPPED = {
    ("remainder", "``-0`` and ``x2_i`` is greater"): "a zero has the sign of the first operand",
    ("remainder", "``+0`` and ``x2_i`` is less"): "a zero has the sign of the first operand",
    ("floor_divide", "libraries may return"): "Python's results, which the standard permits",
    ("sqrt", "``a`` is ``+infinity`` and ``b`` is a positive"): "C99 and NumPy: +infinity + 0j",
    ("sqrt", "``a`` is ``NaN`` and ``b`` is any"): "another line says: for b +infinity, +infinity",
    ("tanh", "``a`` is ``+infinity`` and ``b`` is a positive"): "C99 and NumPy: 1 + 0j sin(2b)",
    ("expm1", "``a`` is either ``+0`` or ``-0`` and ``b`` is ``+0``"): "as of a real -0: -0",
}


@cache
def protocols():
    """Returns the classes of the edition by name."""
    text = FILE.read_text(encoding="utf-8")
    text = re.sub(r"^(\s*(?:class|def) \w+)\[.*\]\(", r"\1(", text, flags=re.M)  # generics
    return {n.name: n for n in ast.parse(text).body if isinstance(n, ast.ClassDef)}


@cache
def functions():
    """Returns (module, name) -> the declaration of each function of the namespace."""
    found = {}
    for name, node in protocols().items():
        call = [d for d in node.body if isinstance(d, ast.FunctionDef) and d.name == "__call__"]
        if call and name not in NOT_FUNCTIONS:
            found[name] = (call[0], ast.get_docstring(node) or "")
    return found


def mine(name):
    """Returns cograd's functions of a name: in the namespace or in its extensions."""
    places = [p for p in (xp, xp.linalg, xp.fft) if hasattr(p, name)]
    return [value for p in places if callable(value := getattr(p, name))]


def test_every_function_is_here_with_its_parameters():
    wrong = []
    for name, (call, _) in functions().items():
        if not mine(name):
            wrong.append(f"{name} is missing")
        for function in mine(name):
            wrong += [f"{name}: {text}" for text in differences(call.args, function)]
    assert not wrong, "\n".join(wrong)


def differences(args, function):
    """Compares parameters by name, kind and order; further optional ones are allowed."""
    have = inspect.signature(function).parameters
    P = inspect.Parameter
    positional = [a.arg for a in args.posonlyargs][1:]  # without self
    by_either = [a.arg for a in args.args]
    if not args.posonlyargs:
        by_either = by_either[1:]
    order = [
        p.name for p in have.values() if p.kind in (P.POSITIONAL_ONLY, P.POSITIONAL_OR_KEYWORD)
    ]
    variadic = any(p.kind == P.VAR_POSITIONAL for p in have.values())
    if not variadic and len(order) < len(positional):
        yield f"takes {order}, the standard {positional}"
    for i, arg in enumerate(by_either):
        if arg not in have:
            yield f"has no parameter {arg}"
        elif have[arg].kind == P.KEYWORD_ONLY or order.index(arg) != len(positional) + i:
            yield f"{arg} is not at position {len(positional) + i}"
    for arg in args.kwonlyargs:
        if arg.arg not in have or have[arg.arg].kind == P.POSITIONAL_ONLY:
            yield f"has no keyword {arg.arg}"
    optional = {a.arg for a, d in zip(args.kwonlyargs, args.kw_defaults) if d is not None}
    for p in have.values():
        named = p.name in {a.arg for a in args.kwonlyargs} | set(by_either)
        if (
            p.kind == P.KEYWORD_ONLY
            and p.default is P.empty
            and p.name in optional | (set() if named else {p.name})
        ):
            yield f"requires {p.name}"


def test_arrays_have_every_member():
    body = [n for n in protocols()["Array"].body if isinstance(n, ast.FunctionDef)]
    missing = [n.name for n in body if not hasattr(cograd.Tensor, n.name)]
    assert len(body) > 40 and not missing


# --- special cases ----------------------------------------------------------------------------

INF, NAN = math.inf, math.nan
REALS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 2.5, -1.5, INF, -INF, NAN]
PARTS = [0.0, -0.0, 1.0, -1.0, 2.5, -0.5, INF, -INF, NAN]


def number(text):
    """Returns the number that the standard writes as ``-3πj/4`` or ``+infinity``; None: none."""
    text = text.strip().strip("`").replace(" ", "")
    m = re.fullmatch(r"([+-]?)(\d*)(π|infinity|NaN)?(?:/(\d+))?", text)
    if m is None or text in ("", "+", "-"):
        return None
    sign, digits, word, divisor = m.groups()
    value = {"π": math.pi, "infinity": INF, "NaN": NAN, None: 1.0}[word]
    if digits:
        value *= float(digits)
    elif word is None:
        return None
    return (-value if sign == "-" else value) / int(divisor or 1)


def same(a, b):
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


V = r"``([^`]*)``"
ATOMS = [  # what follows the name of an operand -> a test of it
    (rf"is (?:either )?{V} or {V}$", lambda x, a, b: same(x, number(a)) or same(x, number(b))),
    (
        rf"is (?:either )?a finite number or {V}$",
        lambda x, a: math.isfinite(x) or same(x, number(a)),
    ),
    (r"is a finite number$", lambda x: math.isfinite(x)),
    (r"is a non-?zero finite number$", lambda x: math.isfinite(x) and x != 0),
    (r"is a positive \(i.e., greater than ``0``\) finite number$", lambda x: 0 < x < INF),
    (r"is a negative \(i.e., less than ``0``\) finite number$", lambda x: -INF < x < 0),
    (rf"is greater than {V}$", lambda x, a: x > number(a)),
    (rf"is less than {V}$", lambda x, a: x < number(a)),
    (rf"is not equal to {V}$", lambda x, a: x != number(a)),
    (rf"is not {V}$", lambda x, a: not same(x, number(a))),
    (r"is any value(?:, including ``NaN``| \(including ``NaN``\))?$", lambda x: True),
    (r"is a nonzero number$", lambda x: x != 0 and x == x),
    (
        r"is (?:already integer-valued|an integer value)$",
        lambda x: math.isfinite(x) and x == int(x),
    ),
    (r"is not an integer value$", lambda x: not math.isfinite(x) or x != int(x)),
    (r"is an odd integer value$", lambda x: math.isfinite(x) and x == int(x) and x % 2 == 1),
    (r"is not an odd integer value$", lambda x: not (math.isfinite(x) and x % 2 == 1)),
    (rf"is {V}$", lambda x, a: same(x, number(a))),
]


def condition(text):
    """Returns a test of {name: value}, or None where the text is not understood."""
    m = re.fullmatch(rf"(?:either )?{V}(?: is ``NaN``)? or {V} is ``NaN``", text)
    if m:
        return lambda v: any(v[n] != v[n] for n in m.groups())
    m = re.fullmatch(
        rf"{V} and {V} have (the same|different) mathematical signs?"
        r"(?: and are both nonzero finite numbers)?",
        text,
    )
    if m:
        one, other, which = m.groups()
        nonzero = "nonzero" in text

        def signs(v):
            x, y = v[one], v[other]
            if x != x or y != y or (nonzero and not (0 < abs(x) < INF and 0 < abs(y) < INF)):
                return False
            return (math.copysign(1, x) == math.copysign(1, y)) == (which == "the same")

        return signs
    parts = re.split(r",? and (?=``)|, (?=``)", text)
    tests = [atom(part) for part in parts]
    return None if None in tests else lambda v: all(test(v) for test in tests)


def atom(text):
    m = re.match(r"``(abs\()?(\w+)\)?`` ", text)
    if m is None:
        return None
    take, rest = (abs if m[1] else float), text[m.end() :]
    for pattern, test in ATOMS:
        n = re.match(pattern, rest)
        if n and all(number(g) is not None for g in n.groups()):
            return lambda v: m[2] in v and test(take(v[m[2]]), *n.groups())
    return None


def result(text):
    """Returns a check of (result, {name: value}), or None where the text is not understood."""
    if text.startswith("a positive mathematical sign"):
        return lambda r, v: r != r or math.copysign(1, r) == 1
    if text.startswith("a negative mathematical sign"):
        return lambda r, v: r != r or math.copysign(1, r) == -1
    if text.startswith("a signed infinity"):
        return lambda r, v: abs(r) == INF
    near = "approximation" in text
    loose = "unspecified" in text or "±" in text
    m = re.match(
        r"(?:an implementation-dependent approximation to |equivalent to |equal to )?``([^`]*)``",
        text,
    )
    if m is None:
        return None
    what = m[1].strip()
    if what in ("True", "False"):
        return lambda r, v: r is (what == "True")
    named = re.fullmatch(r"(-?)(\|)?(?:abs\()?(x\d?_i|[ab])[|)]?", what)
    if named:
        use = abs if named[2] or "abs(" in what else float
        return lambda r, v: same(r, -use(v[named[3]]) if named[1] else use(v[named[3]]))
    m = re.fullmatch(r"(\S+) ([+-]) (.*j.*)", what.replace("±", "+").replace("+ +", "+"))
    if m:
        real, imag = number(m[1]), number(m[2] + m[3].replace("j", ""))
        if real is None or imag is None:
            return None
        return lambda r, v: equal(r.real, real, loose, True) and equal(r.imag, imag, loose, True)
    value = number(what)
    if value is None:
        return None
    return lambda r, v: equal(r, value, loose, near or what.strip("+-") not in ("0", "1"))


def equal(got, want, loose, near):
    if loose and got == -want:
        return True
    if near and math.isfinite(want) and want != 0:
        return math.isclose(got, want, rel_tol=1e-5)
    return same(got, want)


def cases(doc):
    """Yields the lines 'If ..., the result is ...' of the special cases."""
    for line in re.findall(r"^\s*- +(If .*)$", doc, re.M):
        m = re.fullmatch(r"If (.*?), (?:then )?the result (?:is|has) (.*)", line.strip())
        if m:
            yield m[1], re.sub(r"\.?\s*(\(\*\*note.*)?$", "", m[2]), line


# Functions of the standard that are operators of arrays, too -> names in the module operator.
OPERATORS = {
    "abs": "abs",
    "add": "add",
    "divide": "truediv",
    "equal": "eq",
    "floor_divide": "floordiv",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "pow": "pow",
    "remainder": "mod",
    "subtract": "sub",
}
# Lines in words that no rule above has: counted, so that a new edition is noticed.
UNREAD = 30


def test_special_cases():
    read, unread, wrong = 0, [], []
    for name, (_, doc) in functions().items():
        for given, then, line in cases(doc):
            test, check = condition(given), result(then)
            if test is None or check is None:
                unread.append(f"{name}: {line}")
                continue
            read += 1
            wrong += violations(name, line, test, check, then)
    assert not wrong, f"{len(wrong)} violations:\n" + "\n".join(wrong)
    assert read > 440 and len(unread) <= UNREAD, (read, len(unread), "\n".join(unread))


def violations(name, line, test, check, then):
    if any(name == n and part in line for n, part in SKIPPED) or name not in vars(xp):
        return []
    forms = [getattr(xp, name)]
    if name in OPERATORS:
        forms.append(getattr(operator, OPERATORS[name]))
    if "``a``" in line:  # of complex numbers: a + bj
        inputs = [({"a": a, "b": b}, (complex(a, b),)) for a in PARTS for b in PARTS]
        dtypes = (xp.complex64, xp.complex128)
    elif "x1_i" in line or "x2_i" in line:
        inputs = [({"x1_i": a, "x2_i": b}, (a, b)) for a, b in itertools.product(REALS, repeat=2)]
        dtypes = (xp.float32, xp.float64)
    elif name == "clip":
        return []
    else:
        inputs = [({"x_i": a}, (a,)) for a in REALS]
        dtypes = (xp.float32, xp.float64)
    for values, args in inputs:
        if not test(values):
            continue
        for dtype in dtypes:
            # Several elements, because vector loops and remainders are different code.
            for count in (1, 9):
                arrays = [xp.asarray([x] * count, dtype=dtype) for x in args]
                for function in forms:
                    for got in function(*arrays).tolist()[:: count - 1 or 1]:
                        if not check(got, values):
                            return [f"{function.__name__}{args} of {dtype} is {got}: {line}"]
    return []
