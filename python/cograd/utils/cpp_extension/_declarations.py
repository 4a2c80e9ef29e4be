# SPDX-License-Identifier: BSD-3-Clause
"""Reads function declarations from C++ text: enough for argument names, defaults and types.

It is not a C++ parser. It omits what it does not understand, and the caller falls back to
`arg0, arg1, ...`; only the compiler decides whether the code is correct.

"""

from __future__ import annotations

import re
from typing import NamedTuple


class Parameter(NamedTuple):
    """One parameter: its C++ type, its name ("" if it has none) and its default ("" if none)."""

    type: str
    name: str
    default: str


class Declaration(NamedTuple):
    """One function: its result type, its parameters, and the comment above it."""

    result: str
    parameters: tuple[Parameter, ...]
    doc: str
    keyword_from: int | None = None  # index of the first keyword-only parameter


_TOKEN = re.compile(
    r"""R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"   # raw string
      | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.){1,8}'
      | //[^\n]* | /\*.*?\*/
      | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*""",
    re.S | re.M | re.X,
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_LEXEME = re.compile(r"[A-Za-z_]\w*|::|->|&&|\.\.\.|[^\s\w]|\d[\w.']*")
_TYPE_WORDS = frozenset(
    "void bool char short int long float double signed unsigned auto const volatile struct class "
    "enum typename mutable register".split()
)
_PREFIXES = frozenset("static inline extern constexpr consteval virtual explicit friend".split())
_NOT_TYPES = frozenset(
    "return new delete throw else case goto co_return co_yield co_await and or not using "
    "operator sizeof if while for switch".split()
)
_OPEN = {"(": ")", "[": "]", "{": "}"}


def blank_comments(text: str, keep_strings: bool = True) -> str:
    """Returns the text with comments and preprocessor lines blanked; offsets stay the same."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        head = found.lstrip()[:1]
        if head in ('"', "'", "R"):
            if keep_strings:
                return found
            return found[0] + re.sub(r"[^\n]", "_", found[1:-1]) + found[-1]
        return re.sub(r"[^\n]", " ", found)

    return _TOKEN.sub(blank, text)


class Code(NamedTuple):
    """Three versions of C++ source, with the same offsets.

    Attributes:
        text: as written.
        code: without comments and preprocessor lines.
        shape: `code` with every character inside strings replaced by an underscore.
    """

    text: str
    code: str
    shape: str


def read(text: str) -> Code:
    """Prepares source text for the functions below."""
    return Code(text, blank_comments(text), blank_comments(text, keep_strings=False))


def matching(text: str, start: int) -> int:
    """Returns the offset of the bracket that closes the one at `start`, -1 if there is none."""
    stack: list[str] = []
    for i in range(start, len(text)):
        c = text[i]
        if c in _OPEN:
            stack.append(_OPEN[c])
        elif c in ")]}":
            if not stack or stack.pop() != c:
                return -1
            if not stack:
                return i
    return -1


def split_commas(text: str) -> list[str]:
    """Splits at the commas outside of brackets, template argument lists and strings."""
    parts, depth, angle, last, i = [], 0, 0, 0, 0
    in_default = False
    while i < len(text):
        c = text[i]
        if c in "\"'":
            end = _TOKEN.match(text, i)
            i = end.end() if end else i + 1
            continue
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "<" and (not in_default or _WORD.fullmatch(text[i - 1 : i])):
            angle += 1
        elif c == ">" and angle and text[i - 1 : i] != "-":
            angle -= 1
        elif c == "=" and not depth and not angle:
            in_default = True
        elif c == "," and not depth and not angle:
            parts.append(text[last:i])
            last, in_default = i + 1, False
        i += 1
    parts.append(text[last:])
    return [p.strip() for p in parts if p.strip()]


def _top_level_equals(text: str) -> int:
    depth = angle = 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "<":
            angle += 1
        elif c == ">" and angle:
            angle -= 1
        elif c == "=" and not depth and not angle:
            return i
    return -1


def _squeeze(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r" ?(::|<|>|,|&|\*|\(|\)) ?", r"\1", text).replace(",", ", ")


def parse_parameter(text: str) -> Parameter:
    """Splits one parameter such as `const std::vector<int>& sizes = {}`."""
    text = re.sub(r"\[\[.*?\]\]", " ", text, flags=re.S)
    default = ""
    at = _top_level_equals(text)
    if at >= 0:
        text, default = text[:at], text[at + 1 :].strip()
    text = text.strip()
    array = re.search(r"((?:\[[^\]]*\]\s*)+)$", text)
    suffix = ""
    if array:
        suffix = "*"
        text = text[: array.start()].rstrip()
    pointer = re.search(r"\(\s*[*&]\s*(\w+)\s*\)\s*\(", text)
    if pointer:
        return Parameter(_squeeze(text.replace(pointer.group(1), "", 1)), pointer.group(1), default)
    lexemes = _LEXEME.findall(text)
    if len(lexemes) > 1 and _WORD.fullmatch(lexemes[-1]) and lexemes[-1] not in _TYPE_WORDS:
        before = lexemes[-2]
        others = [w for w in lexemes[:-1] if w not in ("const", "volatile", "struct", "typename")]
        if before != "::" and others:
            kind = text[: text.rindex(lexemes[-1])]
            return Parameter(_squeeze(kind) + suffix, lexemes[-1], default)
    return Parameter(_squeeze(text) + suffix, "", default)


def parse_parameters(text: str) -> tuple[Parameter, ...]:
    """Splits the text between a function's parentheses."""
    parts = split_commas(text)
    if parts == ["void"]:
        return ()
    return tuple(parse_parameter(part) for part in parts)


def _doc_above(text: str, start: int) -> str:
    """Returns the comment that ends right above the line that contains `start`."""
    head = text[: text.rfind("\n", 0, start) + 1].rstrip(" \t")
    if head.endswith("\n"):
        head = head[:-1]
    if head.rstrip().endswith("*/"):
        begin = head.rfind("/*")
        body = head[begin + 2 : head.rfind("*/")]
        return "\n".join(line.strip().lstrip("*!").strip() for line in body.splitlines()).strip()
    lines: list[str] = []
    for line in reversed(head.split("\n")):
        stripped = line.strip()
        if not stripped.startswith("//") or "SPDX" in stripped:
            break
        lines.insert(0, stripped.lstrip("/!").strip())
    return "\n".join(lines).strip()


def _result_before(text: str, at: int) -> str | None:
    """Returns the result type that ends at `at`, None if there is no declaration."""
    begin = max(text.rfind(c, 0, at) for c in ";{}")
    head = text[begin + 1 : at]
    access = re.search(r"\b(?:public|private|protected)\s*:(?!:)", head)
    if access:
        head = head[access.end() :]
    head = re.sub(r"\[\[.*?\]\]", " ", head, flags=re.S)
    head = re.sub(r"\btemplate\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>", " ", head)
    head = re.sub(r"\b__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.S)
    head = re.sub(r'\bextern\s*"[^"]*"', " ", head)
    words = _LEXEME.findall(head)
    if not words or any(c in head for c in "=()") or _NOT_TYPES & set(words):
        return None
    if words[-1] in (".", "->", "::", ",", "+", "-", "/", "!", "?", ":"):
        return None
    kept = _squeeze(" ".join(w for w in words if w not in _PREFIXES))
    return kept if _WORD.search(kept) else None


def find_function(source: Code, name: str) -> Declaration | None:
    """Finds the declaration or definition of a function; prefers the one with most defaults.

    Args:
        source: C++ source.
        name: the function, with or without its namespace.

    Returns:
        The declaration, or None if there is none or overloads make it ambiguous.
    """
    text, code, shape = source
    plain = name.rpartition("::")[2]
    found: list[Declaration] = []
    for match in re.finditer(rf"(?<![\w.]){re.escape(plain)}\s*\(", shape):
        start = match.start()
        if shape[:start].rstrip().endswith("->"):
            continue
        qualifier = re.search(r"(?:\w+\s*::\s*)+$", shape[max(0, start - 200) : start])
        begin = start - len(qualifier.group()) if qualifier else start
        result = _result_before(shape, begin)
        close = matching(shape, match.end() - 1)
        if result is None or close < 0:
            continue
        rest = shape[close + 1 : close + 400]
        tail = re.match(
            r"\s*(?:const\b\s*)?(?:noexcept\b\s*(?:\([^)]*\)\s*)?)?(?:->\s*([^;{]+))?\s*[;{]", rest
        )
        if tail is None:
            continue
        if tail.group(1):
            result = _squeeze(tail.group(1))
        parameters = parse_parameters(code[match.end() : close])
        first = max(shape.rfind(c, 0, begin) for c in ";{}") + 1
        first += len(shape[first:begin]) - len(shape[first:begin].lstrip())
        found.append(Declaration(result, parameters, _doc_above(text, first)))
    if not found:
        return None
    if len({tuple(p.type for p in d.parameters) for d in found}) > 1:
        return None
    best = max(found, key=lambda d: sum(bool(p.default) + 2 * bool(p.name) for p in d.parameters))
    doc = next((d.doc for d in found if d.doc), "")
    return best._replace(doc=doc)


def find_struct(source: Code, name: str) -> Declaration | None:
    """Finds `struct name : ... Function<name>` and returns its forward, without the context."""
    text, code, shape = source
    plain = re.escape(name.rpartition("::")[2])
    match = re.search(
        rf"\b(?:struct|class)\s+{plain}\b(?:\s+final)?\s*:[^;{{]*\bFunction\s*<\s*{plain}\s*>[^;{{]*\{{",
        shape,
    )
    if match is None:
        return None
    close = matching(shape, match.end() - 1)
    body = slice(match.end(), close if close > 0 else len(shape))
    forward = find_function(Code(text[body], code[body], shape[body]), "forward")
    doc = _doc_above(text, match.start())
    if forward is None:
        return Declaration("", (), doc)
    kept = tuple(p for p in forward.parameters if "AutogradContext" not in p.type)
    return Declaration(forward.result, kept, doc or forward.doc)


_NUMBER = re.compile(r"([-+]?)\s*(0[xX][\da-fA-F']+|[\d'.]+(?:[eE][-+]?\d+)?)([uUlLfFzZ]*)")
_NONE = re.compile(
    r"(?:std|c10|at|torch|cograd)?(?:::)?(?:nullopt|optional<.*>(?:\{\}|\(\)))|nullptr|NULL"
)
_CONSTRUCTED = re.compile(r"[\w:]+(?:<.*>)?\s*(\{.*\}|\(.*\))", re.S)


def python_default(text: str, kind: str) -> str | None:
    """Translates a C++ default value into Python's notation.

    Args:
        text: the C++ expression.
        kind: the parameter's C++ type, which determines the meaning of `{}`.

    Returns:
        The Python literal, or None when the expression has no counterpart.
    """
    text = text.strip()
    optional = "optional" in kind or "Tensor" in kind
    listlike = re.search(r"\bvector<|Array|List|\bspan<|initializer_list", kind) is not None
    if text in ("true", "false"):
        return text.capitalize()
    if text in ("None", "True", "False") or re.fullmatch(r"\[[^\[\]]*\]", text):
        return text  # from the parameter string of a registration, which is Python syntax already
    if _NONE.fullmatch(text.replace(" ", "")):
        return "None"
    number = _NUMBER.fullmatch(text)
    if number:
        sign, digits, suffix = number.groups()
        digits = digits.replace("'", "")
        if re.fullmatch(r"0[0-7]+", digits):
            return f"{sign}0o{digits[1:]}"
        hexadecimal = digits[:2].lower() == "0x"
        if "f" in suffix.lower() and not hexadecimal and not re.search(r"[.eE]", digits):
            digits += ".0"
        return f"{sign}{digits}".replace("+", "")
    if re.fullmatch(r'"(?:[^"\\]|\\[\\"\'ntr])*"', text):
        return text
    braces = text if text.startswith("{") else None
    constructed = _CONSTRUCTED.fullmatch(text)
    if braces is None and constructed:
        inner = constructed.group(1)
        if inner[0] == "(" and inner != "()":
            return python_default(inner[1:-1], kind) if not listlike else None
        braces = "{" + inner[1:-1] + "}"
    if braces is None:
        return None
    items = split_commas(braces[1:-1])
    if not items and optional and not listlike:
        return "None"
    if not items and re.search(r"\bstring(_view)?\b", kind):
        return '""'
    if not items and "optional" in kind:
        return "None"
    if not listlike:
        return python_default(items[0], kind) if len(items) == 1 else None
    translated = [python_default(item, "") for item in items]
    if any(t is None for t in translated):
        return None
    return "[" + ", ".join(t for t in translated if t is not None) + "]"


def signature(declaration: Declaration) -> str:
    """Returns the parameters in Python syntax: `x, alpha=1.0`.

    A default without counterpart is dropped, and with it those before it: in Python a parameter
    without a default cannot follow one with a default.
    """
    names: list[str] = []
    defaults: list[str | None] = []
    for i, parameter in enumerate(declaration.parameters):
        names.append(python_name(parameter.name, i))
        value = python_default(parameter.default, parameter.type) if parameter.default else None
        defaults.append(value)
    for i in range(len(defaults) - 1, -1, -1):
        if defaults[i] is None:
            defaults[: i + 1] = [None] * (i + 1)
            break
    return ", ".join(n if d is None else f"{n}={d}" for n, d in zip(names, defaults, strict=True))


def python_name(name: str, position: int) -> str:
    """Returns a parameter's name in Python: keywords get an underscore, nameless ones a number."""
    import keyword

    if not name:
        return f"arg{position}"
    return f"{name}_" if keyword.iskeyword(name) else name
