# SPDX-License-Identifier: BSD-3-Clause
"""How long a data-parallel step takes: an alpha-beta model of the sums, laid over backward.

A message of n bytes takes alpha + beta n seconds. A sum over p ranks by halving and doubling
(Rabenseifner) takes 2 log2(p) messages, which carry 2 (p - 1)/p of the bytes, and adds (p - 1)/p of
them up at gamma seconds a byte. Buckets travel one after the other, each when it is full; backward
goes on meanwhile, slowed by the part of the communication that the processor has to do itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

__all__ = ["NETWORKS", "Network", "Profile", "Step", "fit", "predict", "sum_time"]


@dataclass(frozen=True)
class Network:
    """An interconnect.

    ``alpha`` is seconds a message, ``beta`` seconds a byte, ``gamma`` seconds a byte that is added
    up; ``busy`` is the part of a sum's time in which the rank's own core is at work.
    """

    alpha: float
    beta: float
    gamma: float = 1 / 8e9
    busy: float = 0.15
    algorithm: str = "halving"


# One rank a node; latencies and bandwidths that MPI programs see, not those on the label.
NETWORKS = {
    "10 Gb/s Ethernet": Network(alpha=25e-6, beta=1 / 1.1e9, busy=0.5),
    "100 Gb/s InfiniBand": Network(alpha=2e-6, beta=1 / 11e9),
    "200 Gb/s InfiniBand": Network(alpha=1.5e-6, beta=1 / 22e9),
}


@dataclass(frozen=True)
class Profile:
    """One rank's computation: seconds of each part, and when in backward which gradients come.

    ``gradients`` are (seconds since backward began, bytes) in the order in which they come.
    ``handling`` is what dividing (and copying) gradients adds to backward, with several ranks.
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
        """Seconds of a step without communication."""
        return self.forward + self.backward + self.update

    def scaled(self, factor: float) -> Profile:
        """The same with another batch: forward and backward take ``factor`` times as long."""
        return replace(
            self,
            forward=self.forward * factor,
            backward=self.backward * factor,
            gradients=[(t * factor, n) for t, n in self.gradients],
        )


@dataclass(frozen=True)
class Step:
    """A predicted step: its seconds, those of all sums, and those that nothing hides."""

    seconds: float
    communication: float
    exposed: float

    @property
    def hidden(self) -> float:
        """The fraction of communication behind backward."""
        return 1 - self.exposed / self.communication if self.communication > 0 else 1.0


def sum_time(nbytes: float, ranks: int, network: Network) -> float:
    """Seconds of an all_reduce of ``nbytes`` over ``ranks``."""
    if ranks < 2:
        return 0.0
    share = (ranks - 1) / ranks
    messages = 2 * (ranks - 1) if network.algorithm == "ring" else 2 * math.ceil(math.log2(ranks))
    return messages * network.alpha + share * nbytes * (2 * network.beta + network.gamma)


def buckets(
    gradients: Sequence[tuple[float, int]], cap: float, first: float = 1 << 20
) -> list[tuple[float, int]]:
    """(when it is full, bytes) of each bucket that DistributedDataParallel would make."""
    found: list[tuple[float, int]] = []
    size, at = 0, 0.0
    for at, nbytes in gradients:
        size += nbytes
        if size >= (min(first, cap) if not found else cap):
            found.append((at, size))
            size = 0
    return [*found, (at, size)] if size else found


def _slowest(profile: Profile, ranks: int) -> float:
    """How much longer the slowest of many ranks takes than the mean one (normal, about)."""
    if ranks < 2 or profile.jitter == 0:
        return 0.0
    return profile.total * profile.jitter * math.sqrt(2 * math.log(ranks))


def predict(profile: Profile, ranks: int, network: Network, cap: float = 25 * (1 << 20)) -> Step:
    """The step of ``ranks`` ranks with buckets of ``cap`` bytes."""
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
    """The network whose sums take ``times``: (bytes, seconds) measured on ``ranks``.

    Least squares of relative errors; the processor does all of the work, as on one machine.
    """
    share, messages = (ranks - 1) / ranks, 2 * math.ceil(math.log2(ranks))
    rows = [(messages / t, 2 * share * n / t, 1 - share * n * gamma / t) for n, t in times]
    aa, ab, bb = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    ay, by = (sum(r[i] * r[2] for r in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    alpha = (bb * ay - ab * by) / determinant
    beta = (aa * by - ab * ay) / determinant
    return Network(alpha=max(alpha, 0.0), beta=max(beta, 0.0), gamma=gamma, busy=1.0)
