# SPDX-License-Identifier: BSD-3-Clause
"""A Sphinx extension that writes the C++ reference from the comments of the public headers.

It reads the forms of C++ that clang-format makes of these headers; it is no C++ parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INCLUDE = Path(__file__).resolve().parents[2] / "csrc" / "include" / "cograd"
HEADERS = (
    *("tensor.h", "tensor_inl.h", "types.h", "dtype.h", "scalar.h", "complex.h"),
    *("accessor.h", "dispatch.h", "parallel.h", "error.h", "autograd.h", "function.h"),
    *("library.h", "class.h", "cuda.h", "safetensors.h", "python.h", "ops.h"),
)
HIDDEN = {"ext", "detail", "torch_compat"}  # namespaces that users do not call
INTERNAL = re.compile(r"for Function only|For the context")
SKIPPED = re.compile(
    r"static_assert\b|template <>|extern template\b|friend\b|~|.*= delete$|$"
    r"|using (?:cograd::|namespace)|template <.*>\s*(?:inline )?constexpr DType dtype_of"
    r"|.*\b(?:Tensor|TensorIndex|TensorOrScalar|Library)::(?:operator|\w+\()"
    r"|#define COGRAD_(?:DISPATCH_CASE|CASES_|CHECK_KIND|CAT|\w+_\()|.*\bvoid put\("
    r"|template <class T>\nconstexpr bool is_complex_type",
    re.S,
)
FORWARD = re.compile(r"(?:template <[^>]*>\s+)?(?:class|struct) [\w:]+$")
CODE = re.compile(
    r"\b(?:[A-Za-z_]\w*::)+\w+\b|\b[a-z_]\w*\(\)|\bCOGRAD_\w+|\b[a-z]+_[a-z_]+(?:\.\w+)?\b"
)


@dataclass
class Item:
    """A declaration, or a class with the items in it."""

    comment: str
    code: str
    scope: str = ""
    items: list[Item] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name that is declared, "" if none is found."""
        code = re.sub(r"^template <.*?>\s+(?=\w)", "", self.code, flags=re.S)
        code = code.replace("decltype(auto) ", "auto ")
        if not code.startswith("using "):
            code = re.split(r" = |\{", code)[0] if "operator" not in code else code
        for pattern in (
            r"^(?:class|struct|enum class|enum) (?:COGRAD_API )?(\w+)",
            r"^using (\w+) =",
            r"#define (\w+)",
            r"(operator\S+?)\(",
            r"(\w+)\(",
            r"(\w+)(?:\[\])?(?: =.*)?$",
        ):
            match = re.search(pattern, code, re.S)
            if match:
                return match[1]
        return ""


def balanced(text: str, at: int, pair: str) -> int:
    """Returns the position after the bracket that closes the one at `at`."""
    depth = 0
    for match in re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'|//[^\n]*|[{}()]').finditer(
        text, at
    ):
        depth += (match[0] == pair[0]) - (match[0] == pair[1])
        if depth == 0:
            return match.end()
    raise ValueError(f"no {pair[1]} closes {text[at : at + 60]!r}")


def head_end(text: str, at: int) -> int:
    """Returns the position of the ; or { that ends the head of the declaration at `at`."""
    start = at
    while text[at] not in ";{":
        if text[at] == "(":
            at = balanced(text, at, "()")
        elif text[at] in "\"'":
            at = text.index(text[at], at + 1) + 1
        elif text.startswith("//", at):
            at = text.index("\n", at)
        elif re.match(r"\w\{", text[at : at + 2]) and re.search(
            r"\)[\w\s]*[^:]:[^:]", text[start:at]
        ):
            at = balanced(text, at + 1, "{}")  # a member in a list of initialisers
        else:
            at += 1
    return at


