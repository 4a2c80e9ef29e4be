# SPDX-License-Identifier: BSD-3-Clause
"""One test item for each record of the op table: its samples run inside, every failure is reported.

`pytest --sample OP[:INDEX[:DTYPE]]` runs the samples it names and nothing else, a single one with
pytest's own traceback. INDEX counts the samples of all records of that name; an empty part stands
for all.
"""

import collections
import inspect
import os
from dataclasses import dataclass

import pytest
from op_table import TABLE, samples_of

import cograd as torch


@dataclass(frozen=True)
class Selection:
    """What --sample names."""

    op: str = ""
    index: str = ""
    dtype: str = ""

    def has(self, case):
        return (
            self.op in ("", case.op)
            and self.index in ("", str(case.index))
            and self.dtype in ("", case.dtype)
        )


selected = Selection()  # conftest.py puts the option here


def select(text):
    global selected
    parts = (text or "").split(":")
    if len(parts) > 3:
        raise pytest.UsageError(f"--sample takes OP[:INDEX[:DTYPE]], not {text!r}")
    selected = Selection(*parts)


def numbered():
    """(id of a record, sample) -> its number among the samples of the records of that name."""
    seen, found = collections.Counter(), {}
    for record in TABLE:
        for sample in samples_of(record):
            found[id(record), sample] = seen[record["name"]]
            seen[record["name"]] += 1
    return found


NUMBERS = numbered()


class Case:
    """One call of a test: a record, mostly a sample, sometimes a dtype, and what else it takes."""

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


class Report:
    """Runs cases to the last one, then raises what failed."""

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
            if str(e).startswith("Timeout"):  # of pytest-timeout, which warns once an item
                self.close()

    def close(self):
        __tracebackhide__ = True
        if self.failed:
            count = len(self.failed) + len(self.skipped) + self.passed
            head = f"{len(self.failed)} of {count} samples failed"
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


def each_sample(cases, names="record,sample", dtypes=(None,)):
    """Makes a test of single samples into one of records, which runs all of a record's samples.

    `cases` are tuples of the values of `names`; a test with a parameter `dtype` is also
    called with each of `dtypes`, which may be a function of the record. It returns False where the
    sample says nothing: one of them must say something.
    """
    names = names.split(",")
    by_record = {}
    for param in cases:
        values = dict(zip(names, getattr(param, "values", param), strict=True))
        by_record.setdefault(id(values["record"]), []).append(values)

    def decorate(test):
        def item(cases, **fixtures):
            __tracebackhide__ = True
            chosen = [c for c in cases if selected.has(c)]
            if len(chosen) == 1 and selected.op:
                test(**chosen[0].values, **fixtures)
                return
            report = Report()
            for case in chosen:
                report.run(test, case, fixtures)
            report.close()

        given = inspect.signature(test).parameters
        for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(item, attribute, getattr(test, attribute))
        vars(item).update(vars(test))  # marks
        own = [inspect.Parameter("cases", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        own += [p for n, p in given.items() if n not in (*names, "dtype")]
        item.__signature__ = inspect.Signature(own)
        params = []
        for group in by_record.values():
            record = group[0]["record"]
            made = dtypes(record) if callable(dtypes) else dtypes
            with_dtypes = [
                values | ({"dtype": d} if "dtype" in given else {})
                for values in group
                for d in made
            ]
            params.append(pytest.param([Case(v) for v in with_dtypes], id=record["name"]))
        return pytest.mark.parametrize("cases", params)(item)

    return decorate


def is_selected(item):
    """Whether --sample, if given, names a sample of this test item."""
    cases = getattr(getattr(item, "callspec", None), "params", {}).get("cases", ())
    return any(isinstance(c, Case) and selected.has(c) for c in cases)
