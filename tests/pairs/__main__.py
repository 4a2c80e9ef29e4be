# SPDX-License-Identifier: BSD-3-Clause
"""Runs the grid of docs/hardening.md: python tests/pairs [--seed S] [--only PATTERN]."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(HERE)
MALLOC = {"MALLOC_PERTURB_": "165"}  # memory that is read before it is written is wrong
PATIENCE = 1200  # seconds for what one subject is tried in, on a busy machine


def say(text):
    print(text, flush=True)


def arguments():
    parser = argparse.ArgumentParser(
        description="Crosses modules, ops and optimizers with contexts and ways to differentiate."
    )
    parser.add_argument("--seed", type=int, default=0, help="which pairs of contexts run")
    parser.add_argument("--only", default="", help="subjects that match this pattern")
    parser.add_argument("--context", default="", help="contexts that match, '^-$' for none")
    parser.add_argument("--measure", default="", help="measures that match this pattern")
    parser.add_argument("--form", default="", help="forms of inputs that match this pattern")
    parser.add_argument("--share", type=float, default=1.0, help="fraction of the grid that runs")
    parser.add_argument("--minutes", type=float, help="end after so many minutes")
    parser.add_argument("--cell", action="append", help="run this cell, as a finding names it")
    parser.add_argument("--cells", help="run the cells of a file, which has one in each line")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--most", type=int, default=10, help="findings to print for one cause")
    parser.add_argument("--beside", help="a Python with torch; print what torch does")
    parser.add_argument("--ops", action="store_true", help="print the op samples, for torch")
    return parser.parse_args()


def cells_to_run(given, subject):
    """Yields the cells of the subject that the options select."""
    from pairs import grid, sample

    places = [re.compile(p) for p in (given.form, given.context, given.measure)]
    for cell in grid.cells_of(subject, given.seed, lambda *of: sample.whole(*of) * given.share):
        texts = (cell.form, " + ".join(cell.contexts) or "-", cell.measure)
        if all(p.search(t) for p, t in zip(places, texts, strict=True)):
            yield cell


def cause(cell, text):
    """Returns a key of the finding; report() prints at most --most findings with one key."""
    from pairs.measures import all_measures

    shortened = re.sub(r"[-\d.e\[\], ()]+", " ", text)[:60]
    if shortened.startswith("raises"):
        return shortened
    m = all_measures()[cell.measure]
    return cell.contexts[:1], m.order, m.forward, m.batched, shortened[:14]


def run_grid(given):
    """Runs each subject in a forked child, so that a crash or a hang ends that child only."""
    from fuzz.hunt import run_many

    from pairs import grid
    from pairs.package import T
    from pairs.subjects import all_subjects

    names = [n for n in all_subjects() if re.search(given.only, n)]
    # The order is random, so that a run that is cut short has tried all kinds of subjects.
    names.sort(key=lambda n: grid.chance(f"{given.seed} {n}"))
    with tempfile.TemporaryDirectory() as folder:
        path, notes = os.path.join(folder, "findings"), os.path.join(folder, "note")

        def append(entry):
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

        def work(i):
            T.set_num_threads(1)
            last = open(f"{notes}{i}", "wb", buffering=0)

            def note(text):
                os.pwrite(last.fileno(), text.encode() + b"\n", 0)

            cells = cells_to_run(given, all_subjects()[names[i]])
            append(["", grid.run_cells(cells, lambda c, t: append([str(c), t]), note)[0]])

        def ended(kind, i, text, before):
            cell = f"{names[i]} @ plain @ - @ backward"
            if os.path.exists(f"{notes}{i}"):
                with open(f"{notes}{i}", encoding="utf-8") as file:
                    cell = file.readline().strip() or cell
            append([cell, f"{kind}: {' '.join(text.split())[-400:]}"])
            return 1

        began = time.monotonic()
        seconds = given.minutes and given.minutes * 60
        run_many(
            work, 0, len(names), jobs=given.jobs, batch=8, found=ended, most=10**6,
            patience=PATIENCE, seconds=seconds,
        )  # fmt: skip
        entries = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                entries = [json.loads(line) for line in file]
    ran = sum(e[1] for e in entries if e[0] == "")
    say(f"{len(names)} subjects, {ran} cells in {time.monotonic() - began:.0f} s")
    return [e for e in entries if e[0]]


def run_cells(texts):
    """Prints the result of each cell; returns the number of findings."""
    from pairs import grid

    found = 0
    for text in texts:
        try:
            seen = grid.run(grid.Cell.parse(text))
        except Exception as e:
            seen = f"cannot be tried: {grid.said(e)}"
        found += bool(seen)
        say(f"{text} :: {seen or ('as expected' if seen is None else 'nothing to compare')}")
    return found


def beside(python, texts):
    """Returns what torch does in each cell. If a cell ends the process, a new one runs the rest."""
    said = []
    with tempfile.TemporaryDirectory() as folder:
        ops, cells = os.path.join(folder, "ops.json"), os.path.join(folder, "cells")
        with open(ops, "w", encoding="utf-8") as file:
            file.write(op_text())
        environment = {**os.environ, "PAIRS_PACKAGE": "torch", "PAIRS_OPS": ops}
        while len(said) < len(texts):
            with open(cells, "w", encoding="utf-8") as file:
                file.writelines(text + "\n" for text in texts[len(said) :])
            run = subprocess.run(
                [python, HERE, "--cells", cells],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            said += [line.rpartition(" :: ")[2] for line in run.stdout.splitlines()]
            if len(said) < len(texts):
                said.append(f"exit {run.returncode} {run.stderr.strip()[-100:]}")
    return dict(zip(texts, said, strict=True))


def op_text():
    from pairs.subjects import op_rows

    return json.dumps(op_rows())


def report(given, findings):
    from pairs.grid import Cell

    seen, shown = {}, []
    for text, what in findings:
        key = cause(Cell.parse(text), what)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= given.most:
            shown.append((text, what))
    theirs = beside(given.beside, [text for text, _ in shown]) if given.beside else {}
    for text, what in shown:
        say(f"{text} :: {what}" + (f" :: torch: {theirs[text]}" if text in theirs else ""))
    if findings:
        say(f"{len(findings)} findings, {len(seen)} kinds; again: python tests/pairs --cell 'CELL'")


def main():
    given = arguments()
    if given.ops:
        say(op_text())
        return 0
    texts = list(given.cell or [])
    if given.cells:
        with open(given.cells, encoding="utf-8") as file:
            texts += file.read().splitlines()
    if texts:
        return int(bool(run_cells(texts)))
    findings = run_grid(given)
    report(given, findings)
    return int(bool(findings))


if __name__ == "__main__":
    if not MALLOC.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, HERE, *sys.argv[1:]], {**os.environ, **MALLOC})
    sys.exit(main())
