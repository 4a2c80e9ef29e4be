# SPDX-License-Identifier: BSD-3-Clause
"""cograd.utils.cpp_extension: parsing of C++ declarations, and the stubs made from them."""

import ast

import pytest

from cograd.utils.cpp_extension import _inline
from cograd.utils.cpp_extension import _read_cpp as d
from cograd.utils.cpp_extension._job import Job, Source


def signature(text, name="f"):
    found = d.find_function(d.read(text), name)
    return None if found is None else d.signature(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tensor f(const Tensor& x, double alpha);", "x, alpha"),
        ("Tensor f(Tensor x, double alpha = 1.0f) { return x; }", "x, alpha=1.0"),
        ("void f();", ""),
        ("void f(void);", ""),
        ("int f(int, float);", "arg0, arg1"),
        ("int f(unsigned int, long long n, const char* s);", "arg0, n, s"),
        ("Tensor f(at::Tensor, const at::Tensor);", "arg0, arg1"),
        ("Tensor f(std::map<std::string, int> m, std::array<int, 3>&& a);", "m, a"),
        ("Tensor f(const std::tuple<int, std::vector<int>>& t) noexcept;", "t"),
        ("auto f(Tensor x) -> std::tuple<Tensor, Tensor> { return {}; }", "x"),
        ("static inline Tensor f(float a[3], double (*fn)(double, int));", "a, fn"),
        ("[[nodiscard]] Tensor f([[maybe_unused]] Tensor x);", "x"),
        ("template <typename T, int N = 3> T f(T x);", "x"),
        ("Tensor f(Tensor /* the input */ x, // the first\n  int n /* = 4 */);", "x, n"),
        ('Tensor f(Tensor x, std::string mode = "a,b(\\"", int n = 2);', 'x, mode="a,b(\\"", n=2'),
        ("Tensor f(int lambda, int None_, int in);", "lambda_, None_, in_"),
        ("#define G f(1)\nTensor f(Tensor x);", "x"),
        ("// Tensor f(int wrong);\nTensor f(Tensor right);", "right"),
        ('const char* s = "Tensor f(int wrong);"; Tensor f(Tensor right);', "right"),
        ("Tensor g(Tensor x) { return f(x); }\nTensor f(Tensor y) { return y; }", "y"),
        ("Tensor f(Tensor x, int n = 3);\nTensor f(Tensor x, int n) { return x; }", "x, n=3"),
        ("Tensor f(Tensor, int);\nTensor f(Tensor x, int n) { return x; }", "x, n"),
        ("namespace a { namespace b { Tensor f(Tensor x); } }", "x"),
        ('extern "C" { Tensor f(Tensor x); }', "x"),
        ('extern "C" Tensor f(Tensor x);', "x"),
        ("struct A { public: Tensor f(Tensor x); };", "x"),
        ("Tensor\nf(Tensor x,\n  Tensor y);", "x, y"),
        ("const std::vector<Tensor>& f(TensorList xs);", "xs"),
    ],
)
def test_signature(text, expected):
    assert signature(text) == expected


