// SPDX-License-Identifier: BSD-3-Clause
// einsum and tensordot: contractions computed as matrix products.
#include <algorithm>
#include <string>

#include "ops/declare/autocast.h"
#include "ops/linalg/matmul.h"

namespace cograd {

namespace {

using Labels = SmallVec<int, 8>;

constexpr int kLetters = 52;   // labels 0..51 are A-Z, a-z; the ellipsis' labels follow
constexpr int kEllipsis = -1;  // represents all dims of "..." while parsing

struct Operand {
  Tensor tensor;
  Labels labels;  // one per dim, distinct
};

bool has(const Labels& v, int label) { return std::find(v.begin(), v.end(), label) != v.end(); }
int64_t where_is(const Labels& v, int label) {
  return std::find(v.begin(), v.end(), label) - v.begin();
}
int label_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  return -1;
}
char letter_of(int label) { return static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26); }

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
  bool explicit_output = false;
};

// Parses one term of the equation, text[begin, end); `who` describes it in messages.
Labels parse_term(std::string_view text, size_t begin, size_t end, const std::string& who) {
  Labels labels;
  for (size_t i = begin; i < end; ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == '.') {
      COGRAD_CHECK(!has(labels, kEllipsis), "einsum(): found '.' for ", who,
                   " for which an ellipsis was already found");
      COGRAD_CHECK(i + 2 < end && text[i + 1] == '.' && text[i + 2] == '.',
                   "einsum(): found '.' for ", who, " that is not part of any ellipsis");
      labels.push_back(kEllipsis);
      i += 2;
      continue;
    }
    COGRAD_CHECK(label_of(c) >= 0, "einsum(): invalid subscript given at index ", i,
                 " in the equation string, subscripts must be in [a-zA-Z]");
    labels.push_back(label_of(c));
  }
  return labels;
}

Equation parse_equation(std::string_view text, size_t operands) {
  Equation e;
  const size_t arrow = text.find("->");
  e.explicit_output = arrow != std::string_view::npos;
  const size_t left = e.explicit_output ? arrow : text.size();
  size_t begin = 0;
  while (true) {
    const size_t comma = std::min(text.find(',', begin), left);
    COGRAD_CHECK(e.inputs.size() < operands,
                 "einsum(): fewer operands were provided than specified in the equation");
    e.inputs.push_back(parse_term(text, begin, comma, detail::concat("operand ", e.inputs.size())));
    if (comma == left) break;
    begin = comma + 1;
  }
  COGRAD_CHECK(e.inputs.size() == operands,
               "einsum(): more operands were provided than specified in the equation");
  if (e.explicit_output) e.output = parse_term(text, arrow + 2, text.size(), "the output");
  return e;
}

// Returns the number of dims that the ellipsis covers in an operand.
int ellipsis_dims(const Labels& labels, const Tensor& x, size_t operand) {
  const int named = static_cast<int>(labels.size()) - (has(labels, kEllipsis) ? 1 : 0);
  if (!has(labels, kEllipsis))
    COGRAD_CHECK(named == x.dim(), "einsum(): the number of subscripts in the equation (", named,
                 ") does not match the number of dimensions (", x.dim(), ") for operand ", operand,
                 " and no ellipsis was given");
  else
    COGRAD_CHECK(named <= x.dim(), "einsum(): the number of subscripts in the equation (", named,
                 ") is more than the number of dimensions (", x.dim(), ") for operand ", operand);
  return x.dim() - named;
}

// Replaces the ellipsis by `count` labels, right-aligned among `most`.
Labels expand_ellipsis(const Labels& labels, int count, int most) {
  Labels out;
  for (int label : labels) {
    if (label != kEllipsis)
      out.push_back(label);
    else
      for (int i = most - count; i < most; ++i) out.push_back(kLetters + i);
  }
  return out;
}