def clean(code: str) -> str:
    """Returns a head without attributes for compilers and the list of initialisers."""
    code = re.sub(r"\s*//[^\n]*", "", code)
    code = re.sub(r"\[\[[\w:, ]*\]\]\s*|\b(?:inline|COGRAD_API|explicit inline) ", "", code)
    at = code.find("(")
    if at >= 0 and not code.startswith("#"):
        end = balanced(code, at, "()")
        while code[end:].lstrip().startswith("("):  # operator()(...)
            end = balanced(code, code.index("(", end), "()")
        code = code[:end] + re.sub(r"\s*(?<!:):(?!:).*", "", code[end:], flags=re.S)
    code = re.sub(r"\n {2,}", "\n    ", code.strip())
    return re.sub(r"^(template <.*?>)\n +", r"\1\n", code, flags=re.S)


def macros(text: str) -> str:
    """Returns a header without lines for the preprocessor; macros become declarations."""
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(
        r"^#ifdef COGRAD_(?:BUILDING|TORCH_COMPAT)\n(.*?)(?:^#else\n(.*?))?^#endif\n",
        lambda m: m[2] or "",
        text,
        flags=re.S | re.M,
    )
    text = re.sub(r"^#define (COGRAD_[A-Z_]+\([^)]*\))[^\n]*", r"#define \1;", text, flags=re.M)
    return re.sub(r"^#(?!define COGRAD_[A-Z_]+\().*\n", "", text, flags=re.M)


def parse(text: str, scope: str = "", access: str = "public") -> Iterator[Item]:
    """Returns the items of a scope in order."""
    at, comment, shown = 0, "", True
    while True:
        found = re.compile(r"\s*").match(text, at)
        at = found.end() if found else at
        if at >= len(text):
            return
        if match := re.compile(r"(?://[^\n]*\n[ \t]*)+").match(text, at):
            lines = [line.strip()[2:].removeprefix(" ") for line in match[0].strip().splitlines()]
            comment, at = "\n".join(lines), match.end()
            shown = shown and "for Function only" not in comment
            continue
        if match := re.compile(r"(public|private|protected):").match(text, at):
            access, at, comment, shown = match[1], match.end(), "", True
            continue
        end = head_end(text, at)
        head, brace = text[at:end].strip(), text[end] == "{"
        at = balanced(text, end, "{}") if brace else end + 1
        body = text[end + 1 : at - 1] if brace else ""
        at = re.compile(r"(?:[ \t]*//[^\n]*)?").match(text, at).end()  # a comment about this line
        if match := re.match(r"(?:inline )?namespace ?([\w:]*)", head):
            if match[1] not in HIDDEN:
                inner = "" if match[1] in ("cograd", "abi1") else match[1]
                yield from parse(body, "::".join(filter(None, [scope, inner])))
            comment = ""
            continue
        is_type = re.search(r"^(?:template <[^{]*>\s+)?(?:class|struct|enum)\b", head)
        if brace and (is_type or re.match(r"\s*;", text[at:])):
            at = text.index(";", at) + 1
        this, comment = comment, ""
        visible = access == "public" and shown and not INTERNAL.search(this)
        item = Item(this, clean(head.removesuffix("=").rstrip()), scope)
        if not visible or SKIPPED.match(item.code) or (FORWARD.match(item.code) and not brace):
            continue
        if is_type and "enum" in head[:5]:
            body = re.sub(r"\s*//[^\n]*|\n\s*(?=\n)", "", body).rstrip()
            item.code += f" {{{body}\n}}" if "\n" in body else f" {{{body} }}"
        elif is_type and brace:
            inside = "private" if re.search(r"^(?:template <[^{]*>\s+)?class\b", head) else "public"
            item.items = list(parse(body, "", inside))
        yield item


def prose(comment: str) -> str:
    """Returns a comment as Markdown; its indented lines are code."""
    out: list[str] = []
    for line in comment.splitlines():
        indented = line.startswith("  ")
        if indented != (bool(out) and out[-1].startswith("    ")):
            out.append("")
        if indented:
            out.append("    " + line)
            continue
        pieces = re.split(r"(`[^`]*`|\"[^\"]*\")", line)
        pieces[::2] = [CODE.sub(r"`\g<0>`", p).replace("<", "\\<") for p in pieces[::2]]
        out.append("".join(pieces))
    return "\n".join(out).strip("\n")


