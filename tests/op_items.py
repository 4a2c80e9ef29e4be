# SPDX-License-Identifier: BSD-3-Clause
"""Decorators that make one test item of many cases. All cases run; every failure is reported.

`each_sample` makes one item for each record of the op table, which runs its samples; `each_cell`
makes one item for a whole table of values. `pytest --sample OP[:INDEX[:DTYPE]]`, or `--sample
CELL`, runs only the cases that it names; a single case has pytest's own traceback. INDEX counts
the samples of all records of that name; an empty part stands for all.
"""

import collections
import inspect
import itertools
import os

import pytest
from op_table import TABLE, samples_of

import cograd as torch


class Selection:
    """The cases that --sample names."""

    def __init__(self, text=""):
        self.text = text
        self.op, self.index, self.dtype, *_ = [*text.split(":"), "", ""]

    def has(self, case):
        return case.matches(self)


selected = Selection()  # conftest.py sets it to the option


def select(text):
    global selected
    selected = Selection(text or "")


def numbered():
    """Returns the number of each sample among those of all records of its name."""
    seen, found = collections.Counter(), {}
    for record in TABLE:
        for sample in samples_of(record):
            found[id(record), sample] = seen[record["name"]]
            seen[record["name"]] += 1
    return found


NUMBERS = numbered()


class Case:
    """One call of a test: a record, usually a sample and a dtype, and the other parameters."""

    def __init__(self, values):
        self.values = values
        record, sample, dtype = (values.get(k) for k in ("record", "sample", "dtype"))
        self.op = record["name"]
        self.dtype = "" if dtype is None else str(dtype).rpartition(".")[2]
        self.index = ""
        if sample is not None:
            here = [s for s in samples_of(record) if s == sample]
            self.index = NUMBERS.get((id(record), sample), samples_of(record).index(here[0]))
        self.text = f"{self.op}({sample})" if sample is not None else self.op
        self.text += f" in {dtype}" if self.dtype else ""

    def __str__(self):
        return f"{self.op}:{self.index}:{self.dtype}".rstrip(":")

    def matches(self, selection):
        return (
            selection.op in ("", self.op)
            and selection.index in ("", str(self.index))
            and selection.dtype in ("", self.dtype)
        )


class Cell:
    """One cell of a table: the labels of its rows and columns, and their values."""

    def __init__(self, labels, values):
        self.text, self.values = "-".join(labels), values

    def __str__(self):
        return self.text

    def matches(self, selection):
        return selection.text in ("", self.text)


class Report:
    """Runs all cases, then fails with every failure."""

    def __init__(self):
        self.failed, self.skipped, self.passed, self.applied = [], [], 0, 0

    def run(self, test, case, fixtures):
        __tracebackhide__ = True
        torch.manual_seed(1234)  # as before each test
        try:
            self.applied += test(**case.values, **fixtures) is not False
            self.passed += 1
        except pytest.skip.Exception as e:
            self.skipped.append(str(e))
        except (Exception, pytest.fail.Exception) as e:
            self.failed.append(f"{case.text}\n{short(e)}\n  again: {command(case)}")
            if str(e).startswith("Timeout"):  # from pytest-timeout, which stops an item only once
                self.close()

    def close(self):
        if self.failed:
            count = len(self.failed) + len(self.skipped) + self.passed
            head = f"{len(self.failed)} of {count} failed"
            pytest.fail("\n\n".join([head, *self.failed]), pytrace=False)
        if self.passed and not self.applied:
            pytest.fail("no sample exercises the check: each returned False", pytrace=False)
        if not self.passed:
            pytest.skip("; ".join(dict.fromkeys(self.skipped)) or "no sample to run")


def short(error):
    return str(pytest.ExceptionInfo.from_exception(error).getrepr(style="short"))


def command(case):
    item = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    return f"python -m pytest '{item}' --sample '{case}'"