def test_what_cannot_be_read_is_left_out():
    assert signature("Tensor g(Tensor x);") is None
    assert signature("int f(int a); int f(double b);") is None, "overloads"
    assert signature("int y = f(x);") is None
    assert signature("void g() { return f(x); }") is None
    assert signature("void g() { auto z = a.f(x); obj->f(x); }") is None
    assert signature("int f(int a") is None
    assert signature("using f = int(int);") is None
    for text in ("{[(<", "f(((", '"', 'R"(', "/*", "#", "f(", "int f(a,,b);", "int f(int = );"):
        signature(text)  # must not raise


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("true", "bool", "True"),
        ("-1", "int64_t", "-1"),
        ("1'000u", "unsigned", "1000"),
        ("0x1F", "int", "0x1F"),
        ("017", "int", "0o17"),
        ("1e-5", "double", "1e-5"),
        ("1.", "double", "1."),
        (".5f", "float", ".5"),
        ("2f", "float", "2.0"),
        ("nullptr", "const char*", "None"),
        ("std::nullopt", "std::optional<double>", "None"),
        ("c10::nullopt", "c10::optional<at::Tensor>", "None"),
        ("{}", "std::optional<Tensor>", "None"),
        ("{}", "const Tensor&", "None"),
        ("Tensor()", "Tensor", "None"),
        ("{}", "std::vector<int64_t>", "[]"),
        ("{1, 2}", "IntArrayRef", "[1, 2]"),
        ("std::vector<double>{0.5, 1.f}", "std::vector<double>", "[0.5, 1.]"),
        ('{"a", "b"}', "std::vector<std::string>", '["a", "b"]'),
        ("std::string()", "std::string", '""'),
        ('std::string("x")', "std::string", '"x"'),
        ("double(3)", "double", "3"),
        ("torch::kFloat", "ScalarType", None),
        ("std::numeric_limits<double>::infinity()", "double", None),
        ("1 << 3", "int", None),
        ("{kOne}", "std::vector<int>", None),
    ],
)
def test_default(value, kind, expected):
    got = d.python_default(value, kind)
    assert got == expected
    if got is not None:
        ast.literal_eval(got)


def test_default_without_counterpart_takes_earlier_ones_along():
    text = "Tensor f(Tensor x, int a = 1, ScalarType t = kFloat, bool b = true);"
    assert signature(text) == "x, a, t, b=True"


def test_function_struct():
    text = """
    // Squares.
    struct Square : public torch::autograd::Function<Square> {
      static Tensor forward(AutogradContext* ctx, const Tensor& x, double p = 2) { return x; }
      static variable_list backward(AutogradContext* ctx, variable_list g) { return g; }
    };
    struct Other { static Tensor forward(Tensor y); };
    """
    found = d.find_struct(d.read(text), "Square")
    assert d.signature(found) == "x, p=2"
    assert found.doc == "Squares."
    assert d.find_struct(d.read(text), "Other") is None


def test_comment_above_is_the_docstring():
    text = (
        "/** First.\n *  Second.\n */\nTensor f(Tensor x);\n\n// Not this.\n\nTensor g(Tensor x);\n"
    )
    assert d.find_function(d.read(text), "f").doc == "First.\nSecond."
    assert d.find_function(d.read(text), "g").doc == ""
    text = "/// One\n// two\nTensor f(Tensor x);"
    assert d.find_function(d.read(text), "f").doc == "One\ntwo"


def test_registration_code():
    code = '// Doc "x".\nTensor f(Tensor x, int n = 1);\nnamespace a { Tensor g(Tensor y); }'
    text = _inline.registration(code, {"f": "", "a::g": "Given.", "unknown": ""}, "demo", False)
    assert 'm.def("f", &f, "x, n=1", "Doc \\"x\\".");' in text
    assert 'm.def("g", &a::g, "y", "Given.");' in text
    assert 'm.def("unknown", &unknown, "");' in text
    assert text.startswith("COGRAD_LIBRARY(demo, m) {")
    text = _inline.registration(code, {"f": ""}, "demo", True)
    assert text.startswith("PYBIND11_MODULE(demo, m) {")
    assert '::pybind11::arg("x"), ::pybind11::arg("n") = 1' in text


def test_functions_argument():
    assert _inline.function_docs(None) is None
    assert _inline.function_docs("f") == {"f": ""}
    assert _inline.function_docs(["f", "g"]) == {"f": "", "g": ""}
    assert _inline.function_docs({"f": "doc"}) == {"f": "doc"}
    with pytest.raises(TypeError, match="functions: expected a name"):
        _inline.function_docs(3)
    with pytest.raises(TypeError, match="expected strings"):
        _inline.function_docs({"f": 3})
    with pytest.raises(ValueError, match="'f;x'"):
        _inline.function_docs("f;x")


