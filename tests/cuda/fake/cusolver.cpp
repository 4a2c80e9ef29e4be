// SPDX-License-Identifier: BSD-3-Clause
// A library with the functions of cuSOLVER and cuBLAS that cograd calls, which computes by plain
// loops on the fake driver. It writes NaN into workspaces, and refuses memory that is not the
// GPU's.
#include <algorithm>
#include <complex>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "library.h"

namespace {

enum : int { kSuccess = 0, kNotInitialized = 1, kSolverInvalid = 3, kBlasInvalid = 7 };

using Number = std::complex<double>;

struct Handle {
  int device;
  bool has_stream = false;
  void* stream = nullptr;
};

template <class T>
Number number_of(T v) {
  return {static_cast<double>(v), 0};
}
template <class T>
Number number_of(std::complex<T> v) {
  return {static_cast<double>(v.real()), static_cast<double>(v.imag())};
}
template <class T>
T element_of(Number v) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(v.real());
  else
    return T(static_cast<typename T::value_type>(v.real()),
             static_cast<typename T::value_type>(v.imag()));
}

// A column-major matrix in memory of the GPU.
template <class T>
struct Matrix {
  T* data;
  int rows, cols, ld;

  Number get(int i, int j) const { return number_of(data[static_cast<ptrdiff_t>(j) * ld + i]); }
  void set(int i, int j, Number v) const {
    data[static_cast<ptrdiff_t>(j) * ld + i] = element_of<T>(v);
  }
  bool valid() const {
    const size_t last = static_cast<size_t>(cols - 1) * static_cast<size_t>(ld);
    return rows >= 1 && cols >= 1 && ld >= rows &&
           fake::driver().owns(data, (last + static_cast<size_t>(rows)) * sizeof(T));
  }
};

bool ready(const void* handle) {
  const auto* h = static_cast<const Handle*>(handle);
  return h != nullptr && h->has_stream && h->device == fake::driver().device();
}
void start(const char* name, const void* handle, std::function<void()> work) {
  fake::driver().enqueue(name, static_cast<const Handle*>(handle)->stream, std::move(work));
}
bool valid_info(const int* info, int n = 1) {
  return fake::driver().owns(info, static_cast<size_t>(n) * sizeof(int));
}
// The size of workspaces, in elements.
int work_size(int m, int n) { return 3 * m + 5 * n + 7; }
template <class T>
bool valid_work(const T* work, int size, int m, int n) {
  return size == work_size(m, n) &&
         fake::driver().owns(work, static_cast<size_t>(size) * sizeof(T));
}
template <class T>
void spoil(T* work, int size) {
  std::memset(static_cast<void*>(work), 0xff, static_cast<size_t>(size) * sizeof(T));
}

// ---- triangles and pivots
// --------------------------------------------------------------------------

// As LAPACK's, this takes a NaN for positive.
template <class T>
int cholesky(const Matrix<T>& a) {
  for (int j = 0; j < a.rows; ++j) {
    double d = a.get(j, j).real();
    for (int k = 0; k < j; ++k) d -= std::norm(a.get(j, k));
    if (d <= 0) return j + 1;
    d = std::sqrt(d);
    a.set(j, j, d);
    for (int i = j + 1; i < a.rows; ++i) {
      Number v = a.get(i, j);
      for (int k = 0; k < j; ++k) v -= a.get(i, k) * std::conj(a.get(j, k));
      a.set(i, j, v / d);
    }
  }
  return 0;
}

template <class T>
int lu(const Matrix<T>& a, int* pivots) {
  int info = 0;
  const auto size = [&](int i, int j) {
    const Number v = a.get(i, j);
    return std::abs(v.real()) + std::abs(v.imag());
  };
  for (int j = 0; j < std::min(a.rows, a.cols); ++j) {
    int p = j;
    for (int i = j + 1; i < a.rows; ++i)
      if (size(i, j) > size(p, j)) p = i;
    pivots[j] = p + 1;
    for (int k = 0; k < a.cols && p != j; ++k) {
      const Number kept = a.get(j, k);
      a.set(j, k, a.get(p, k));
      a.set(p, k, kept);
    }
    if (a.get(j, j) == 0.0) {
      if (info == 0) info = j + 1;
      continue;
    }
    for (int i = j + 1; i < a.rows; ++i) {
      const Number factor = a.get(i, j) / a.get(j, j);
      a.set(i, j, factor);
      for (int k = j + 1; k < a.cols; ++k) a.set(i, k, a.get(i, k) - factor * a.get(j, k));
    }
  }
  return info;
}

