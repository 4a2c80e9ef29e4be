# SPDX-License-Identifier: BSD-3-Clause
"""The results of an audit: one result per check, and their table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cograd._base import notebook

__all__ = ["CheckError", "CheckReport", "CheckResult", "Fault", "Inapplicable", "Remark"]


class CheckError(AssertionError):
    """Raised by ``check`` when it finds a fault; an AssertionError.

    Attributes:
        report: the ``CheckReport`` with all results; the message is its table.
    """

    def __init__(self, report: CheckReport) -> None:
        super().__init__(str(report))
        self.report = report


class Fault(Exception):  # noqa: N818
    """A check failed: the place, what was seen and, for numbers, the difference."""

    def __init__(self, where: str, detail: str, amount: float | None = None) -> None:
        super().__init__(where, detail, amount)
        self.where, self.detail, self.amount = where, detail, amount


class Remark(Fault):
    """A finding that does not cause wrong results."""


class Inapplicable(Exception):  # noqa: N818
    """A check does not apply; the message says why."""


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check.

    Attributes:
        check: its name.
        outcome: "pass", "fail", "note" (a fault that costs time or memory only) or "skip".
        where: the input, output or gradient and the element at fault, if any.
        detail: what was seen and what was expected; what was tried, or why the check was skipped.
        amount: the largest difference, if numbers were compared and differ.
        seconds: its duration.
        error: the exception that the operation raised, if the check failed by one.
    """

    check: str
    outcome: str
    where: str = ""
    detail: str = ""
    amount: float | None = None
    seconds: float = 0.0
    error: str = ""


@dataclass
class CheckReport:
    """All results of one audit; ``str()`` formats a table, ``bool()`` is True if it passed.

    Iterating yields each ``CheckResult``. The table has one row for all checks that failed by
    the same exception.

    Attributes:
        name: name of the operation.
        results: the results in the order of the checks.
    """

    name: str
    results: list[CheckResult] = field(default_factory=list)

    def __iter__(self) -> Iterator[CheckResult]:
        return iter(self.results)

    def __getitem__(self, check: str) -> CheckResult:
        for result in self.results:
            if result.check == check:
                return result
        raise KeyError(f"no check {check!r} in this report, there are {self.checks}")

    def __bool__(self) -> bool:
        return self.ok

    @property
    def checks(self) -> list[str]:
        """The names of the checks, in order."""
        return [result.check for result in self.results]

    @property
    def failures(self) -> list[CheckResult]:
        """The results that failed."""
        return [result for result in self.results if result.outcome == "fail"]

    @property
    def notes(self) -> list[CheckResult]:
        """The results with a remark."""
        return [result for result in self.results if result.outcome == "note"]

    @property
    def ok(self) -> bool:
        """True if no check failed."""
        return not self.failures

    def _title(self) -> str:
        counts = dict.fromkeys(("pass", "fail", "note", "skip"), 0)
        for result in self.results:
            counts[result.outcome] += 1
        summary = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        return f"check of {self.name}: {summary}"

    def _rows(self) -> list[tuple[CheckResult, str]]:
        """Returns each result to print and its detail, so that an exception is printed once.

        The first check that failed by an exception names the others that failed by it; checks
        that were skipped because of it name the first.
        """
        hit: dict[str, list[CheckResult]] = {}
        for result in self.failures:
            hit.setdefault(result.error, []).append(result)
        hit.pop("", None)
        rows = []
        for result in self.results:
            same = hit.get(result.error, [result])
            if same[0] is not result:
                continue
            detail = result.detail
            for error, failures in hit.items() if result.outcome == "skip" else ():
                detail = detail.replace(error, f"as in {failures[0].check}")
            if len(same) > 1:
                names = ", ".join(other.check for other in same[1:])
                checks = "1 more check" if len(same) == 2 else f"{len(same) - 1} more checks"
                detail += f"\nThe same exception fails {checks}: {names}"
            rows.append((result, detail))
        return rows

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        rows = [(r.check, r.outcome, r.where, detail) for r, detail in self._rows()]
        return notebook.table(self._title(), ("check", "outcome", "where", "detail"), rows)

    def __str__(self) -> str:
        lines = [self._title()]
        width = max((len(result.check) for result in self.results), default=0)
        margin = " " * (width + 8)
        for result, detail in self._rows():
            head = f"  {result.check:<{width}}  {result.outcome}"
            texts = [text for text in (result.where, detail) if text]
            if result.outcome in ("pass", "skip"):
                lines.append(f"{head}  {': '.join(texts)}".rstrip())
                continue
            lines.append(f"{head}  {texts[0] if texts else ''}".rstrip())
            for text in texts[1:]:
                lines.extend(margin + line for line in text.splitlines())
        return "\n".join(lines)