// Replaces the dims of a repeated label by their diagonal, which `diagonal` moves to the end.
Operand take_diagonals(Tensor x, Labels labels, size_t operand) {
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = i + 1; j < labels.size(); ++j) {
      if (labels[i] != labels[j]) continue;
      const int label = labels[i];
      const auto di = static_cast<int>(i), dj = static_cast<int>(j);
      COGRAD_CHECK(x.size(di) == x.size(dj), "einsum(): subscript ", letter_of(label),
                   " is repeated for operand ", operand, " but the sizes don't match, ", x.size(dj),
                   " != ", x.size(di));
      x = diagonal(x, 0, di, dj);
      labels.erase(j);
      labels.erase(i);
      labels.push_back(label);
      i = static_cast<size_t>(-1);  // positions have changed: restart from the first label
      break;
    }
  }
  return {x, labels};
}

void check_sizes(const std::vector<Operand>& operands) {
  std::vector<int64_t> seen(kLetters + 64, 1);
  for (size_t k = 0; k < operands.size(); ++k) {
    const Operand& o = operands[k];
    for (size_t i = 0; i < o.labels.size(); ++i) {
      const int64_t n = o.tensor.sizes()[i];
      int64_t& known = seen[static_cast<size_t>(o.labels[i])];
      if (n == 1 || n == known) continue;
      COGRAD_CHECK(known == 1, "einsum(): subscript ",
                   o.labels[i] < kLetters ? std::string(1, letter_of(o.labels[i])) : "...",
                   " has size ", n, " for operand ", k,
                   " which does not broadcast with previously seen size ", known);
      known = n;
    }
  }
}

// Returns the output without "->": the ellipsis, then labels that occur once, alphabetically.
Labels implicit_output(const Equation& e, int ellipsis) {
  int count[kLetters] = {};
  for (const Labels& labels : e.inputs)
    for (int label : labels)
      if (label != kEllipsis) ++count[label];
  Labels out;
  for (int i = 0; i < ellipsis; ++i) out.push_back(kLetters + i);
  for (int label = 0; label < kLetters; ++label)
    if (count[label] == 1) out.push_back(label);
  return out;
}

Labels explicit_output(const Equation& e, int ellipsis) {
  const Labels out = expand_ellipsis(e.output, ellipsis, ellipsis);
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] >= kLetters) continue;
    COGRAD_CHECK(where_is(out, out[i]) == static_cast<int64_t>(i), "einsum(): output subscript ",
                 letter_of(out[i]), " appears more than once in the output");
    bool found = false;
    for (const Labels& labels : e.inputs) found |= has(labels, out[i]);
    COGRAD_CHECK(found, "einsum(): output subscript ", letter_of(out[i]),
                 " does not appear in the equation for any input operand");
  }
  return out;
}

Tensor arranged(const Operand& o, const Labels& order) {
  Dims dims;
  bool moved = false;
  for (int label : order) {
    dims.push_back(where_is(o.labels, label));
    moved |= dims.back() != static_cast<int64_t>(dims.size()) - 1;
  }
  return moved ? permute(o.tensor, dims) : o.tensor;
}
Tensor shaped(const Tensor& x, IntList sizes) {
  return same(x.sizes(), sizes) ? x : reshape(x, sizes);
}

// Sums over the dims whose label is not in `keep`.
void sum_labels(Operand& o, const Labels& keep) {
  Dims gone;
  Labels left;
  for (size_t i = 0; i < o.labels.size(); ++i) {
    if (has(keep, o.labels[i]))
      left.push_back(o.labels[i]);
    else
      gone.push_back(static_cast<int64_t>(i));
  }
  if (gone.empty()) return;
  o.tensor = sum(o.tensor, IntList(gone));
  o.labels = left;
}

// Drops dims of size 1 where the other operand has another size.
void drop_broadcast(Operand& o, const Operand& other) {
  for (size_t i = o.labels.size(); i-- > 0;) {
    if (o.tensor.sizes()[i] != 1 || !has(other.labels, o.labels[i])) continue;
    if (other.tensor.sizes()[static_cast<size_t>(where_is(other.labels, o.labels[i]))] == 1)
      continue;
    o.tensor = squeeze(o.tensor, static_cast<int64_t>(i));
    o.labels.erase(i);
  }
}

struct Groups {
  Labels batch, left, right, contracted;
};

