# SPDX-License-Identifier: BSD-3-Clause
"""A Sphinx extension that writes the C reference from the comments of the C headers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

INCLUDE = Path(__file__).resolve().parents[2] / "csrc" / "include" / "cograd"
SECTION = re.compile(r"^/\* -{3,} (.+?) -+ \*/$", re.M)
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
NAME = re.compile(r"\b(cograd_\w+|COGRAD_\w+)\b(?=\s*\(|;|\s*\{|\s*=)")
NOISE = re.compile(r"[ ]*\b(COGRAD_C_API|COGRAD_NOEXCEPT)\b ?|__attribute__\(\(.*?\)\)(?=;)")


def prose(comment: str) -> str:
    """Returns a comment's text as Markdown."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().splitlines()]
    parts = re.split(r"(`[^`]*`)", " ".join(lines))
    parts[::2] = [re.sub(r"\b(cograd_\w+|COGRAD_[A-Z_]+|NULL)\b", r"`\1`", p) for p in parts[::2]]
    return "".join(parts)


def items(section: str) -> list[tuple[str, str]]:
    """Returns (comment, declarations) pairs in the order of the header."""
    found, comment, code = [], "", []
    inside = 0
    for block in re.split(r"((?:^/\*.*?\*/$\n?)|\n\n)", section, flags=re.S | re.M):
        if block.startswith("/*") and not inside:
            if code:
                found.append((comment, "".join(code).strip("\n")))
            comment, code = prose(block.strip()[2:-2]), []
        elif block.strip() or code:
            code.append(block)
            inside += block.count("{") - block.count("}")
    if code or comment:
        found.append((comment, "".join(code).strip("\n")))
    return [(c, d) for c, d in found if c or d.strip()]


def plain(code: str) -> str:
    """Returns declarations without the words that only compilers need."""
    lines = NOISE.sub("", code).splitlines()
    kept = [line.rstrip() for line in lines if not line.lstrip().startswith("#")]
    return re.sub(
        r"\n{2,}", "\n", "\n".join(line for line in kept if line not in ("}", 'extern "C" {'))
    )


def page(text: str) -> str:
    """Returns the reference as Markdown."""
    head, *rest = SECTION.split(text)
    about = COMMENT.findall(head)
    lines = ["# The C interface", "", prose(about[1]), "", "Generated from `cograd/c_api.h`.", ""]
    for name, section in zip(rest[::2], rest[1::2], strict=True):
        lines += [f"## {name[0].upper()}{name[1:]}", ""]
        for comment, code in items(section):
            code = plain(code).strip("\n")
            names = list(dict.fromkeys(NAME.findall(code)))
            if names and "(" in code:
                lines += [f"### {', '.join(f'`{n}`' for n in names[:4])}", ""]
            lines += [comment, ""] if comment else []
            lines += ["```c", code, "```", ""] if code.strip() else []
    return "\n".join(lines)


def devices(text: str) -> str:
    """Returns the section about devices, whose header has one section."""
    about = prose(COMMENT.findall(text)[1])
    body = text.split('extern "C" {\n#endif\n', 1)[1]
    section = page(f"/* */\n/* */\n/* ---- devices {'-' * 20} */\n{body}")
    return "\n" + section[section.index("## Devices") :].replace(
        "## Devices\n", f"## Devices\n\n{about}\n", 1
    )


def setup(app: Any) -> dict[str, bool]:
    """Registers with Sphinx."""

    def write(app: Any) -> None:
        path, text = Path(app.srcdir) / "api" / "c.md", page((INCLUDE / "c_api.h").read_text())
        text += devices((INCLUDE / "c_devices.h").read_text())
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