def lines_of(item: Item, indent: str = "  ") -> Iterator[str]:
    """Returns a member's lines: its comment and its declaration."""
    if item.comment.startswith("---"):
        yield ""
    for line in item.comment.splitlines():
        yield f"{indent}// {line}".rstrip()
    code = item.code + ("" if item.code.startswith("#") else ";")
    if item.items:
        yield from (f"{indent}{line}" for line in f"{item.code} {{".splitlines())
        for inner in item.items:
            yield from lines_of(inner, indent + "  ")
        yield f"{indent}}};"
        return
    yield from (f"{indent}{line}".rstrip() for line in code.splitlines())


def renamed(text: str) -> str:
    """Returns a header in which class templates with a public alias have the alias's name."""
    for name, template in re.findall(r"^using (\w+) = (Basic\w+)<void>;\n", text, re.M):
        text = re.sub(rf"template <class(?: Tag)?>\nclass {template}\b", f"class {name}", text)
        text = re.sub(rf"^using {name} = .*\n", "", text, flags=re.M)
        text = re.sub(rf"\b{template}\b(?:<(?:Tag|void)>)?", name, text)
    return text


def page_of(header: str, text: str) -> list[str]:
    """Returns the section about one header as lines of Markdown."""
    head, _, rest = text.partition("#pragma once")
    about = re.sub(r"^// ?", "", head.split("\n", 1)[1], flags=re.M).strip()
    if header == "ops.h":
        about = "Every op as a function. Most are methods of Tensor, too, some in place: x.add_(y)."
    out = [f"## cograd/{header}", "", prose(about), ""]
    group: list[Item] = []

    def flush() -> None:
        if not group:
            return
        names = list(dict.fromkeys(qualified(item) for item in group))
        more = ", ..." if len(names) > 4 else ""
        out.extend([f"### {', '.join(f'`{n}`' for n in names[:4])}{more}", ""])
        if group[0].comment:
            out.extend([prose(group[0].comment), ""])
        first = Item("", group[0].code)
        out.extend(
            ["```cpp", *(x for i in [first, *group[1:]] for x in lines_of(i, "")), "```", ""]
        )
        group.clear()

    for item in parse(macros(renamed(rest))):
        if item.items:
            flush()
            out.extend([f"### `{qualified(item)}`", ""])
            if item.comment:
                out.extend([prose(item.comment), ""])
            members = [line for member in item.items for line in lines_of(member)]
            out.extend(["```cpp", f"{item.code} {{", *members, "};", "```", ""])
        else:
            if item.comment or (group and group[0].scope != item.scope):
                flush()
            group.append(item)
    flush()
    return out


def qualified(item: Item) -> str:
    """Returns an item's name with its namespace below cograd."""
    return "::".join(filter(None, [item.scope, item.name]))


def page() -> str:
    """Returns the reference as Markdown."""
    out = [
        "# The C++ interface",
        "",
        "Everything is in the namespace `cograd`; the names here are those below it. Include",
        "`cograd/extension.h` for what an op needs, and separately `cograd/class.h`,",
        "`cograd/safetensors.h` and `cograd/python.h`. [Ops in C++](../cpp.md) is the guide to it,",
        "[operations](ops.md) describes what each op computes.",
        "",
        "Generated from the headers.",
        "",
    ]
    for header in HEADERS:
        out += page_of(header, (INCLUDE / header).read_text())
    return "\n".join(out)


def setup(app: Any) -> dict[str, bool]:
    """Registers with Sphinx."""

    def write(app: Any) -> None:
        path, text = Path(app.srcdir) / "api" / "cpp.md", page()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