template <class T>
void solve_triangle(bool upper, bool transposed, bool unit, const Matrix<T>& a,
                    const Matrix<T>& b) {
  const int n = a.rows;
  const bool backward = upper != transposed;
  for (int c = 0; c < b.cols; ++c)
    for (int s = 0; s < n; ++s) {
      const int i = backward ? n - 1 - s : s;
      Number v = b.get(i, c);
      for (int r = 0; r < s; ++r) {
        const int k = backward ? n - 1 - r : r;
        v -= (transposed ? a.get(k, i) : a.get(i, k)) * b.get(k, c);
      }
      b.set(i, c, unit ? v : v / a.get(i, i));
    }
}
template <class T>
void solve_lu(bool transposed, const Matrix<T>& a, const int* pivots, const Matrix<T>& b) {
  const auto exchange = [&](int j) {
    for (int c = 0; c < b.cols && pivots[j] - 1 != j; ++c) {
      const Number kept = b.get(j, c);
      b.set(j, c, b.get(pivots[j] - 1, c));
      b.set(pivots[j] - 1, c, kept);
    }
  };
  for (int j = 0; j < a.rows && !transposed; ++j) exchange(j);
  solve_triangle(transposed, transposed, !transposed, a, b);
  solve_triangle(!transposed, transposed, transposed, a, b);
  for (int j = a.rows; j-- > 0 && transposed;) exchange(j);
}

// ---- decompositions
// --------------------------------------------------------------------------

using Column = std::vector<Number>;
using Columns = std::vector<Column>;

Number inner(const Column& x, const Column& y, size_t from = 0) {
  Number sum = 0;
  for (size_t i = from; i < x.size(); ++i) sum += std::conj(x[i]) * y[i];
  return sum;
}
// Applies I - factor v v^H to x; v is 0 before `from` and 1 there.
void reflect(Number factor, const Column& v, size_t from, Column& x) {
  Number sum = x[from];
  for (size_t i = from + 1; i < v.size(); ++i) sum += std::conj(v[i]) * x[i];
  x[from] -= factor * sum;
  for (size_t i = from + 1; i < v.size(); ++i) x[i] -= factor * sum * v[i];
}
template <class T>
Columns columns_of(const Matrix<T>& a) {
  Columns all(static_cast<size_t>(a.cols), Column(static_cast<size_t>(a.rows)));
  for (int j = 0; j < a.cols; ++j)
    for (int i = 0; i < a.rows; ++i)
      all[static_cast<size_t>(j)][static_cast<size_t>(i)] = a.get(i, j);
  return all;
}
template <class T>
void set_columns(const Matrix<T>& a, const Columns& all) {
  for (int j = 0; j < a.cols; ++j)
    for (int i = 0; i < a.rows; ++i)
      a.set(i, j, all[static_cast<size_t>(j)][static_cast<size_t>(i)]);
}

template <class T>
void qr(const Matrix<T>& a, T* tau) {
  Columns x = columns_of(a);
  for (size_t j = 0; j < x.size() && j < x[j].size(); ++j) {
    const Number first = x[j][j];
    const double rest = inner(x[j], x[j], j + 1).real();
    Number factor = 0;
    if (rest != 0 || first.imag() != 0) {
      const double size = std::sqrt(std::norm(first) + rest);
      const double r = first.real() >= 0 ? -size : size;
      factor = Number((r - first.real()) / r, -first.imag() / r);
      for (size_t i = j + 1; i < x[j].size(); ++i) x[j][i] /= first - r;
      x[j][j] = r;
    }
    for (size_t k = j + 1; k < x.size(); ++k) reflect(std::conj(factor), x[j], j, x[k]);
    tau[j] = element_of<T>(factor);
  }
  set_columns(a, x);
}
template <class T>
void q_of_reflectors(const Matrix<T>& a, int k, const T* tau) {
  const Columns v = columns_of(a);
  Columns q(v.size(), Column(static_cast<size_t>(a.rows)));
  for (size_t j = 0; j < q.size(); ++j) q[j][j] = 1;
  for (auto i = static_cast<size_t>(k); i-- > 0;)
    for (Column& x : q) reflect(number_of(tau[i]), v[i], i, x);
  set_columns(a, q);
}

