# SPDX-License-Identifier: BSD-3-Clause
"""torch.onnx.export: its arguments, errors and warnings, and what it leaves unchanged."""

import io
import subprocess
import sys
import warnings

import pytest
from onnx_runs import Call, check, compare, onnx, ort

import cograd as torch
from cograd import nn
from cograd.onnx.errors import OnnxExporterError, UnsupportedOperatorError


def export(function, *args, axes=None, **options):
    return torch.onnx.export(Call(function), args, dynamic_axes=axes, **options)


X = torch.arange(6.0).view(2, 3)


def test_files(tmp_path):
    model = nn.Linear(3, 2)
    path = tmp_path / "model.onnx"
    assert torch.onnx.export(model, X, path, dynamo=False) is None
    buffer = io.BytesIO()
    program = torch.onnx.export(model, (X,), buffer, input_names=["x"], output_names=["y"])
    for source in (str(path), buffer.getvalue()):
        (found,) = ort.InferenceSession(source).run(
            None, {"x" if source != str(path) else "input": X.numpy()}
        )
        torch.testing.assert_close(torch.from_numpy(found), model(X).detach())
    proto = onnx.load(path)
    assert [o.version for o in proto.opset_import] == [18]
    assert proto.producer_name == "cograd"
    assert [i.name for i in program.model_proto.graph.input] == ["x"]
    assert [o.name for o in program.model_proto.graph.output] == ["y"]
    assert {i.name for i in program.model_proto.graph.initializer} == {"weight", "bias"}
    program.save(path)
    assert onnx.load(path) == program.model_proto


def test_axes_have_labels():
    axes = {"x": {0: "batch"}, "y": {0: "batch"}}
    graph = torch.onnx.export(
        nn.Linear(3, 2), X, input_names=["x"], output_names=["y"], dynamic_axes=axes
    ).model_proto.graph
    for value in (graph.input[0], graph.output[0]):
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch"
        assert value.type.tensor_type.shape.dim[1].dim_value in (2, 3)


def test_dynamic_shapes():
    model = nn.Linear(3, 2)
    for shapes in ({"input": {0: "batch"}}, ({0: object()},)):
        program = torch.onnx.export(model, X, dynamic_shapes=shapes)
        compare(program, model, (torch.ones(5, 3),))
    with pytest.raises(ValueError, match="dynamic_shapes names 'x'"):
        torch.onnx.export(model, X, dynamic_shapes={"x": {0: "batch"}})


def test_parameters_as_inputs():
    names = ["input", "weight", "bias"]
    graph = torch.onnx.export(nn.Linear(3, 2), X, export_params=False).model_proto.graph
    assert [i.name for i in graph.input] == names
    assert not graph.initializer
    options = {"keep_initializers_as_inputs": True}
    graph = torch.onnx.export(nn.Linear(3, 2), X, **options).model_proto.graph
    assert [i.name for i in graph.input] == names
    assert len(graph.initializer) == 2


def test_modes_and_buffers_stay():
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2))
    model[1].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    program = torch.onnx.export(model, X)
    assert [m.training for m in model.modules()] == [True, True, False, True]
    torch.onnx.export(model[0], X, training=torch.onnx.TrainingMode.TRAINING)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key])
    compare(program, model.eval(), (X,))


def test_training_mode():
    model = nn.BatchNorm1d(3)
    program = torch.onnx.export(model, X, training=torch.onnx.TrainingMode.TRAINING)
    assert not model.running_mean.any()
    compare(program, model, (X,))
    with pytest.raises(OnnxExporterError, match=r"dropout\(\) in training"):
        torch.onnx.export(nn.Dropout(), X, training=torch.onnx.TrainingMode.TRAINING)


def test_is_in_export():
    seen = []
    export(lambda x: (seen.append(torch.onnx.is_in_onnx_export()), x + 1)[1], X)
    assert seen
    assert all(seen)
    assert not torch.onnx.is_in_onnx_export()


def test_verbose_and_verify(capsys):
    torch.onnx.export(nn.Linear(3, 2), X, verbose=True, verify=True)
    assert "Gemm" in capsys.readouterr().out


def test_other_opsets_are_refused():
    with pytest.raises(ValueError, match="opset_version is 9, expected 18"):
        torch.onnx.export(nn.Linear(3, 2), X, opset_version=9)


def test_unmapped_op_is_named():
    with pytest.raises(
        UnsupportedOperatorError, match=r"op linalg_inv\(\) at .*test_onnx_export.py"
    ):
        export(lambda x: torch.linalg.inv(x), torch.eye(3))
    with pytest.raises(UnsupportedOperatorError, match=r"rand\(\)"):
        export(lambda x: x + torch.rand(3), X)


def test_custom_translation_table():
    def erfinv(w, input):
        return w.emit("Neg", input)

    program = export(lambda x: x.erfinv(), X, custom_translation_table={"erfinv": erfinv})
    assert torch.equal(program(X)[0], -X)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.view(len(x), -1), r"view\(\) gets 2 or 4, which was read"),
        (lambda x: sum(x[i] for i in range(x.shape[0])), "another call"),
        (lambda x: x * torch.tensor(float(x.shape[0])), "a tensor that depends on the inputs"),
        (lambda x: torch.zeros(int(x.shape[0])) + 1, r"zeros\(\) gets"),
        (lambda x: x * x.stride(1) + x.T.contiguous().stride(0), r"add\(\) gets 2 or 4"),
    ],
)
def test_sizes_read_as_numbers_are_refused(function, message):
    with pytest.raises(OnnxExporterError, match=message):
        export(function, X, axes={"args_0": [0]})
    compare(export(function, X), Call(function), (X,))  # without dynamic axes they are constants


