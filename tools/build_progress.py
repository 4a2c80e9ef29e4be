# SPDX-License-Identifier: BSD-3-Clause
"""Runs a build and shows how far it is: build_progress.py [--all] COMMAND [ARGUMENT ...].

COMMAND may be anything that runs Ninja or Make under CMake. On a terminal one line is rewritten;
elsewhere a line is printed each minute. Errors and warnings pass through. What else was printed
appears if the command fails, or with --all. The exit status is COMMAND's.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from typing import TextIO

# Ninja's status is set below; Make prints percent.
EDGE = re.compile(r"\[(\d+)/(\d+)\] (.*)")
PERCENT = re.compile(r"\[ *(\d+)%\] (.*)")
# Ninja runs CMake again if a folder has new files; that is not counted as files of the build.
AGAIN = re.compile(r"Re-(running CMake|checking globbed)")
# CMake's status, scikit-build-core's headings, and what Ninja says if there is nothing to do.
STATUS = re.compile(r"-- |\*\*\* |ninja: (no work to do|Entering directory)|\x1b\[[\d;]*m\*\*\* ")
COMPLAINT = re.compile(r"CMake (\w+ )?(Warning|Error)")
SECONDS_BETWEEN_LINES = 60.0


def duration(seconds: float) -> str:
    """Returns a time as in "45 s" or "3 min 05 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


class Progress:
    """Reads a build's lines and reports them to a stream."""

    def __init__(self, out: TextIO, everything: bool = False):
        self.out, self.everything = out, everything
        self.terminal = out.isatty()
        self.begun = self.reported = time.monotonic()
        self.count = self.total = self.now = ""
        self.edges_seen = self.complaining = False
        self.written = ""  # what the progress line shows
        self.hidden: list[str] = []

    def line(self, text: str) -> None:
        """Takes one line of the build."""
        edge = EDGE.fullmatch(text)
        percent = None if edge else PERCENT.fullmatch(text)
        if edge and not AGAIN.match(edge[3]):
            self.count, self.now = f"{edge[1]} of {edge[2]} files", edge[3]
            self.total = f"{edge[2]} files"
        elif percent:
            self.count, self.total, self.now = f"{percent[1]} %", "done", percent[2]
        if edge or percent:
            self.complaining = False
            self.edges_seen |= AGAIN.search(text) is None
        elif STATUS.match(text):
            self.complaining = False
        else:
            self.complaining |= COMPLAINT.match(text) is not None
            if self.edges_seen or self.complaining or self.everything:
                self.show(text)
                return
        if self.everything:
            self.show(text)
        elif not (edge or percent):
            self.hidden.append(text)
        self.tick()

    def show(self, text: str) -> None:
        """Prints a line of the build above the progress line."""
        self.clear()
        print(text, file=self.out, flush=True)

    def clear(self) -> None:
        """Removes the progress line from a terminal."""
        if self.written:
            self.out.write("\r\x1b[K")
            self.written = ""

    def tick(self) -> None:
        """Reports the state: always on a terminal, else once a minute."""
        now = time.monotonic()
        if self.terminal and self.count and not self.everything:
            text = f"{self.count}, {duration(now - self.begun)}: {self.now}"
            text = text[: shutil.get_terminal_size().columns - 1]
            if text != self.written:
                self.out.write("\r\x1b[K" + text)
                self.out.flush()
                self.written = text
        elif not self.terminal and now - self.reported >= SECONDS_BETWEEN_LINES:
            self.reported = now
            state = self.count or "configuring"
            print(f"build: {state}, {duration(now - self.begun)}", file=self.out, flush=True)

    def end(self, status: int) -> None:
        """Prints the last line, and the hidden ones if the build failed."""
        self.clear()
        took = duration(time.monotonic() - self.begun)
        if status:
            if not self.edges_seen:  # a compiler's errors have been shown
                print(*self.hidden[-100:], sep="\n", file=self.out)
            print(f"build: failed after {took}", file=self.out, flush=True)
        elif self.total:
            print(f"build: {self.total}, {took}", file=self.out, flush=True)


def follow(command: list[str], everything: bool = False) -> int:
    """Runs a command, reports its progress on the standard output, and returns its status."""
    progress = Progress(sys.stdout, everything)
    env = os.environ | {"NINJA_STATUS": "[%f/%t] ", "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    assert child.stdout is not None
    waiting = selectors.DefaultSelector()
    waiting.register(child.stdout, selectors.EVENT_READ)
    rest = b""
    try:
        while True:
            if not waiting.select(timeout=1.0):
                progress.tick()  # a file may take longer than a minute
                continue
            data = os.read(child.stdout.fileno(), 65536)
            *lines, rest = (rest + data).split(b"\n")
            if not data and rest:
                lines, rest = [rest], b""
            for line in lines:
                progress.line(line.decode(errors="replace").rstrip("\r"))
            if not data:
                break
        status = child.wait()
    except BaseException:
        # Ninja stops its compilers when it is interrupted.
        child.send_signal(signal.SIGINT)
        child.wait()
        progress.clear()
        raise
    finally:
        waiting.close()
        child.stdout.close()
    progress.end(status)
    return status if status >= 0 else 128 - status


def main(arguments: list[str]) -> int:
    """Follows the command that the arguments give."""
    everything = arguments[:1] == ["--all"]
    command = arguments[1:] if everything else arguments
    if not command or command[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if command else 2
    try:
        return follow(command, everything)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