// Turns columns p and q so that a product `off` of theirs, between ones of `low` and `high`,
// becomes 0. Returns false if it is.
struct Turn {
  double c = 1, s = 0;
  Number phase = 1;
  Turn(double low, double high, Number off) {
    const double size = std::abs(off);
    if (size <= 1e-300 || size <= 1e-16 * std::sqrt(std::abs(low * high))) return;
    const double ratio = (high - low) / (2 * size);
    const double t = (ratio >= 0 ? 1 : -1) / (std::abs(ratio) + std::hypot(1, ratio));
    c = 1 / std::hypot(1, t);
    s = t * c;
    phase = std::conj(off) / size;
  }
  bool nothing() const { return s == 0; }
  void apply(Number& p, Number& q) const {
    const Number x = p, y = q * phase;
    p = c * x - s * y;
    q = s * x + c * y;
  }
  void apply(Column& p, Column& q) const {
    for (size_t i = 0; i < p.size(); ++i) apply(p[i], q[i]);
  }
};
Columns identity(size_t n, size_t rows) {
  Columns all(n, Column(rows));
  for (size_t j = 0; j < n; ++j) all[j][j] = 1;
  return all;
}
std::vector<size_t> order_of(const std::vector<double>& values, bool descending) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
    return descending ? values[i] > values[j] : values[i] < values[j];
  });
  return order;
}

// Eigenvalues by Jacobi's rotations, of the triangle that is read.
template <class T, class R>
void eigen(bool vectors, bool upper, const Matrix<T>& m, R* values) {
  Columns a = columns_of(m);
  const size_t n = a.size();
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < n; ++i)
      if (i == j)
        a[j][i] = a[j][i].real();
      else if ((i < j) != upper)
        a[j][i] = std::conj(a[i][j]);
  Columns v = identity(n, n);
  bool turned = true;
  for (int sweep = 0; sweep < 60 && turned; ++sweep) {
    turned = false;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        const Turn t(a[p][p].real(), a[q][q].real(), a[q][p]);
        if (t.nothing()) continue;
        turned = true;
        t.apply(a[p], a[q]);
        Turn rows = t;
        rows.phase = std::conj(t.phase);
        for (Column& c : a) rows.apply(c[p], c[q]);
        t.apply(v[p], v[q]);
      }
  }
  std::vector<double> found;
  for (size_t j = 0; j < n; ++j) found.push_back(a[j][j].real());
  Columns sorted;
  const std::vector<size_t> order = order_of(found, false);
  for (size_t j = 0; j < n; ++j) {
    values[j] = static_cast<R>(found[order[j]]);
    sorted.push_back(v[order[j]]);
  }
  if (!vectors)
    for (Column& c : sorted) c.assign(n, std::nan(""));
  set_columns(m, sorted);
}

// Singular values by rotations that make the columns orthogonal. U gets as many columns as it has.
template <class T, class R>
void singular(const Matrix<T>& m, R* s, const Matrix<T>* u, const Matrix<T>* vh) {
  Columns a = columns_of(m);
  const size_t n = a.size(), rows = a[0].size();
  Columns v = identity(n, n);
  bool turned = true;
  for (int sweep = 0; sweep < 60 && turned; ++sweep) {
    turned = false;
    for (size_t p = 0; p < n; ++p)
      for (size_t q = p + 1; q < n; ++q) {
        const Turn t(inner(a[p], a[p]).real(), inner(a[q], a[q]).real(), inner(a[p], a[q]));
        if (t.nothing()) continue;
        turned = true;
        t.apply(a[p], a[q]);
        t.apply(v[p], v[q]);
      }
  }
  std::vector<double> sizes;
  for (const Column& c : a) sizes.push_back(std::sqrt(inner(c, c).real()));
  const std::vector<size_t> order = order_of(sizes, true);
  for (size_t j = 0; j < n; ++j) s[j] = static_cast<R>(sizes[order[j]]);
  set_columns(m, Columns(n, Column(rows, std::nan(""))));
  if (u == nullptr) return;
  Columns left;
  size_t next = 0;  // of the unit vectors that complete the basis
  while (left.size() < static_cast<size_t>(u->cols)) {
    const size_t j = left.size();
    const bool known = j < n && sizes[order[j]] > 1e-14 * sizes[order[0]];
    Column c = known ? a[order[j]] : Column(rows);
    if (!known) {
      c[next++] = 1;
      for (int twice = 0; twice < 2; ++twice)
        for (const Column& other : left) {
          const Number share = inner(other, c);
          for (size_t i = 0; i < rows; ++i) c[i] -= share * other[i];
        }
    }
    const double size = std::sqrt(inner(c, c).real());
    if (!known && size < 1e-2) continue;
    for (Number& x : c) x /= size;
    left.push_back(c);
  }
  set_columns(*u, left);
  for (size_t j = 0; j < n; ++j)
    for (size_t i = 0; i < n; ++i)
      vh->set(static_cast<int>(j), static_cast<int>(i), std::conj(v[order[j]][i]));
}

