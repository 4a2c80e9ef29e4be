# SPDX-License-Identifier: BSD-3-Clause
"""Messages that send a reader to a page name a command that prints it."""

import ast
import re
from importlib import metadata
from pathlib import Path

import pytest

import cograd as torch
from cograd._base import absent, absent_names, docs
from cograd.commands.docs import main

ROOT = Path(__file__).resolve().parents[2]
PYTHON = [p for p in (ROOT / "python" / "cograd").rglob("*.py") if "_docs_index" not in p.name]
COMMAND = re.compile(r"cograd docs ([a-z_]+(?: [a-z_]+)*)")


def texts(path):
    """Yields the texts of a file that are not docstrings, those in pieces joined."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    plain = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(v.value for v in node.values if isinstance(v, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in plain:
                yield node.value


def sources():
    """Yields the name and the code of the core's files, without comments."""
    for path in sorted((ROOT / "csrc").rglob("*")):
        if path.suffix in (".h", ".cpp", ".def"):
            yield path.name, re.sub(r"//.*", "", path.read_text(encoding="utf-8"))


def words_of(found):
    """Returns page and section of the calls of see() in a file."""
    for node in ast.walk(ast.parse(found.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "see":
            values = [a.value for a in node.args if isinstance(a, ast.Constant)]
            if len(values) == len(node.args):
                yield " ".join(values)


def test_every_word_finds_its_page(capsys):
    words = {w for path in PYTHON for w in words_of(path)}
    words |= {w for path in PYTHON for text in texts(path) for w in COMMAND.findall(text)}
    words |= {w for _, code in sources() for w in COMMAND.findall(code)}
    words |= {COMMAND.search(absent.about(topic))[1] for topic in absent_names.TOPICS}
    words -= {"word"}
    assert {"sparse", "fx", "coming_from_torch quantized"} <= words
    for word in words:
        page = word.split()[0]
        assert (ROOT / "docs" / f"{page}.md").exists(), word
        assert main(word.split()) == 0
        pages = re.findall(r"\((docs/\w+)\.md\)", capsys.readouterr().out)
        assert pages[0] == f"docs/{page}", (word, pages)


def test_messages_name_no_file_of_the_docs():
    found = [(p.name, t) for p in PYTHON for t in texts(p) if re.search(r"\bdocs/\w+\.md", t)]
    found += [n for n, code in sources() if re.search(r"\bdocs/\w+\.md", code)]
    assert not found


def test_messages_have_addresses_if_the_package_has_one(monkeypatch):
    class Urls:
        def get_all(self, key):
            return {"Project-URL": ["Source, https://a.org", "Documentation, https://b.org/c/"]}[
                key
            ]

    docs.address.cache_clear()
    monkeypatch.setattr(metadata, "metadata", lambda _: Urls())
    try:
        with pytest.raises(
            NotImplementedError, match=r"docs sparse or https://b.org/c/sparse.html$"
        ):
            torch.eye(2).to_sparse().exp()
        assert docs.see("coming_from_torch", "jit") == (
            "python -m cograd docs coming_from_torch jit or "
            "https://b.org/c/coming_from_torch.html#jit"
        )
    finally:
        docs.address.cache_clear()
    monkeypatch.undo()
    assert docs.see("sparse") == "python -m cograd docs sparse"
