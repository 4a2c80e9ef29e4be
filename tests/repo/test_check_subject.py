# SPDX-License-Identifier: BSD-3-Clause
"""tools/check_subject.py: the form of commit subjects."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOL = ROOT / "tools" / "check_subject.py"

pytestmark = pytest.mark.skipif(
    not TOOL.exists() or shutil.which("git") is None, reason="no source checkout, or no git"
)


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("check_subject", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "subject",
    [
        "rnn: connect h to the returned c",
        "ops/nn: format a check",
        "copy_slices: saved output follows the written view",
        "engine, tests: run hooks once",
        "docs of fft: name the norm",
        ".ci/run: skip steps",
        "view: " + "a " * 26 + "ab",  # 60 characters
        "Merge branch 'main' into work",
        "Merge remote-tracking branch 'origin/main'",
        'Revert "A subject of the old form, which may be as long as it likes, as git wrote it"',
    ],
)
def test_accepted(tool, subject):
    assert tool.fault(subject) == ""


@pytest.mark.parametrize(
    "subject,reason",
    [
        ("Function: rewrap outputs of jvp", "lower case"),
        ("amax and amin have batching rules", "the form"),
        ("rnn:connect h", "the form"),
        ("rnn: connect", "the form"),
        ("rnn:  connect h", "the form"),
        (": connect h", "the form"),
        ("", "the form"),
        ("Merge", "the form"),
        ("view: " + "a " * 26 + "abc", "61 characters"),
        ("wip: connect h", "unfinished"),
        ("rnn: connect h, WIP", "unfinished"),
        ("rnn: stash the last state", "unfinished"),
        ("WIP on main: 221179c csrc: move files", "unfinished"),
        ("On main: before lunch", "unfinished"),
        ("index on uint: 221179c csrc: move files", "unfinished"),
        ("untracked files on main: 221179c csrc: move files", "unfinished"),
    ],
)
def test_refused(tool, subject, reason):
    assert reason in tool.fault(subject)


def test_words_that_only_contain_wip_or_stash_are_fine(tool):
    assert tool.fault("stashes: name wiped blocks") == ""


def call(folder, *arguments, **variables):
    env = {k: v for k, v in os.environ.items() if k != "COGRAD_SUBJECTS_SINCE"} | variables
    command = [sys.executable, str(TOOL), *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "message,status",
    [
        ("rnn: connect h\n\nLonger lines of any Form follow.\n", 0),
        ("\n# a comment of git's\nrnn: connect h\n", 0),
        ("fixup! rnn: connect h\n", 0),
        ("Connect h\n\nrnn: connect h\n", 1),
        ("fixup! Connect h\n", 1),
        ("# nothing\n", 1),
    ],
)
def test_a_message_file_as_the_hook_gets_it(tmp_path, message, status):
    (tmp_path / "COMMIT_EDITMSG").write_text(message)
    done, text = call(tmp_path, "COMMIT_EDITMSG")
    assert done == status
    assert ("Example: " in text) == bool(status)


class Repository:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments):
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=no"]
        command = ["git", *identity, *arguments]
        done = subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, *subjects):
        for subject in subjects:
            self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "one")
    made.commit("An old subject", "Another one")
    return made


def clone(repository, tmp_path, *options):
    copy = tmp_path / "two"
    command = ["git", "clone", "-q", *options, f"file://{repository.folder}", str(copy)]
    subprocess.run(command, check=True, capture_output=True)
    made = Repository.__new__(Repository)
    made.folder = copy
    return made


def test_what_origin_main_has_is_exempt(repository, tmp_path):
    copy = clone(repository, tmp_path)
    assert call(copy.folder) == (0, "0 new commits\n")
    copy.commit("rnn: connect h")
    assert call(copy.folder) == (0, "1 new commits\n")
    wrong = copy.commit("Connect h")[:7]
    status, text = call(copy.folder)
    assert status == 1
    assert text.startswith(f"{wrong}: subject 'Connect h' is not of the form")
    assert "2 new commits: amend" in text


def test_merges_and_reverts_are_exempt(repository, tmp_path):
    copy = clone(repository, tmp_path)
    copy.git("checkout", "-q", "-b", "side")
    copy.commit("rnn: connect h")
    copy.git("checkout", "-q", "main")
    copy.commit("rnn: connect c")
    copy.git("merge", "-q", "--no-ff", "-m", "A merge with a subject of its own", "side")
    copy.commit('Revert "Another one"')
    assert call(copy.folder) == (0, "3 new commits\n")


def test_since_names_where_the_new_commits_begin(repository, tmp_path):
    first = repository.git("rev-parse", "HEAD~1")
    assert call(repository.folder, "--since", first)[0] == 1
    assert call(repository.folder, COGRAD_SUBJECTS_SINCE=first)[0] == 1
    repository.commit("rnn: connect h")
    assert call(repository.folder, "--since", "HEAD~1")[0] == 0
    # A revision that is not here, as for a new branch, is as none.
    assert call(clone(repository, tmp_path).folder, "--since", "0" * 40) == (0, "0 new commits\n")


def test_shallow_clones_do_not_fail(repository, tmp_path):
    repository.git("checkout", "-q", "-b", "work")
    repository.commit("Old", "rnn: connect h", "rnn: connect c")
    copy = clone(repository, tmp_path, "--depth", "1")
    assert copy.git("rev-parse", "--is-shallow-repository") == "true"
    assert call(copy.folder) == (0, "1 new commits\n")
    copy.commit("Connect h")
    assert call(copy.folder)[0] == 1


def test_without_origin_main_the_base_counts(tool, repository, monkeypatch, capsys):
    monkeypatch.chdir(repository.folder)
    monkeypatch.setattr(tool, "BASE", repository.git("rev-parse", "HEAD"))
    assert tool.check_commits("") == 0
    repository.commit("rnn: connect h", "Connect h")
    assert tool.check_commits("") == 1
    assert "2 new commits" in capsys.readouterr().out
    monkeypatch.setattr(tool, "BASE", "0" * 40)  # not in this clone: only HEAD
    repository.commit("rnn: connect c")
    assert tool.check_commits("") == 0


def test_the_base_is_a_commit_of_this_history(tool):
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("a shallow clone")
    command = ["git", "merge-base", "--is-ancestor", tool.BASE, "HEAD"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def test_nothing_to_check_outside_of_a_repository(tmp_path):
    status, text = call(tmp_path, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert status == 0
    assert "nothing to check" in text