int64_t extent(const Operand& o, const Labels& labels, Dims* sizes) {
  int64_t n = 1;
  for (int label : labels) {
    const int64_t s = o.tensor.sizes()[static_cast<size_t>(where_is(o.labels, label))];
    n = checked_mul(n, s);
    if (sizes != nullptr) sizes->push_back(s);
  }
  return n;
}
Labels joined(std::initializer_list<const Labels*> parts) {
  Labels out;
  for (const Labels* p : parts) out.append(p->begin(), p->end());
  return out;
}

// Returns the operand with the dims of `all`, which has all of its labels; new dims have size 1.
Tensor spread(const Operand& o, const Labels& all) {
  Labels own;
  for (int label : all)
    if (has(o.labels, label)) own.push_back(label);
  const Tensor t = arranged(o, own);
  Dims sizes;
  for (int label : all)
    sizes.push_back(has(own, label) ? t.sizes()[static_cast<size_t>(where_is(own, label))] : 1);
  return shaped(t, sizes);
}

// Multiplies with broadcasting, then sums the contracted dims; for products with a side that has no
// free dims.
Tensor multiply(const Operand& a, const Operand& b, const Labels& order, const Labels& contracted) {
  const Labels all = joined({&order, &contracted});
  Dims summed;
  for (size_t i = order.size(); i < all.size(); ++i) summed.push_back(static_cast<int64_t>(i));
  const Tensor product = spread(a, all) * spread(b, all);
  return summed.empty() ? product : cast(sum(product, IntList(summed)), product.dtype());
}

Tensor multiply_matrices(const Operand& a, const Operand& b, const Groups& g) {
  Dims sizes;
  const int64_t nb = extent(a, g.batch, &sizes);
  const int64_t m = extent(a, g.left, &sizes);
  const int64_t k = extent(a, g.contracted, nullptr);
  const int64_t n = extent(b, g.right, &sizes);
  const Tensor x = arranged(a, joined({&g.batch, &g.left, &g.contracted}));
  const Tensor y = arranged(b, joined({&g.batch, &g.contracted, &g.right}));
  if (g.batch.empty()) {
    const int64_t sx[2] = {m, k}, sy[2] = {k, n};
    return shaped(mm(shaped(x, sx), shaped(y, sy)), sizes);
  }
  const int64_t sx[3] = {nb, m, k}, sy[3] = {nb, k, n};
  return shaped(bmm(shaped(x, sx), shaped(y, sy)), sizes);
}

// Contracts two operands over the labels that are not in `needed`. `last`: the
// result has no others, and a product of elements has them in this order at once.
Operand contract(Operand a, Operand b, const Labels& needed, bool last) {
  drop_broadcast(a, b);
  drop_broadcast(b, a);
  sum_labels(a, joined({&needed, &b.labels}));
  sum_labels(b, joined({&needed, &a.labels}));
  Groups g;
  for (int label : a.labels) {
    if (!has(b.labels, label))
      g.left.push_back(label);
    else
      (has(needed, label) ? g.batch : g.contracted).push_back(label);
  }
  for (int label : b.labels)
    if (!has(a.labels, label)) g.right.push_back(label);
  const bool plain =
      g.contracted.empty() || (!g.batch.empty() && g.left.empty() && g.right.empty());
  const Labels order = joined({&g.batch, &g.left, &g.right});
  if (!plain) return {multiply_matrices(a, b, g), order};
  const Labels& wanted = last ? needed : order;
  return {multiply(a, b, wanted, g.contracted), wanted};
}

