# SPDX-License-Identifier: BSD-3-Clause
"""Classifies the nodes of a graph of which six have a label, by a network with attention.

The points lie on two arcs, and each is connected with its nearest neighbours. A layer averages the
features of neighbours with weights that it learns: the scores of all edges are the values of a
sparse matrix, ``sparse.softmax`` normalises its rows, and a sparse product averages. Gradients flow
to the values and to the features (Velickovic et al., Graph Attention Networks, 2018).
Usage: python examples/graph_network.py [--steps N] [--out picture.png]
"""

import argparse
import math

import cograd as torch
from cograd import nn

NODES, NEIGHBOURS, HIDDEN = 400, 8, 16


def two_arcs(noise: float = 0.09) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns points (NODES, 2) and the arc, 0 or 1, of each."""
    angle = math.pi * torch.rand(NODES)
    arc = torch.arange(NODES) % 2
    side = 1.0 - 2.0 * arc
    points = torch.stack((torch.cos(angle) * side + arc, torch.sin(angle) * side + 0.3 * arc), 1)
    return points + noise * torch.randn(NODES, 2), arc


def nearest(points: torch.Tensor) -> torch.Tensor:
    """Returns the pattern of the graph: ones for each point's neighbours and the point itself."""
    others = torch.cdist(points, points).topk(NEIGHBOURS + 1, largest=False).indices
    at = torch.stack((torch.arange(NODES).repeat_interleave(NEIGHBOURS + 1), others.flatten()))
    one_way = torch.sparse_coo_tensor(at, torch.ones(at.shape[1]), (NODES, NODES))
    return (one_way + one_way.t()).coalesce()


class Attention(nn.Module):
    """Averages over neighbours with learned weights."""

    def __init__(self, features: int, out: int) -> None:
        super().__init__()
        self.mix = nn.Linear(features, out)
        self.ends = nn.Linear(out, 2)

    def weights(self, graph: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """Returns a sparse matrix whose rows sum to 1."""
        source, target = graph.indices()
        score = self.ends(h)[source, 0] + self.ends(h)[target, 1]
        edges = torch.sparse_coo_tensor(
            graph.indices(), nn.functional.leaky_relu(score, 0.2), graph.shape, is_coalesced=True
        )
        return torch.sparse.softmax(edges, 1)

    def forward(self, graph: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Returns the averaged features of all nodes."""
        h = self.mix(x)
        return self.weights(graph, h) @ h


class Network(nn.Module):
    """Three layers, so that a node sees those at most three edges away."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [Attention(2, HIDDEN), Attention(HIDDEN, HIDDEN), Attention(HIDDEN, 2)]
        )

    def forward(self, graph: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Returns two scores for each node."""
        for layer in self.layers[:-1]:
            x = nn.functional.elu(layer(graph, x)) + (x if x.shape[1] == HIDDEN else 0.0)
        return self.layers[-1](graph, x)


def draw(
    points: torch.Tensor,
    graph: torch.Tensor,
    known: torch.Tensor,
    guess: torch.Tensor,
    losses: list[float],
    path: str,
) -> None:
    """Draws the graph with the labels that are known, the guesses, and the loss."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(13, 3.6))
    a, b = graph.indices()
    lines = torch.stack((points[a], points[b]), 1).transpose(0, 1)
    for axis in axes[:2]:
        axis.plot(lines[:, :, 0].numpy(), lines[:, :, 1].numpy(), color="0.85", lw=0.4, zorder=0)
        axis.set_axis_off()
    colours = {0: "tab:orange", 1: "tab:blue"}
    axes[0].scatter(*points.t().numpy(), s=6, color="0.6")
    for node, label in known.tolist():
        axes[0].scatter(*points[node].tolist(), s=70, color=colours[label], edgecolor="k")
    axes[0].set_title(f"{len(known)} of {NODES} labels are known")
    axes[1].scatter(*points.t().numpy(), s=8, color=[colours[g] for g in guess.tolist()])
    axes[1].set_title("what the network says")
    axes[2].semilogy(losses)
    axes[2].set_xlabel("step")
    axes[2].set_title("loss on the known labels")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Trains the network and prints how many nodes it classifies correctly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--out", help="file of the picture; needs matplotlib")
    options = parser.parse_args()
    torch.manual_seed(2)
    points, arc = two_arcs()
    graph = nearest(points)
    seen = torch.cat([torch.arange(NODES)[arc == k][:3] for k in (0, 1)])
    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=1e-3)
    losses = []
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(graph, points)[seen], arc[seen])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        guess = network(graph, points).argmax(1)
    right = int((guess == arc).sum())
    print(f"{graph.values().numel()} edges; loss {losses[0]:.3f} -> {losses[-1]:.4f}")
    print(f"correct: {right} of {NODES}; the labels of {len(seen)} were known")
    if options.out:
        known = torch.stack((seen, arc[seen]), 1)
        draw(points, graph, known, guess, losses, options.out)


if __name__ == "__main__":
    main()