def run_cases(test, cases, fixtures):
    """Runs the selected cases. If --sample selects one, its exception is not caught."""
    __tracebackhide__ = True
    chosen = [c for c in cases if selected.has(c)]
    if len(chosen) == 1 and selected.text:
        test(**chosen[0].values, **fixtures)
        return
    report = Report()
    for case in chosen:
        report.run(test, case, fixtures)
    report.close()


def looks_like(test, item, own):
    """Copies the name and the marks of a test to an item's function; sets its parameters."""
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(item, attribute, getattr(test, attribute))
    vars(item).update(vars(test))
    item.__signature__ = inspect.Signature(own)
    return item


def one_of_each(cases):
    """Returns the first sample of each record."""
    return list({id(c.values[0]): c for c in reversed(cases)}.values())[::-1]


def each_sample(cases, names="record,sample", dtypes=(None,), together=False):
    """Turns a test of one sample into a test of one record, which runs all samples of the record.

    `cases` are tuples of the values of `names`. A test with a parameter `dtype` is also called with
    each of `dtypes`, which may be a function of the record. The test returns False if a sample does
    not exercise the check; at least one sample must. `together` makes a single item.
    """
    names = names.split(",")
    by_record = {}
    for param in cases:
        values = dict(zip(names, getattr(param, "values", param), strict=True))
        by_record.setdefault(id(values["record"]), []).append(values)

    def decorate(test):
        def item(cases, **fixtures):
            __tracebackhide__ = True
            run_cases(test, cases, fixtures)

        given = inspect.signature(test).parameters
        params = []
        for group in by_record.values():
            record = group[0]["record"]
            made = dtypes(record) if callable(dtypes) else dtypes
            if "dtype" in given:
                group = [values | {"dtype": d} for values in group for d in made]
            params.append(pytest.param([Case(values) for values in group], id=record["name"]))
        if together:
            params = [pytest.param([case for p in params for case in p.values[0]], id="all")]
        own = [inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        own += [p for n, p in given.items() if n not in (*names, "dtype")]
        return pytest.mark.parametrize("cases", params)(looks_like(test, item, own))

    return decorate


def label(value):
    """Returns the label of a value in the name of a cell."""
    if isinstance(value, torch.dtype):
        return str(value).rpartition(".")[2]
    return getattr(value, "__name__", None) or str(value)


def each_cell(names, rows, ids=None):
    """Does what pytest.mark.parametrize does, but in one item. Several decorators multiply."""
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    axis = []
    for i, row in enumerate(rows):
        values = getattr(row, "values", None)
        if not isinstance(values, tuple):  # it is no pytest.param
            values = tuple(row) if len(names) > 1 else (row,)
        text = getattr(row, "id", None) if row.__class__.__name__ == "ParameterSet" else None
        text = text or (ids(row) if callable(ids) else list(ids)[i] if ids else None)
        text = text or "-".join(map(label, values))
        axis.append((text, dict(zip(names, values, strict=True))))

    def decorate(test):
        inner, axes = getattr(test, "table", (test, []))
        axes = [axis, *axes]
        cells = [
            Cell([text for text, _ in chosen], {k: v for _, d in chosen for k, v in d.items()})
            for chosen in itertools.product(*axes)
        ]

        def item(**fixtures):
            __tracebackhide__ = True
            run_cases(inner, cells, fixtures)

        taken = cells[0].values
        own = [p for n, p in inspect.signature(inner).parameters.items() if n not in taken]
        looks_like(test, item, own)
        item.table, item.cells = (inner, axes), cells
        return item

    return decorate


def is_selected(item):
    """Returns whether --sample, if given, names a case of this test item."""
    cases = getattr(getattr(item, "callspec", None), "params", {}).get("cases", ())
    cases = [*cases, *getattr(item.function, "cells", ())]
    return any(isinstance(c, (Case, Cell)) and selected.has(c) for c in cases)