// ---- the libraries' functions for each dtype
// --------------------------------------------------------------------------

template <class T>
int potrf(void* handle, int triangle, int n, T* a, int ld, T* work, int size, int* info) {
  const Matrix<T> m{a, n, n, ld};
  if (!ready(handle)) return kNotInitialized;
  if (triangle != 0 || !m.valid() || !valid_work(work, size, n, n) || !valid_info(info))
    return kSolverInvalid;
  start("cusolver_potrf", handle, [=] {
    spoil(work, size);
    *info = cholesky(m);
  });
  return kSuccess;
}
template <class T>
int potrfBatched(void* handle, int triangle, int n, T** list, int ld, int* info, int count) {
  if (!ready(handle)) return kNotInitialized;
  if (triangle != 0 || n < 1 || ld < n || count < 1 || !valid_info(info, count) ||
      !fake::driver().owns(list, static_cast<size_t>(count) * sizeof(T*)))
    return kSolverInvalid;
  start("cusolver_potrfBatched", handle, [=] {
    for (int i = 0; i < count; ++i) info[i] = cholesky(Matrix<T>{list[i], n, n, ld});
  });
  return kSuccess;
}
template <class T>
int getrf(void* handle, int rows, int cols, T* a, int ld, T* work, int* pivots, int* info) {
  const Matrix<T> m{a, rows, cols, ld};
  const int size = work_size(rows, cols);
  if (!ready(handle)) return kNotInitialized;
  if (!m.valid() || !valid_work(work, size, rows, cols) || !valid_info(info) ||
      !valid_info(pivots, std::min(rows, cols)))
    return kSolverInvalid;
  start("cusolver_getrf", handle, [=] {
    spoil(work, size);
    *info = lu(m, pivots);
  });
  return kSuccess;
}
template <class T>
int getrs(void* handle, int transposed, int n, int k, const T* a, int lda, const int* pivots, T* b,
          int ldb, int* info) {
  const Matrix<T> m{const_cast<T*>(a), n, n, lda}, x{b, n, k, ldb};
  if (!ready(handle)) return kNotInitialized;
  if (transposed > 1 || !m.valid() || !x.valid() || !valid_info(info) || !valid_info(pivots, n))
    return kSolverInvalid;
  start("cusolver_getrs", handle, [=] {
    *info = 0;
    solve_lu(transposed == 1, m, pivots, x);
  });
  return kSuccess;
}
template <class T>
int geqrf(void* handle, int rows, int cols, T* a, int ld, T* tau, T* work, int size, int* info) {
  const Matrix<T> m{a, rows, cols, ld};
  if (!ready(handle)) return kNotInitialized;
  if (!m.valid() || !valid_work(work, size, rows, cols) || !valid_info(info) ||
      !fake::driver().owns(tau, static_cast<size_t>(std::min(rows, cols)) * sizeof(T)))
    return kSolverInvalid;
  start("cusolver_geqrf", handle, [=] {
    spoil(work, size);
    *info = 0;
    qr(m, tau);
  });
  return kSuccess;
}
template <class T>
int orgqr(void* handle, int rows, int cols, int k, T* a, int ld, const T* tau, T* work, int size,
          int* info) {
  const Matrix<T> m{a, rows, cols, ld};
  if (!ready(handle)) return kNotInitialized;
  if (!m.valid() || cols > rows || k > cols || k < 1 || !valid_work(work, size, rows, cols) ||
      !valid_info(info) || !fake::driver().owns(tau, static_cast<size_t>(k) * sizeof(T)))
    return kSolverInvalid;
  start("cusolver_orgqr", handle, [=] {
    spoil(work, size);
    *info = 0;
    q_of_reflectors(m, k, tau);
  });
  return kSuccess;
}
template <class T, class R>
int syevd(void* handle, int vectors, int triangle, int n, T* a, int ld, R* values, T* work,
          int size, int* info) {
  const Matrix<T> m{a, n, n, ld};
  if (!ready(handle)) return kNotInitialized;
  if (!m.valid() || !valid_work(work, size, n, n) || !valid_info(info) ||
      !fake::driver().owns(values, static_cast<size_t>(n) * sizeof(R)))
    return kSolverInvalid;
  start("cusolver_syevd", handle, [=] {
    spoil(work, size);
    *info = 0;
    eigen(vectors == 1, triangle == 1, m, values);
  });
  return kSuccess;
}
template <class T, class R>
int gesvd(void* handle, signed char part, signed char vh_part, int rows, int cols, T* a, int ld,
          R* s, T* u, int ldu, T* vh, int ldvh, T* work, int size, R* reals, int* info) {
  const Matrix<T> m{a, rows, cols, ld}, left{u, rows, part == 'A' ? rows : cols, ldu},
      right{vh, cols, cols, ldvh};
  const bool vectors = part != 'N';
  if (!ready(handle)) return kNotInitialized;
  if (rows < cols || part != vh_part || !m.valid() || !valid_work(work, size, rows, cols) ||
      !valid_info(info) || (vectors && (!left.valid() || !right.valid())) ||
      !fake::driver().owns(s, static_cast<size_t>(cols) * sizeof(R)) ||
      !fake::driver().owns(reals, static_cast<size_t>(cols - 1) * sizeof(R)))
    return kSolverInvalid;
  start("cusolver_gesvd", handle, [=] {
    spoil(work, size);
    *info = fake::driver().failure("gesvd info");
    singular(m, s, vectors ? &left : nullptr, vectors ? &right : nullptr);
  });
  return kSuccess;
}
// What the options of the batched functions are.
int of_eigen, of_singular;

