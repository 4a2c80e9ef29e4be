# SPDX-License-Identifier: BSD-3-Clause
"""Runs compilers in parallel."""

from __future__ import annotations

import os
import queue
import shlex
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cograd._base.progress import Progress


class Command(NamedTuple):
    """A command to run.

    Attributes:
        args: its arguments.
        label: its name in messages.
        folder: its working directory, "" for the common one.
        optional: whether the others continue if it fails; it is killed if one of them fails.
    """

    args: list[str]
    label: str
    folder: str = ""
    optional: bool = False


class Result(NamedTuple):
    """The exit status of a command and everything it printed."""

    command: Command
    status: int
    output: str


def max_jobs(count: int) -> int:
    """Returns how many of `count` compilers run at once: MAX_JOBS, or the available cores.

    Raises:
        ValueError: MAX_JOBS is not a positive number.
    """
    given = os.environ.get("MAX_JOBS", "").strip()
    if given:
        if not given.isdigit() or int(given) < 1:
            raise ValueError(f"MAX_JOBS={given!r}: expected a positive number")
        return max(1, min(int(given), count))
    return max(1, min(len(os.sched_getaffinity(0)), count))


def run_all(
    commands: Sequence[Command],
    folder: str,
    *,
    title: str,
    verbose: bool = False,
    beat: Callable[[], None] | None = None,
) -> list[Result]:
    """Runs commands in parallel; starts no further one after the first failure.

    Args:
        commands: the commands to run.
        folder: the working directory.
        title: for the progress line.
        verbose: prints each command and its output.
        beat: called about once a second.

    Returns:
        The results of the commands that ran, in the order of `commands`.
    """
    finished: queue.SimpleQueue[tuple[int, Result]] = queue.SimpleQueue()
    processes: dict[int, subprocess.Popen[bytes]] = {}
    env = {**os.environ, "LC_ALL": "C"}

    def follow(index: int, process: subprocess.Popen[bytes]) -> None:
        output = process.communicate()[0].decode("utf-8", errors="replace")
        finished.put((index, Result(commands[index], process.returncode, output)))

    def start(index: int) -> None:
        if verbose:
            print(f"cograd: {shlex.join(commands[index].args)}", flush=True)
        process = subprocess.Popen(
            commands[index].args,
            cwd=commands[index].folder or folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        processes[index] = process
        threading.Thread(target=follow, args=(index, process), daemon=True).start()

    waiting = list(range(len(commands)))
    limit = max_jobs(len(commands))
    results: dict[int, Result] = {}
    progress = Progress(f"cograd: building {title}", len(commands))
    failed = False
    try:
        while processes or (waiting and not failed):
            while waiting and len(processes) < limit and not failed:
                start(waiting.pop(0))
            try:
                index, result = finished.get(timeout=0.25)
            except queue.Empty:
                if beat is not None:
                    beat()
                progress.update(len(results), ", ".join(commands[i].label for i in processes))
                continue
            del processes[index]
            results[index] = result
            failed = failed or (result.status != 0 and not result.command.optional)
            if failed:
                for i, process in processes.items():
                    if commands[i].optional:
                        process.kill()
            if verbose and result.output.strip():
                print(result.output.rstrip(), flush=True)
    finally:
        progress.close()
        for process in processes.values():  # an exception, such as Ctrl-C
            process.kill()
            process.wait()
    return [results[i] for i in sorted(results)]
