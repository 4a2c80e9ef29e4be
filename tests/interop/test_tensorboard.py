# SPDX-License-Identifier: BSD-3-Clause
"""utils.tensorboard: what it writes is read by the package tensorboard."""

import io
import sys
import threading
import wave

import numpy as np
import pytest

import cograd as torch
from cograd.utils.tensorboard import SummaryWriter


def test_without_the_package(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(ImportError, match=r"cograd\[tensorboard\]"):
        SummaryWriter(tmp_path)


# Everything below needs the package; it has warnings of its own.
needs = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("tensorboard") is None,
    reason="tensorboard is not installed",
)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def read(folder):
    """Returns {tag: value message} and {tag: step} of the files of a directory."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found, steps = {}, {}
    for file in sorted(folder.glob("events*")):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                found[value.tag], steps[value.tag] = value, event.step
    return found, steps


def array(value):
    from tensorboard.util.tensor_util import make_ndarray

    return make_ndarray(value.tensor)


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(tmp_path / "run") as w:
        yield w


def written(writer):
    writer.close()
    from pathlib import Path

    return read(Path(writer.log_dir))[0]


@needs
def test_scalars(writer, tmp_path):
    x = torch.tensor([2.5], requires_grad=True)
    writer.add_scalar("loss", x.sum() * 2, torch.tensor(3))
    writer.add_scalar("plain", 7, 4, walltime=12.5)
    writer.add_scalar("half", torch.tensor(1.5, dtype=torch.bfloat16))
    writer.add_scalar("exact", 0.1, double_precision=True)
    writer.add_scalars("a/b", {"one": torch.tensor(1.0), "two": 2.0}, 5)
    with pytest.raises(TypeError, match=r"add_scalar\(\): 'loss' must be a number.*shape \[2\]"):
        writer.add_scalar("loss", torch.ones(2))
    with pytest.raises(TypeError, match="'loss' must be a number"):
        writer.add_scalar("loss", "fast")
    writer.close()
    found, steps = read(tmp_path / "run")
    assert array(found["loss"]) == 5 and steps["loss"] == 3
    assert array(found["plain"]) == 7 and array(found["half"]) == 1.5
    assert array(found["exact"]).dtype == np.float64 and array(found["exact"]) == 0.1
    for name, value in (("one", 1), ("two", 2)):
        found, steps = read(tmp_path / "run" / f"a_b_{name}")
        assert array(found["a/b"]) == value and steps["a/b"] == 5


@needs
def test_default_directory_and_reopening(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_note")
    assert writer.get_logdir() == writer.log_dir and writer.log_dir.endswith("_note")
    writer.add_scalar("a", 1)
    writer.close()
    writer.close()
    writer.add_scalar("b", 2)
    writer.flush()
    (folder,) = (tmp_path / "runs").iterdir()
    assert set(read(folder)[0]) == {"a", "b"}
    writer.close()


@needs
def test_purge_step(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with SummaryWriter(tmp_path) as w:
        for i in range(5):
            w.add_scalar("x", i, i)
    with SummaryWriter(tmp_path, purge_step=3, filename_suffix=".later") as w:
        w.add_scalar("x", 30, 3)
    assert len(list(tmp_path.glob("*.later"))) == 1
    seen = EventAccumulator(str(tmp_path), size_guidance={"scalars": 0}).Reload()
    assert [e.step for e in seen.Scalars("x")] == [0, 1, 2, 3]


@needs
def test_histograms(writer):
    values = torch.tensor([-1.0, 0.5, 0.5, 2.0], requires_grad=True)
    writer.add_histogram("default", values, 1)
    writer.add_histogram("three", values, bins=3)
    writer.add_histogram("joined", torch.arange(100.0), bins=50, max_bins=5)
    writer.add_histogram("ints", np.arange(4))
    writer.add_histogram("low", values.to(torch.bfloat16))
    writer.add_histogram("edges", values, bins=np.array([-1.0, 0.0, 3.0]))
    writer.add_histogram("huge", torch.tensor([1e30, -1e30, 1.0]))
    writer.add_histogram("bools", torch.tensor([True, False]))
    for bad in (torch.ones(2, dtype=torch.complex64), "words"):
        with pytest.raises(TypeError, match="'bad' must be real numbers"):
            writer.add_histogram("bad", bad)
    with pytest.raises(ValueError, match="'none' are empty"):
        writer.add_histogram("none", torch.zeros(0))
    with pytest.warns(UserWarning, match="2 of 4 values of 'bad' are not finite"):
        writer.add_histogram("bad", torch.tensor([1.0, float("nan"), float("-inf"), 3.0]))
    with pytest.warns(UserWarning, match="1 of 1 values"):
        writer.add_histogram("worse", torch.tensor(float("nan")))
    writer.add_histogram_raw("raw", 0, 2, 3, 3, 5, [1, 2], torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="bucket_limits"):
        writer.add_histogram_raw("raw", 0, 2, 3, 3, 5, [1, 2], [1])
    found = {tag: array(value) for tag, value in written(writer).items()}  # rows: low, high, count
    for tag in ("default", "three", "low"):
        assert found[tag][:, 2].sum() == 4, tag
    assert found["edges"][:, 2].tolist()[-2:] == [1, 3]
    assert found["huge"][:, 2].sum() == 3 and found["bools"][:, 2].sum() == 2
    assert found["bad"][:, 2].sum() == 2 and found["ints"][:, 2].sum() == 4
    assert len(found["joined"][:, 2]) <= 6 and found["joined"][:, 2].sum() == 100
    assert found["raw"][:, 2].tolist() == [1, 2]
    for low, high, count in found["default"]:
        inside = [v for v in values.tolist() if low <= v < high or v == high]
        assert count <= len(inside)


def picture(value):
    PIL = pytest.importorskip("PIL.Image")
    data = value.tensor.string_val[2] if value.tensor.string_val else value.image
    return np.asarray(PIL.open(io.BytesIO(data)))


@needs
def test_pictures(writer):
    x = torch.rand(3, 5, 7, requires_grad=True)
    writer.add_image("floats", x, 1)
    writer.add_image("bytes", np.arange(24, dtype=np.uint8).reshape(2, 4, 3), dataformats="HWC")
    writer.add_image("gray", torch.full((2, 2), 0.5), dataformats="HW")
    writer.add_image("alpha", torch.ones(4, 2, 2))
    writer.add_image("nan", torch.full((1, 2, 2), float("nan")))
    writer.add_images("many", torch.ones(3, 1, 2, 2))
    for bad, formats, text in (
        (torch.ones(2, 2), "CHW", "has 3 dims"),
        (torch.ones(2, 2, 2), "XHW", "permutation"),
        (torch.ones(2, 2, 2), "CHW", "1, 3 or 4 channels"),
        (torch.ones(3, 0, 2), "CHW", "no pixels"),
    ):
        with pytest.raises(ValueError, match=text):
            writer.add_image("bad", bad, dataformats=formats)
    with pytest.raises(TypeError, match="complex"):
        writer.add_image("bad", torch.ones(3, 2, 2, dtype=torch.complex64))
    found = {tag: picture(value) for tag, value in written(writer).items()}
    expected = (x.detach().numpy().transpose(1, 2, 0) * 255.0).astype(np.uint8)
    assert (found["floats"] == expected).all()
    assert (found["bytes"] == np.arange(24).reshape(2, 4, 3)).all()
    assert (found["gray"] == 127).all() and found["gray"].shape == (2, 2, 3)
    assert found["alpha"].shape == (2, 2, 4) and (found["nan"] == 0).all()
    assert found["many"].shape == (4, 4, 3)
    assert (found["many"][2:, 2:] == 0).all() and (found["many"][:2] == 255).all()


@needs
def test_boxes_figures_films_and_sounds(writer):
    pytest.importorskip("PIL.Image")
    writer.add_image_with_boxes(
        "boxes", torch.zeros(3, 8, 8), torch.tensor([[1.0, 1.0, 6.0, 6.0]]), rescale=2, labels="a"
    )
    with pytest.raises(ValueError, match=r"shape \[n, 4\]"):
        writer.add_image_with_boxes("boxes", torch.zeros(3, 8, 8), torch.zeros(4))
    film = torch.zeros(1, 3, 3, 4, 6, dtype=torch.uint8)
    film[0, 1] = 255
    writer.add_video("film", film, fps=2)
    with pytest.raises(ValueError, match="not empty"):
        writer.add_video("film", torch.zeros(1, 0, 3, 4, 4))
    writer.add_audio("sound", torch.tensor([[0.0, 1.0, -2.0]]), sample_rate=8000)
    plt = pytest.importorskip("matplotlib.pyplot")
    figure = plt.figure(figsize=(1, 1), dpi=20)
    writer.add_figure("figure", figure)
    assert not plt.fignum_exists(figure.number)
    writer.add_figure("figures", [plt.figure(figsize=(1, 1), dpi=20) for _ in range(2)])
    found = written(writer)
    boxes = picture(found["boxes"])
    assert boxes.shape == (16, 16, 3) and boxes[2, 8].tolist() == [255, 0, 0]
    import PIL.Image

    with PIL.Image.open(io.BytesIO(found["film"].tensor.string_val[2])) as moving:
        assert moving.n_frames == 3 and moving.info["duration"] == 500
        moving.seek(1)
        assert np.asarray(moving.convert("RGB")).min() == 255
    assert picture(found["figure"]).shape == (20, 20, 3)
    assert picture(found["figures"]).shape == (20, 40, 3)
    with wave.open(io.BytesIO(found["sound"].tensor.string_val[0])) as f:
        assert f.getframerate() == 8000
        assert np.frombuffer(f.readframes(3), "<i2").tolist() == [0, 32767, -32767]


@needs
def test_text_tensors_graphs(writer):
    writer.add_text("note", "*words*: ä", 1)
    writer.add_tensor("t", torch.arange(6.0).view(2, 3))
    with pytest.warns(UserWarning, match=r"nothing is written; autograd\.graph\.draw\(model"):
        writer.add_graph(torch.nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match="ONNX"):
        writer.add_onnx_graph("file")
    found = written(writer)
    assert array(found["note/text_summary"])[0].decode() == "*words*: ä"
    assert array(found["t"]).tolist() == [[0, 1, 2], [3, 4, 5]]


@needs
def test_curves(writer):
    labels = torch.tensor([1, 0, 1, 0])
    writer.add_pr_curve("pr", labels, torch.tensor([0.9, 0.2, 0.4, 0.6]), num_thresholds=11)
    with pytest.raises(ValueError, match="from 0 to 1"):
        writer.add_pr_curve("pr", labels, torch.tensor([0.9, 0.2, float("nan"), 0.6]))
    with pytest.raises(ValueError, match="4 labels, but 2 predictions"):
        writer.add_pr_curve("pr", labels, torch.ones(2))
    writer.add_pr_curve_raw("raw", *[[1, 2]] * 6, num_thresholds=2)
    writer.add_custom_scalars_multilinechart(["a", "b"], title="both")
    with pytest.raises(AssertionError, match="3 tags"):
        writer.add_custom_scalars_marginchart(["a"])
    found = written(writer)
    tp, fp, tn, fn, precision, recall = array(found["pr"])
    assert tp[[0, 5, 10]].tolist() == [2, 1, 0] and fp[[0, 5, 10]].tolist() == [2, 1, 0]
    assert (tp + fn).tolist() == [2] * 11 and (tn + fp).tolist() == [2] * 11
    assert precision[5] == 0.5 and recall[5] == 0.5
    assert array(found["raw"]).shape == (6, 2)
    assert b"both" in array(found["custom_scalars__config__"]).item()


@needs
def test_meshes(writer):
    corners = torch.rand(1, 4, 3)
    faces = torch.tensor([[[0, 1, 2], [1, 2, 3]]])
    writer.add_mesh("mesh", corners, (corners * 255).to(torch.uint8), faces, {"a": 1})
    writer.add_mesh("points", corners)
    with pytest.raises(ValueError, match=r"vertices must have shape \[batch, n, 3\]"):
        writer.add_mesh("points", torch.rand(4, 3))
    found = written(writer)
    assert {t for t in found if t.startswith("mesh")} == {
        "mesh_VERTEX",
        "mesh_FACE",
        "mesh_COLOR",
    }
    assert (array(found["points_VERTEX"]) == corners.numpy()).all()


@needs
def test_embeddings(writer, tmp_path):
    writer.add_embedding(
        torch.eye(3),
        metadata=["a", "b\tc", "d"],
        label_img=torch.rand(3, 3, 2, 2),
        global_step=7,
        tag="x",
    )
    writer.add_embedding(torch.eye(2), metadata=[[1, 2], [3, 4]], metadata_header=["p", "q"])
    with pytest.raises(AssertionError, match="#labels"):
        writer.add_embedding(torch.eye(3), metadata=["a"])
    with pytest.raises(AssertionError, match="2D"):
        writer.add_embedding(torch.ones(3))
    writer.add_embedding(torch.ones(1, 1), tag='../../"o\nut', global_step=1234567)
    folder = tmp_path / "run" / "00007" / "x"
    assert (folder / "tensors.tsv").read_text() == "1\t0\t0\n0\t1\t0\n0\t0\t1\n"
    assert (folder / "metadata.tsv").read_text() == "a\nb c\nd\n"
    assert (folder / "sprite.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "run" / "projector_config.pbtxt").read_text()
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    config = text_format.Parse(text, ProjectorConfig())
    first, second, third = config.embeddings
    assert third.tensor_name == '../../"o\nut:1234567'
    assert third.tensor_path == "1234567/_o_ut/tensors.tsv"
    assert (tmp_path / "run" / third.tensor_path).read_text() == "1\n"
    assert first.tensor_path == "00007/x/tensors.tsv"
    assert list(first.sprite.single_image_dim) == [2, 2]
    assert second.metadata_path == "00000/default/metadata.tsv"
    assert (tmp_path / "run" / second.metadata_path).read_text() == "p\tq\n1\t2\n3\t4\n"


@needs
def test_hyperparameters(writer, tmp_path):
    from tensorboard.plugins.hparams import metadata

    values = {"lr": torch.tensor(0.1), "name": "a", "on": True, "none": None}
    writer.add_hparams(values, {"loss": torch.tensor(0.5)}, {"name": ["a", "b"]}, run_name="one")
    with pytest.raises(TypeError, match="should be dictionary"):
        writer.add_hparams([], {})
    with pytest.raises(ValueError, match="lr must be int, float"):
        writer.add_hparams({"lr": [1]}, {})
    with pytest.raises(TypeError, match="must be the list"):
        writer.add_hparams({"lr": 1}, {}, {"other": [1]})
    found, _ = read(tmp_path / "run" / "one")
    assert array(found["loss"]) == 0.5
    content = found[metadata.SESSION_START_INFO_TAG].metadata.plugin_data.content
    start = metadata.parse_session_start_info_plugin_data(content)
    assert abs(start.hparams["lr"].number_value - 0.1) < 1e-6
    assert start.hparams["on"].bool_value and "none" not in start.hparams


@needs
def test_threads_share_a_writer(writer, tmp_path):
    def work(k):
        for i in range(50):
            writer.add_scalar(f"t{k}", i, i)
            writer.add_scalars("all", {str(k): i}, i)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    writer.close()
    assert set(read(tmp_path / "run")[0]) == {f"t{k}" for k in range(4)}
    assert len(list((tmp_path / "run").glob("events*"))) == 1
    assert len(list((tmp_path / "run").glob("all_*/events*"))) == 4


@needs
def test_arguments_of_wrong_types_are_named(writer):
    for call, text in (
        (lambda: writer.add_scalar(3, 1.0), "a tag must be a str, got int 3"),
        (lambda: writer.add_text(None, "x"), "a tag must be a str, got NoneType None"),
        (lambda: writer.add_scalar("a", 1.0, "x"), "global_step must be a number, got 'x'"),
        (
            lambda: writer.add_scalars("a", [1.0]),
            r"add_scalars\(\): tag_scalar_dict must be a dict",
        ),
        (lambda: writer.add_custom_scalars(3), r"add_custom_scalars\(\): layout must be a dict"),
        (lambda: writer.add_figure("f", 3), r"add_figure\(\): figure must be a matplotlib Figure"),
    ):
        with pytest.raises(TypeError, match=text):
            call()