struct Einsum {
  static constexpr OpSpec spec{
      "einsum",
      "equation, *operands",
      kFunction | kContraction | kAutocastLow,
      "Sums of products of the operands' elements, specified as in 'bij,bjk->bik'.",
      "'ij,jk->ik', T(3, 4), T(4, 2); 'ii->i', T(3, 3); 'bij,bjk', T(2, 3, 4), T(2, 4, 2); "
      "'...i,...i->...', T(2, 3), T(2, 3); 'i,j,k->kji', T(2), T(3), T(4); 'ij->', T(3, 4)",
      "np.einsum(equation, *operands)"};
  static Tensor forward(std::string_view equation, TensorList tensors) {
    COGRAD_CHECK(!tensors.empty(), "einsum(): must provide at least one operand");
    const Equation e = parse_equation(equation, tensors.size());
    int most = 0;
    Dims own;
    for (size_t k = 0; k < tensors.size(); ++k) {
      own.push_back(ellipsis_dims(e.inputs[k], tensors[k], k));
      most = std::max(most, static_cast<int>(own[k]));
    }
    const Labels output = e.explicit_output ? explicit_output(e, most) : implicit_output(e, most);
    std::vector<Operand> operands;
    for (size_t k = 0; k < tensors.size(); ++k)
      operands.push_back(take_diagonals(
          tensors[k], expand_ellipsis(e.inputs[k], static_cast<int>(own[k]), most), k));
    check_sizes(operands);
    Operand acc = operands[0];
    for (size_t k = 1; k < operands.size(); ++k) {
      Labels needed = output;
      for (size_t later = k + 1; later < operands.size(); ++later)
        needed.append(operands[later].labels.begin(), operands[later].labels.end());
      acc = contract(acc, operands[k], needed, k + 1 == operands.size());
    }
    sum_labels(acc, output);
    return arranged(acc, output);
  }
};
COGRAD_OP(Einsum)

// Contracts dims da of a with dims db of b; the free dims of a, then of b, remain.
Tensor tensordot(const Tensor& a, const Tensor& b, IntList da, IntList db) {
  COGRAD_CHECK(da.size() == db.size(), "both dimension lists should have same length");
  Operand x{a, {}}, y{b, {}};
  for (int i = 0; i < a.dim(); ++i) x.labels.push_back(i);
  for (int i = 0; i < b.dim(); ++i) y.labels.push_back(64 + i);
  Labels needed = joined({&x.labels, &y.labels});
  for (size_t k = 0; k < da.size(); ++k) {
    const int i = wrap_dim(da[k], a.dim()), j = wrap_dim(db[k], b.dim());
    COGRAD_CHECK(
        x.labels[static_cast<size_t>(i)] == i && y.labels[static_cast<size_t>(j)] == 64 + j,
        "tensordot(): a dim appears twice in dims ", to_string(da), " or ", to_string(db));
    COGRAD_CHECK(a.size(i) == b.size(j) || a.size(i) == 1 || b.size(j) == 1,
                 "contracted dimensions need to match, but first has size ", a.size(i), " in dim ",
                 i, " and second has size ", b.size(j), " in dim ", j);
    x.labels[static_cast<size_t>(i)] = y.labels[static_cast<size_t>(j)] = 128 + static_cast<int>(k);
  }
  const Operand out = contract(x, y, needed, false);
  Labels order;
  for (int label : needed)
    if (has(out.labels, label)) order.push_back(label);
  return cast(arranged(out, order), a.dtype());  // sums of integers would otherwise be int64
}

struct Tensordot {
  static constexpr OpSpec spec{"tensordot",
                               "input, other, dims=2",
                               kFunction | kContraction | kAutocastLow,
                               "Contraction of the last dims of input with the first of other.",
                               "T(2, 3, 4), T(3, 4, 5); T(3), T(4), 0; T(3, 4), T(4, 2), 1",
                               "np.tensordot(input, other, dims)"};
  static Tensor forward(const Tensor& a, const Tensor& b, int64_t dims) {
    COGRAD_CHECK(dims >= 0, "tensordot expects dims >= 0, but got dims=", dims);
    COGRAD_CHECK(dims <= a.dim() && dims <= b.dim(),
                 "tensordot expects dims < ndim_a or ndim_b, but got dims=", dims);
    Dims da, db;
    for (int64_t i = 0; i < dims; ++i) {
      da.push_back(a.dim() - dims + i);
      db.push_back(i);
    }
    return tensordot(a, b, da, db);
  }
};
COGRAD_OP(Tensordot)

struct TensordotDims {
  static constexpr OpSpec spec{
      "_tensordot", "input, other, dims_self, dims_other", kInternal | kContraction | kAutocastLow,
      "Contraction over the dims listed for each tensor.", "none: reached through tensordot"};
  static Tensor forward(const Tensor& a, const Tensor& b, DimList da, DimList db) {
    return tensordot(a, b, da, db);
  }
};
COGRAD_OP(TensordotDims)

}  // namespace

}  // namespace cograd
