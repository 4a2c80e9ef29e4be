# SPDX-License-Identifier: BSD-3-Clause
"""x.options() is accepted where torch accepts it, in C++ with cograd's and with torch's names."""

import shutil

import pytest

import cograd as torch
from cograd.utils import cpp_extension

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
# NS is a namespace: cograd or torch. Every expression is one that compiles with torch 2.13.
FACTORIES = """
  empty({2}, o) | zeros({2}, o) | ones({2}, o) | full({2}, 1.5, o) | rand({2}, o) | randn({2}, o)
  eye(3, o) | eye(3, 4, o) | arange(5, o) | arange(1, 5, o) | arange(1, 5, 2, o)
  linspace(0, 1, 5, o) | logspace(0, 1, 5, 2.0, o) | randint(5, {2}, o) | randint(1, 5, {2}, o)
  randperm(5, o) | normal(0.0, 1.0, {2}, NONE o) | empty_strided({2, 2}, {1, 2}, o)
  from_blob(data, {4}, o) | from_blob(data, {2, 2}, {1, 2}, o)
  from_blob(data, {4}, [](void*) { ++freed; }, o)
  from_blob(data, {2, 2}, {1, 2}, [](void*) { ++freed; }, o)
  scalar_tensor(1.0, o) | tensor({1.0, 2.0}, o) | tensor(3, o) | tensor(std::vector<int64_t>{1}, o)
  tril_indices(2, 3, 0, y.options()) | triu_indices(2, 3, 0, y.options())
  empty_like(y, o) | zeros_like(y, o)
  ones_like(y, o) | full_like(y, 2, o) | rand_like(y, o) | randn_like(y, o) | randint_like(y, 5, o)
  randint_like(y, 1, 5, o)
"""
METHODS = """
  new_empty({2}, o) | new_zeros({2}, o) | new_ones({2}, o) | new_full({2}, 1, o)
  new_empty_strided({2}, {1}, o) | to(o) | to(o, false) | to(o, false, true)
"""


def expressions(text):
    return [e.strip() for line in text.split("\n") for e in line.split(" | ") if e.strip()]


def source(namespace, none):
    calls = [f"{namespace}::{e}".replace("NONE ", none) for e in expressions(FACTORIES)]
    calls += [f"y.{e}" for e in expressions(METHODS)]
    body = "\n".join(f"  all.push_back({call});" for call in calls)
    return f"""
static int freed = 0;
int64_t times_freed() {{ return freed; }}
std::vector<{namespace}::Tensor> made(const {namespace}::Tensor& x, const {namespace}::Tensor& y) {{
  static double data[] = {{0, 1, 2, 3}};
  const auto o = x.options();
  std::vector<{namespace}::Tensor> all;
{body}
  return all;
}}
{namespace}::Tensor copied(const {namespace}::Tensor& x) {{
  return x.to(x.options(), false, true);
}}
"""


@pytest.mark.parametrize(("namespace", "none"), [("cograd", ""), ("torch", "c10::nullopt, ")])
def test_options_are_accepted(namespace, none):
    ops = cpp_extension.load_inline(
        f"t_options_{namespace}",
        source(namespace, none),
        functions=["made", "copied", "times_freed"],
    )
    x, y = torch.ones(1, dtype=torch.float64), torch.ones(2, dtype=torch.int32)
    names = expressions(FACTORIES) + [f"y.{e}" for e in expressions(METHODS)]
    made = dict(zip(names, ops.made(x, y), strict=True))
    assert all(t.dtype == (y if "y.options" in n else x).dtype for n, t in made.items())
    assert made["eye(3, o)"].shape == (3, 3) and made["eye(3, 4, o)"].shape == (3, 4)
    assert made["arange(1, 5, o)"].tolist() == [1, 2, 3, 4]
    assert made["arange(1, 5, 2, o)"].tolist() == [1, 3]
    assert made["from_blob(data, {2, 2}, {1, 2}, o)"].tolist() == [[0, 2], [1, 3]]
    assert made["from_blob(data, {2, 2}, {1, 2}, [](void*) { ++freed; }, o)"].stride() == (1, 2)
    assert made["full_like(y, 2, o)"].tolist() == [2, 2] and made["y.to(o)"].tolist() == [1, 1]
    before = ops.times_freed()
    del made
    assert ops.times_freed() == before + 2
    assert ops.copied(x) is not x and ops.copied(x).data_ptr() != x.data_ptr()
    leaf = x.clone().requires_grad_()
    ops.copied(leaf).sum().backward()
    assert leaf.grad.item() == 1


def test_strides_of_from_blob_are_counted():
    body = "return cograd::from_blob(x.data_ptr(), {1}, {1, 1});"
    code = f"cograd::Tensor f(cograd::Tensor x) {{ {body} }}"
    ops = cpp_extension.load_inline("t_blob_strides", code, functions="f")
    with pytest.raises(ValueError, match=r"from_blob\(\): got 1 sizes and 2 strides"):
        ops.f(torch.ones(1))


def test_torchs_spelling_of_conversions_needs_compat():
    """saved_data["a"].to_double() is cograd's; the error for torch's name says so."""
    code = """
    using cograd::autograd::AutogradContext;
    struct Twice : cograd::autograd::Function<Twice> {
      static cograd::Tensor forward(AutogradContext* ctx, const cograd::Tensor& x) {
        ctx->saved_data["a"] = 2.0;
        return x * 2;
      }
      static cograd::variable_list backward(AutogradContext* ctx, cograd::variable_list g) {
        return {g[0] * ctx->saved_data["a"].toDouble()};
      }
    };
    """
    with pytest.raises(cpp_extension.CompileError, match="torch's name.*the form to_double"):
        cpp_extension.load_inline("t_spelled", code, functions="Twice")
    ops = cpp_extension.load_inline("t_spelled", code, functions="Twice", with_torch_compat=True)
    x = torch.ones(1, requires_grad=True)
    ops.Twice(x).backward()
    assert x.grad.item() == 2
    code = code.replace("2.0;", '"text";')
    ops = cpp_extension.load_inline("t_kind", code, functions="Twice", with_torch_compat=True)
    with pytest.raises(TypeError, match=r"toDouble\(\) needs a double: read it by toStringRef\(\)"):
        ops.Twice(x).backward()
