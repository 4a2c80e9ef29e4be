#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks commit subjects, `area: verb object` in at most 60 characters.

check_subject.py FILE checks a message, as a commit-msg hook; check_subject.py [--since REV] checks
the commits of this branch: those that REV does not have, else those that origin/main does not
have, else those after BASE. Merge and revert commits are exempt.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

# Older commits are exempt: their subjects have many forms.
BASE = "221179ca2471b675c7369ee70e99e6857ad1a1b8"
LONGEST = 60
FORM = re.compile(r"[a-z0-9.][a-z0-9_./, -]*: \S+ \S.*")
# What git writes for stashes ("WIP on main: ...", "index on main: ..."), and unfinished work.
UNFINISHED = re.compile(r"\b(wip|stash)\b|^(on|index on|untracked files on) [^:]*:", re.I)
BY_GIT = re.compile(r'Merge (branch|commit|tag|remote-tracking branch|pull request)|Revert "')


def fault(subject: str) -> str:
    """Returns what is wrong with a subject, or "" if it is well formed or git's own."""
    if BY_GIT.match(subject):
        return ""
    if found := UNFINISHED.search(subject):
        return f"names unfinished work ({found[0].strip()!r})"
    if FORM.fullmatch(subject) is None:
        return "is not of the form 'area: verb object', with the area in lower case"
    if len(subject) > LONGEST:
        return f"has {len(subject)} characters, at most {LONGEST} are allowed"
    return ""


def subject_of(message: str) -> str:
    """Returns the first line of a message that is neither empty nor a comment of git's."""
    lines = (line.strip() for line in message.splitlines() if not line.startswith("#"))
    return next((line for line in lines if line), "")


def git(*arguments: str) -> str | None:
    """Returns the output of a git command, or None if it failed."""
    command = ["git", *arguments]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def new_commits(since: str) -> list[str]:
    """Returns the arguments of `git log` that select the commits to check.

    A shallow clone may lack BASE and the commit at which this branch began; HEAD alone is new then.
    """
    has_base = git("cat-file", "-e", f"{BASE}^{{commit}}") is not None
    exempt = [BASE] if has_base else []
    for revision in (since, "refs/remotes/origin/main"):
        if revision and git("merge-base", revision, "HEAD") is not None:
            return ["HEAD", "--not", revision, *exempt]
    return ["HEAD", "--not", BASE] if has_base else ["--max-count=1", "HEAD"]


def check_commits(since: str) -> int:
    """Prints the new commits with a wrong subject; returns 1 if there are any."""
    if git("rev-parse", "HEAD") is None:
        print("check_subject.py: no git repository with commits here, nothing to check")
        return 0
    log = git("log", "--no-merges", "--format=%h %s", *new_commits(since)) or ""
    lines = log.splitlines()
    wrong = 0
    for line in lines:
        commit, _, subject = line.partition(" ")
        if reason := fault(subject):
            print(f"{commit}: subject {subject!r} {reason}")
            wrong = 1
    print(f"{len(lines)} new commits" + (": amend those above (git rebase -i)" if wrong else ""))
    return wrong


def main() -> int:
    """Checks a message or the new commits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("message", nargs="?", type=Path, help="a file with a commit's message")
    parser.add_argument("--since", default=os.environ.get("COGRAD_SUBJECTS_SINCE", ""))
    given = parser.parse_args()
    if given.message is None:
        return check_commits(given.since)
    subject = subject_of(given.message.read_text(encoding="utf-8"))
    # `git rebase --autosquash` removes such commits.
    subject = re.sub(r"^((fixup|squash|amend)! )+", "", subject)
    if reason := fault(subject):
        print(f"The subject {subject!r} {reason}.")
        print("Example: copy_slices: saved output follows the written view")
    return int(bool(fault(subject)))


if __name__ == "__main__":
    sys.exit(main())