template <class T, class R>
int syevjBatched(void* handle, int vectors, int triangle, int n, T* a, int ld, R* values, T* work,
                 int size, int* info, void* options, int count) {
  const auto all = static_cast<size_t>(count);
  if (!ready(handle)) return kNotInitialized;
  if (options != &of_eigen || count < 1 || !Matrix<T>{a, n, n * count, ld}.valid() ||
      !valid_work(work, size, n, n) || !valid_info(info, count) ||
      !fake::driver().owns(values, all * static_cast<size_t>(n) * sizeof(R)))
    return kSolverInvalid;
  start("cusolver_syevjBatched", handle, [=] {
    spoil(work, size);
    for (int i = 0; i < count; ++i) {
      eigen(vectors == 1, triangle == 1, Matrix<T>{a + ptrdiff_t{i} * n * ld, n, n, ld},
            values + ptrdiff_t{i} * n);
      info[i] = fake::driver().failure("syevjBatched info");
      if (info[i] == 0) continue;
      std::fill_n(values + ptrdiff_t{i} * n, n, R(7));
      std::fill_n(a + ptrdiff_t{i} * n * ld, n * ld, T(7));
    }
  });
  return kSuccess;
}
// Decomposes a matrix with more columns than rows by its conjugate transpose: A^H = V S U^H.
template <class T, class R>
void singular_of_any(const Matrix<T>& a, R* s, const Matrix<T>* u, const Matrix<T>* v) {
  const bool wide = a.cols > a.rows;
  const int m = std::max(a.rows, a.cols), n = std::min(a.rows, a.cols);
  std::vector<T> from(static_cast<size_t>(m * n)), left(static_cast<size_t>(m * m)),
      right(static_cast<size_t>(n * n));
  const Matrix<T> tall{from.data(), m, n, m}, x{left.data(), m, m, m}, yh{right.data(), n, n, n};
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < m; ++i) tall.set(i, j, wide ? std::conj(a.get(j, i)) : a.get(i, j));
  singular(tall, s, u == nullptr ? nullptr : &x, &yh);
  set_columns(
      a, Columns(static_cast<size_t>(a.cols), Column(static_cast<size_t>(a.rows), std::nan(""))));
  if (u == nullptr) return;
  const Matrix<T>&large = wide ? *v : *u, &small = wide ? *u : *v;
  set_columns(large, columns_of(x));
  for (int j = 0; j < n; ++j)
    for (int i = 0; i < n; ++i) small.set(i, j, std::conj(yh.get(j, i)));
}
template <class T, class R>
int gesvdjBatched(void* handle, int vectors, int rows, int cols, T* a, int ld, R* s, T* u, int ldu,
                  T* v, int ldv, T* work, int size, int* info, void* options, int count) {
  const int least = std::min(rows, cols);
  if (!ready(handle)) return kNotInitialized;
  if (options != &of_singular || count < 1 || rows > 32 || cols > 32 ||
      !Matrix<T>{a, rows, cols * count, ld}.valid() || !valid_work(work, size, rows, cols) ||
      !valid_info(info, count) ||
      (vectors == 1 && (!Matrix<T>{u, rows, rows * count, ldu}.valid() ||
                        !Matrix<T>{v, cols, cols * count, ldv}.valid())) ||
      !fake::driver().owns(s, static_cast<size_t>(least) * static_cast<size_t>(count) * sizeof(R)))
    return kSolverInvalid;
  start("cusolver_gesvdjBatched", handle, [=] {
    spoil(work, size);
    for (int i = 0; i < count; ++i) {
      const Matrix<T> left{u + ptrdiff_t{i} * rows * ldu, rows, rows, ldu};
      const Matrix<T> right{v + ptrdiff_t{i} * cols * ldv, cols, cols, ldv};
      singular_of_any(Matrix<T>{a + ptrdiff_t{i} * cols * ld, rows, cols, ld},
                      s + ptrdiff_t{i} * least, vectors == 1 ? &left : nullptr, &right);
      info[i] = fake::driver().failure("gesvdjBatched info");
      if (info[i] == 0) continue;
      std::fill_n(s + ptrdiff_t{i} * least, least, R(7));
      if (vectors != 1) continue;
      std::fill_n(u + ptrdiff_t{i} * rows * ldu, rows * ldu, T(7));
      std::fill_n(v + ptrdiff_t{i} * cols * ldv, cols * ldv, T(7));
    }
  });
  return kSuccess;
}
template <class T>
int geqrfBatched(void* handle, int rows, int cols, T** a, int ld, T** tau, int* info, int count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T*);
  if (!ready(handle)) return kNotInitialized;
  *info = 0;  // of the host
  if (rows < 1 || cols < 1 || ld < rows || !fake::driver().owns(a, bytes) ||
      !fake::driver().owns(tau, bytes))
    return kBlasInvalid;
  start("cublas_geqrfBatched", handle, [=] {
    for (int i = 0; i < count; ++i) qr(Matrix<T>{a[i], rows, cols, ld}, tau[i]);
  });
  return kSuccess;
}
template <class T>
int trsm(void* handle, int side, int triangle, int transposed, int unit, int m, int n,
         const T* factor, const T* a, int lda, T* b, int ldb) {
  const Matrix<T> matrix{const_cast<T*>(a), m, m, lda}, x{b, m, n, ldb};
  if (!ready(handle)) return kNotInitialized;
  if (side != 0 || *factor != T(1) || !matrix.valid() || !x.valid()) return kBlasInvalid;
  start("cublas_trsm", handle,
        [=] { solve_triangle(triangle == 1, transposed == 1, unit == 1, matrix, x); });
  return kSuccess;
}
template <class T>
int trsmBatched(void* handle, int side, int triangle, int transposed, int unit, int m, int n,
                const T* factor, T** a, int lda, T** b, int ldb, int count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T*);
  if (!ready(handle)) return kNotInitialized;
  if (side != 0 || *factor != T(1) || m < 1 || n < 1 || lda < m || ldb < m ||
      !fake::driver().owns(a, bytes) || !fake::driver().owns(b, bytes))
    return kBlasInvalid;
  start("cublas_trsmBatched", handle, [=] {
    for (int i = 0; i < count; ++i)
      solve_triangle(triangle == 1, transposed == 1, unit == 1, Matrix<T>{a[i], m, m, lda},
                     Matrix<T>{b[i], m, n, ldb});
  });
  return kSuccess;
}
template <class T>
int getrfBatched(void* handle, int n, T** a, int ld, int* pivots, int* info, int count) {
  if (!ready(handle)) return kNotInitialized;
  if (n < 1 || ld < n || !valid_info(pivots, n * count) || !valid_info(info, count) ||
      !fake::driver().owns(a, static_cast<size_t>(count) * sizeof(T*)))
    return kBlasInvalid;
  start("cublas_getrfBatched", handle, [=] {
    for (int i = 0; i < count; ++i) info[i] = lu(Matrix<T>{a[i], n, n, ld}, pivots + i * n);
  });
  return kSuccess;
}
template <class T>
int getrsBatched(void* handle, int transposed, int n, int k, T** a, int lda, const int* pivots,
                 T** b, int ldb, int* info, int count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T*);
  if (!ready(handle)) return kNotInitialized;
  *info = 0;  // of the host
  if (transposed > 1 || n < 1 || k < 1 || lda < n || ldb < n || !valid_info(pivots, n * count) ||
      !fake::driver().owns(a, bytes) || !fake::driver().owns(b, bytes))
    return kBlasInvalid;
  start("cublas_getrsBatched", handle, [=] {
    for (int i = 0; i < count; ++i)
      solve_lu(transposed == 1, Matrix<T>{a[i], n, n, lda}, pivots + i * n,
               Matrix<T>{b[i], n, k, ldb});
  });
  return kSuccess;
}

