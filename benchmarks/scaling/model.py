# SPDX-License-Identifier: BSD-3-Clause
"""Predicts the time of a data-parallel step by an alpha-beta model of sums that overlap backward.

A message of n bytes takes alpha + beta n seconds. A sum over p ranks by halving and doubling
(Rabenseifner) takes 2 log2(p) messages, which carry 2 (p - 1)/p of the bytes, and adds (p - 1)/p of
them up at gamma seconds per byte. Buckets are sent one after the other, each when it is full.
Backward continues meanwhile, slowed by the part of the communication that the processor itself
does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

__all__ = ["NETWORKS", "Network", "Profile", "Step", "fit", "predict", "sum_time"]

ALONE = 4 << 20  # bytes of a gradient that is sent alone


@dataclass(frozen=True)
class Network:
    """Describes an interconnect.

    ``alpha`` is the seconds per message, ``beta`` the seconds per byte, ``gamma`` the seconds per
    byte that is summed; ``busy`` is the part of a sum's time in which the rank's core works.
    """

    alpha: float
    beta: float
    gamma: float = 1 / 8e9
    busy: float = 0.15
    algorithm: str = "halving"


# One rank per node; latencies and bandwidths as seen by MPI programs, not the nominal ones.
NETWORKS = {
    "10 Gb/s Ethernet": Network(alpha=25e-6, beta=1 / 1.1e9, busy=0.5),
    "100 Gb/s InfiniBand": Network(alpha=2e-6, beta=1 / 11e9),
    "200 Gb/s InfiniBand": Network(alpha=1.5e-6, beta=1 / 22e9),
}


@dataclass(frozen=True)
class Profile:
    """Describes a rank's computation: seconds of each part, and when gradients arrive.

    ``gradients`` are (seconds since backward began, bytes) in the order in which they arrive.
    ``handling`` is the time for dividing (and copying) gradients with several ranks.
    ``jitter`` is the standard deviation of a step over its mean: all wait for the slowest rank.
    """

    forward: float
    backward: float
    update: float
    gradients: Sequence[tuple[float, int]] = field(default_factory=tuple)
    handling: float = 0.0
    jitter: float = 0.0

    @property
    def total(self) -> float:
        """Returns the seconds of a step without communication."""
        return self.forward + self.backward + self.update

    def scaled(self, factor: float) -> Profile:
        """Returns it for another batch: forward and backward take ``factor`` times as long."""
        return replace(
            self,
            forward=self.forward * factor,
            backward=self.backward * factor,
            gradients=[(t * factor, n) for t, n in self.gradients],
        )


@dataclass(frozen=True)
class Step:
    """Holds a predicted step: its seconds, those of all sums, and those not hidden."""

    seconds: float
    communication: float
    exposed: float

    @property
    def hidden(self) -> float:
        """Returns the fraction of communication hidden behind backward."""
        return 1 - self.exposed / self.communication if self.communication > 0 else 1.0


def sum_time(nbytes: float, ranks: int, network: Network) -> float:
    """Returns the seconds of an all_reduce of ``nbytes`` over ``ranks``."""
    if ranks < 2:
        return 0.0
    share = (ranks - 1) / ranks
    messages = 2 * (ranks - 1) if network.algorithm == "ring" else 2 * math.ceil(math.log2(ranks))
    return messages * network.alpha + share * nbytes * (2 * network.beta + network.gamma)


def buckets(
    gradients: Sequence[tuple[float, int]], cap: float, first: float = 1 << 20
) -> list[tuple[float, int]]:
    """Returns (when it is full, bytes) of each bucket of DistributedDataParallel."""
    found: list[tuple[float, int]] = []
    size, at = 0, 0.0
    for at, nbytes in gradients:
        if nbytes >= ALONE:
            found.append((at, nbytes))
            continue
        size += nbytes
        if size >= (min(first, cap) if not found else cap):
            found.append((at, size))
            size = 0
    return [*found, (at, size)] if size else found


def _slowest(profile: Profile, ranks: int) -> float:
    """Returns about how much longer the slowest rank takes than the mean, if normal."""
    if ranks < 2 or profile.jitter == 0:
        return 0.0
    return profile.total * profile.jitter * math.sqrt(2 * math.log(ranks))


def predict(profile: Profile, ranks: int, network: Network, cap: float = 25 * (1 << 20)) -> Step:
    """Predicts the step of ``ranks`` ranks with buckets of ``cap`` bytes."""
    if ranks < 2:
        return Step(profile.total, 0.0, 0.0)
    stolen = 0.0  # core time that communication has taken from backward so far
    free = 0.0  # when the network has done the buckets before
    communication = 0.0
    spread = 1 + profile.handling / profile.backward
    for full, nbytes in buckets([(t * spread, n) for t, n in profile.gradients], cap):
        duration = sum_time(nbytes, ranks, network)
        begin = max(full + stolen, free)
        free = begin + duration
        communication += duration
        stolen += network.busy * duration
    end = max(profile.backward + profile.handling + stolen, free)
    exposed = end - profile.backward - profile.handling
    seconds = profile.total + profile.handling + exposed + _slowest(profile, ranks)
    return Step(seconds, communication, exposed)


def fit(times: Sequence[tuple[int, float]], ranks: int, gamma: float = 0.0) -> Network:
    """Fits a network whose sums take ``times``: (bytes, seconds) measured on ``ranks``.

    It minimises squared relative errors; the processor does all of the work, as on one machine.
    """
    share, messages = (ranks - 1) / ranks, 2 * math.ceil(math.log2(ranks))
    rows = [(messages / t, 2 * share * n / t, 1 - share * n * gamma / t) for n, t in times]
    aa, ab, bb = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    ay, by = (sum(r[i] * r[2] for r in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    alpha = (bb * ay - ab * by) / determinant
    beta = (aa * by - ab * ay) / determinant
    return Network(alpha=max(alpha, 0.0), beta=max(beta, 0.0), gamma=gamma, busy=1.0)