def test_branch_on_a_size_warns():
    with pytest.warns(torch.jit.TracerWarning, match="compares a size that varies") as found:
        export(lambda x: x * 2 if x.shape[0] > 1 else x, X, axes={"args_0": [0]})
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(lambda x: x * 2 if x.shape[1] > 1 else x, X, axes={"args_0": [0]})


def test_model_that_accepts_one_size_warns():
    with pytest.warns(torch.onnx.errors.OnnxExporterWarning, match="does not run with other sizes"):
        export(lambda x: x.view(2, 3), X, axes={"args_0": [0]})


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: x * x.sum().item(), "number"),
        (lambda x: x * 2 if x.sum() > 0 else x, "boolean"),
        (lambda x: x * float(x.sum()), "float"),
        (lambda x: x * torch.as_tensor(x.numpy().mean()), "NumPy array"),
        (lambda x: x[int(x[0, 1])], "integer"),
        (lambda x: x * x.tolist()[1][1], "list"),
    ],
)
def test_values_read_as_python_warn(function, kind):
    with pytest.warns(
        torch.jit.TracerWarning, match=f"Converting a tensor to a Python {kind}|{kind}"
    ) as found:
        program = export(function, X)
    assert {w.filename for w in found} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(program, Call(function), (X,))


def test_constants_may_be_read():
    check(lambda x: x * 2 if torch.ones(1).sum() > 0 else x, X)


def test_unseen_alias_is_refused():
    with pytest.raises(RuntimeError, match="was not made from it by an op that the trace sees"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            export(lambda x: torch.from_numpy(x.numpy()[:1]) * 2, X)


def test_results_that_are_no_tensors():
    with pytest.raises(OnnxExporterError, match="returns str 'a', expected tensors"):
        export(lambda x: (x, "a"), X)
    with pytest.raises(OnnxExporterError, match="returns no tensor"):
        export(lambda x: None, X)


def test_import_needs_no_onnx():
    code = "import sys, cograd; assert not {'onnx', 'cograd.onnx', 'cograd.jit'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_keyword_arguments():
    given = {"y": torch.ones(1, 3), "x": X}
    program = torch.onnx.export(Call2(), (), kwargs=given, dynamic_axes={"x": [0]})
    assert [i.name for i in program.model_proto.graph.input] == ["x", "y"]
    compare(program, Call2(), (), {"y": torch.zeros(1, 3), "x": torch.ones(5, 3)})
    with pytest.raises(TypeError, match="got the keyword arguments"):
        program(x=X)


class Call2(nn.Module):
    def forward(self, x, y):
        return x - y


@pytest.mark.parametrize(
    "function",
    [lambda x: x * torch.tensor(x.sum()), lambda x: x.new_tensor([x.sum(), x.sum()])[:1] + x],
)
@pytest.mark.filterwarnings("ignore:To copy")
def test_values_read_unnoticed_warn(function):
    with pytest.warns(torch.jit.TracerWarning, match="values|Python"):
        export(function, X)
    with pytest.warns(torch.jit.TracerWarning, match="values|Python"):
        torch.jit.trace(function, X)


def test_fft_is_an_op():
    call = lambda x: torch.fft.rfft(x).real
    with pytest.raises(UnsupportedOperatorError, match=r"op rfft\(\)"):
        export(call, X)
    traced = torch.jit.trace(call, X)
    assert torch.equal(traced(2 * X), call(2 * X))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(2 * X), call(2 * X))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dynamic_axes": {"z": [0]}}, ValueError, "dynamic_axes names 'z', which is no input or"),
        ({"dynamic_axes": {"x": 0}}, TypeError, r"dynamic_axes\['x'\] is 0, expected a list"),
        (
            {"dynamic_axes": {"x": {"b": 0}}},
            TypeError,
            r"\['x'\] has the axis 'b', expected an int",
        ),
        ({"dynamic_axes": {"x": "batch"}}, TypeError, "is 'batch', expected a list of axes"),
        ({"dynamic_shapes": ({0: "b"},) * 3}, ValueError, "has 3 entries, expected one for each"),
        ({"dynamic_shapes": {"x": 0}}, TypeError, r"dynamic_shapes\['x'\] is 0, expected"),
        ({"dynamic_shapes": 3}, TypeError, "dynamic_shapes is 3, expected"),
        ({"input_names": ["a", "b", "c"]}, ValueError, "input_names has 3 names.*'c' is too many"),
        ({"input_names": ["a", "a"]}, ValueError, "input_names has 'a' twice"),
        ({"input_names": ["y"]}, ValueError, "two inputs have the name 'y'"),
        ({"input_names": "ab"}, TypeError, "input_names is 'ab', expected a list"),
        ({"output_names": ["a", "b"]}, ValueError, "the model has 1 outputs: 'b' is too many"),
        ({"output_names": ["x"]}, ValueError, "'x', which is the name of an input"),
    ],
)
def test_wrong_names_and_axes_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        torch.onnx.export(Call2(), (X, X), **options)