int create(void** handle) {
  *handle = new Handle{fake::driver().device()};
  return kSuccess;
}
int set_stream(void* handle, void* stream) {
  auto* const h = static_cast<Handle*>(handle);
  h->has_stream = true;
  h->stream = stream;
  return kSuccess;
}

}  // namespace

// Defines a function that makes or changes a handle or options.
#define SET_UP(symbol, parameters, ...) \
  FAKE_API symbol parameters {          \
    FAKE_ENTER(symbol);                 \
    return __VA_ARGS__;                 \
  }
SET_UP(cusolverDnCreate, (void** handle), create(handle))
SET_UP(cublasCreate_v2, (void** handle), create(handle))
SET_UP(cusolverDnSetStream, (void* handle, void* stream), set_stream(handle, stream))
SET_UP(cublasSetStream_v2, (void* handle, void* stream), set_stream(handle, stream))
SET_UP(cusolverDnCreateSyevjInfo, (void** options), (*options = &of_eigen, kSuccess))
SET_UP(cusolverDnCreateGesvdjInfo, (void** options), (*options = &of_singular, kSuccess))

// Defines a function of each dtype, which calls the template of the same arguments, and the one
// that tells the size of its workspace.
#define FUNCTION(symbol, name, parameters, ...) \
  FAKE_API symbol parameters {                  \
    FAKE_ENTER(name);                           \
    return name(__VA_ARGS__);                   \
  }