@pytest.mark.parametrize(
    "doc", ['quote " and \\ back', "two\nlines", ')doc" tricky\n)doc_"', "x" * 300]
)
def test_quoted_docstrings_survive(doc):
    literal = _inline.quote(doc)
    if literal.startswith("R"):
        delimiter = literal[2 : literal.index("(")]
        assert literal == f'R"{delimiter}({doc}){delimiter}"'
        assert f'){delimiter}"' not in doc
    else:
        assert ast.literal_eval(literal) == doc


# ---------------------------------------------------------------------------- stubs


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("const at::Tensor&", "Tensor"),
        ("c10::optional<at::Tensor>", "Tensor | None"),
        ("std::vector<int64_t>", "Sequence[int]"),
        ("const std::vector<std::vector<double>>&", "Sequence[Sequence[float]]"),
        ("std::tuple<Tensor, int64_t>", "tuple[Tensor, int]"),
        ("unsigned long long", "int"),
        ("std::string_view", "str"),
        ("at::IntArrayRef", "Sequence[int]"),
        ("torch::ScalarType", "dtype"),
        ("MyThing", "Any"),
    ],
)
def test_python_type(kind, expected):
    assert d.python_type(kind) == expected


def stub(text, label="a.cpp"):
    result = d.module_stub(Job("demo", [Source(label, None, text.encode(), "c++")]))
    ast.parse(result)
    return result


def test_stub_of_a_library():
    text = stub("""
    // Adds.
    Tensor axpby(const Tensor& x, std::vector<int64_t> dims, std::optional<Tensor> w);
    struct Sq : cograd::autograd::Function<Sq> {
      static Tensor forward(AutogradContext*, Tensor x, double p) { return x; }
    };
    COGRAD_LIBRARY(demo, m) {
      m.def("axpby", &axpby, "x, dims=[1], w=None", "Own doc.");
      m.def<Sq>("sq", "x, p=2.0");
      m.def("twice", [](const Tensor& x) -> Tensor { return x * 2; }, "x");
      m.def("elsewhere", &other::function);
      m.def("by_name", [](const Tensor& x, double p, bool q) -> Tensor { return x; },
            "x, *, p=2.0, q=False");
    }
    """)
    assert (
        "def axpby(x: Tensor, dims: Sequence[int] = [1], w: Tensor | None = None) -> Tensor:"
        in text
    )
    assert '"""Own doc."""' in text
    assert "def sq(x: Tensor, p: float = 2.0) -> Tensor: ..." in text
    assert "def twice(x: Tensor) -> Tensor: ..." in text
    assert "def by_name(x: Tensor, *, p: float = 2.0, q: bool = False) -> Tensor: ..." in text
    assert "def elsewhere(*args: Any, **kwargs: Any) -> Any: ..." in text
    assert "from cograd import Tensor\n" in text


def test_stub_of_torch_style_registrations():
    text = stub("""
    at::Tensor mymuladd_cpu(const at::Tensor& a, const at::Tensor& b, double c) { return a; }
    TORCH_LIBRARY(ext, m) {
      m.def("mymuladd(Tensor a, Tensor b, float c=1.0) -> Tensor");
      m.def("lists(Tensor[] xs, int[2]? n, Tensor(a!) out) -> (Tensor, Tensor)");
      m.def("named(Tensor a, *, int n, float c=1.0) -> Tensor");
    }
    TORCH_LIBRARY_IMPL(ext, CPU, m) { m.impl("mymuladd", &mymuladd_cpu); }
    """)
    assert "def mymuladd(a: Tensor, b: Tensor, c: float = 1.0) -> Tensor: ..." in text
    assert "def lists(xs: Sequence[Tensor], n: Sequence[int] | None, out: Tensor)" in text
    assert "def named(a: Tensor, *, n: int, c: float = 1.0) -> Tensor: ..." in text


def test_stub_of_a_pybind11_module():
    text = stub("""
    std::vector<torch::Tensor> lltm_forward(torch::Tensor input, torch::Tensor weights);
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
      m.def("forward", &lltm_forward, "LLTM forward");
    }
    """)
    assert "def forward(input: Tensor, weights: Tensor) -> list[Tensor]:" in text
    assert '"""LLTM forward"""' in text
