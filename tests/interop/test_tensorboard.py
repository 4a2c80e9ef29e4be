# SPDX-License-Identifier: BSD-3-Clause
"""utils.tensorboard, with or without tensorboardX."""

import sys

import pytest

import cograd as torch


def test_without_the_package(monkeypatch, tmp_path):
    from cograd.utils.tensorboard import SummaryWriter

    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"cograd\[tensorboard\]"):
        SummaryWriter(tmp_path)


def test_events_are_written(tmp_path):
    pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    from cograd.utils.tensorboard import SummaryWriter

    x = torch.rand(3, 8, 8, requires_grad=True)
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("loss", x.sum(), 1)
        writer.add_scalars("several", {"a": torch.tensor(1.0), "b": 2.0}, 1)
        writer.add_histogram("weights", x, 1)
        writer.add_histogram("low", x.to(torch.bfloat16), 1)
        writer.add_image("image", x, 1)
        writer.add_text("note", "words", 1)
        assert writer.log_dir == writer.get_logdir() == str(tmp_path / "run")
        with pytest.warns(UserWarning, match="no tracing"):
            writer.add_graph(torch.nn.Linear(1, 1))
    (events,) = (tmp_path / "run").glob("events*")
    data = events.read_bytes()
    assert all(tag in data for tag in (b"loss", b"weights", b"image", b"words"))