#define SIZE(symbol, m, n, ...)                      \
  FAKE_API symbol##_bufferSize(void*, __VA_ARGS__) { \
    *size = work_size(m, n);                         \
    return kSuccess;                                 \
  }
#define FUNCTIONS(L, T, R, ORGQR, SYEVD, SYEVJ)                                                    \
  SIZE(cusolverDn##L##potrf, n, n, int, int n, T*, int, int* size)                                 \
  FUNCTION(cusolverDn##L##potrf, potrf,                                                            \
           (void* h, int triangle, int n, T* a, int ld, T* work, int size, int* info), h,          \
           triangle, n, a, ld, work, size, info)                                                   \
  FUNCTION(cusolverDn##L##potrfBatched, potrfBatched,                                              \
           (void* h, int triangle, int n, T** a, int ld, int* info, int count), h, triangle, n, a, \
           ld, info, count)                                                                        \
  SIZE(cusolverDn##L##getrf, m, n, int m, int n, T*, int, int* size)                               \
  FUNCTION(cusolverDn##L##getrf, getrf,                                                            \
           (void* h, int m, int n, T* a, int ld, T* work, int* pivots, int* info), h, m, n, a, ld, \
           work, pivots, info)                                                                     \
  FUNCTION(cusolverDn##L##getrs, getrs,                                                            \
           (void* h, int transposed, int n, int k, const T* a, int lda, const int* pivots, T* b,   \
            int ldb, int* info),                                                                   \
           h, transposed, n, k, a, lda, pivots, b, ldb, info)                                      \
  SIZE(cusolverDn##L##geqrf, m, n, int m, int n, T*, int, int* size)                               \
  FUNCTION(cusolverDn##L##geqrf, geqrf,                                                            \
           (void* h, int m, int n, T* a, int ld, T* tau, T* work, int size, int* info), h, m, n,   \
           a, ld, tau, work, size, info)                                                           \
  SIZE(cusolverDn##L##ORGQR, m, n, int m, int n, int, const T*, int, const T*, int* size)          \
  FUNCTION(                                                                                        \
      cusolverDn##L##ORGQR, orgqr,                                                                 \
      (void* h, int m, int n, int k, T* a, int ld, const T* tau, T* work, int size, int* info), h, \
      m, n, k, a, ld, tau, work, size, info)                                                       \
  SIZE(cusolverDn##L##SYEVD, n, n, int, int, int n, const T*, int, const R*, int* size)            \
  FUNCTION(cusolverDn##L##SYEVD, syevd,                                                            \
           (void* h, int vectors, int triangle, int n, T* a, int ld, R* values, T* work, int size, \
            int* info),                                                                            \
           h, vectors, triangle, n, a, ld, values, work, size, info)                               \
  SIZE(cusolverDn##L##SYEVJ##Batched, n, n, int, int, int n, const T*, int, const R*, int* size,   \
       void*, int)                                                                                 \
  FUNCTION(cusolverDn##L##SYEVJ##Batched, syevjBatched,                                            \
           (void* h, int vectors, int triangle, int n, T* a, int ld, R* values, T* work, int size, \
            int* info, void* options, int count),                                                  \
           h, vectors, triangle, n, a, ld, values, work, size, info, options, count)               \
  SIZE(cusolverDn##L##gesvd, m, n, int m, int n, int* size)                                        \
  FUNCTION(cusolverDn##L##gesvd, gesvd,                                                            \
           (void* h, signed char u_part, signed char vh_part, int m, int n, T* a, int lda, R* s,   \
            T* u, int ldu, T* vh, int ldvh, T* work, int size, R* reals, int* info),               \
           h, u_part, vh_part, m, n, a, lda, s, u, ldu, vh, ldvh, work, size, reals, info)         \
  SIZE(cusolverDn##L##gesvdjBatched, m, n, int, int m, int n, const T*, int, const R*, const T*,   \
       int, const T*, int, int* size, void*, int)                                                  \
  FUNCTION(cusolverDn##L##gesvdjBatched, gesvdjBatched,                                            \
           (void* h, int vectors, int m, int n, T* a, int lda, R* s, T* u, int ldu, T* v, int ldv, \
            T* work, int size, int* info, void* options, int count),                               \
           h, vectors, m, n, a, lda, s, u, ldu, v, ldv, work, size, info, options, count)          \
  FUNCTION(cublas##L##trsm_v2, trsm,                                                               \
           (void* h, int side, int triangle, int transposed, int unit, int m, int n,               \
            const T* factor, const T* a, int lda, T* b, int ldb),                                  \
           h, side, triangle, transposed, unit, m, n, factor, a, lda, b, ldb)                      \
  FUNCTION(cublas##L##geqrfBatched, geqrfBatched,                                                  \
           (void* h, int m, int n, T** a, int ld, T** tau, int* info, int count), h, m, n, a, ld,  \
           tau, info, count)                                                                       \
  FUNCTION(cublas##L##getrfBatched, getrfBatched,                                                  \
           (void* h, int n, T** a, int ld, int* pivots, int* info, int count), h, n, a, ld,        \
           pivots, info, count)                                                                    \
  FUNCTION(cublas##L##getrsBatched, getrsBatched,                                                  \
           (void* h, int transposed, int n, int k, T** a, int lda, const int* pivots, T** b,       \
            int ldb, int* info, int count),                                                        \
           h, transposed, n, k, a, lda, pivots, b, ldb, info, count)                               \
  FUNCTION(cublas##L##trsmBatched, trsmBatched,                                                    \
           (void* h, int side, int triangle, int transposed, int unit, int m, int n,               \
            const T* factor, T** a, int lda, T** b, int ldb, int count),                           \
           h, side, triangle, transposed, unit, m, n, factor, a, lda, b, ldb, count)
FUNCTIONS(S, float, float, orgqr, syevd, syevj)
FUNCTIONS(D, double, double, orgqr, syevd, syevj)
FUNCTIONS(C, std::complex<float>, float, ungqr, heevd, heevj)
FUNCTIONS(Z, std::complex<double>, double, ungqr, heevd, heevj)
