// SPDX-License-Identifier: BSD-3-Clause
// Elementwise kernels of one row. The generated text (cuda/jit/rows.cpp) defines an Op with the
// types T (computed), Out, First and In (stored), kInputs, kDivides and f(inputs..., p0, p1, p2).
#pragma once
#include "cuda/args/loop_args.h"
#include "functions.h"

namespace cograd::device {

inline constexpr int kLoopThreads = 256;

template <class T>
inline T value_as(const LoopValue& v) {
  return *reinterpret_cast<const T*>(v.bytes);
}

// The element of each input, in the type it is computed in.
template <class Op>
struct Inputs {
  compute_t<typename Op::First> first;
  compute_t<typename Op::In> b, c, d;
};

template <class Op>
inline auto value_of(const Inputs<Op>& x, const typename Op::T* p) {
  if constexpr (Op::kInputs == 0)
    return p[0];
  else if constexpr (Op::kInputs == 1)
    return Op::f(x.first, p[0], p[1], p[2]);
  else if constexpr (Op::kInputs == 2)
    return Op::f(x.first, x.b, p[0], p[1], p[2]);
  else if constexpr (Op::kInputs == 3)
    return Op::f(x.first, x.b, x.c, p[0], p[1], p[2]);
  else
    return Op::f(x.first, x.b, x.c, x.d, p[0], p[1], p[2]);
}
template <class Op>
inline void read_params(const LoopOperands& ops, typename Op::T* p) {
  for (int k = 0; k < 3; ++k) p[k] = value_as<typename Op::T>(ops.param[k]);
}
template <class Op>
inline void report(const LoopOperands& ops, bool zero) {
  if constexpr (Op::kDivides) {
    if (zero && ops.error != nullptr) *static_cast<volatile unsigned*>(ops.error) = 1;
  }
}

// Loads N elements of operand k, which begin at `at`.
template <class In, int N>
inline void load_pack(const LoopOperands& ops, int k, int64_t at, int64_t n, compute_t<In>* x) {
  if (ops.on_host >> k & 1) {
    const auto v = value_as<compute_t<In>>(ops.value[k]);
    COGRAD_UNROLL
    for (int i = 0; i < N; ++i) x[i] = v;
    return;
  }
  const In* p = static_cast<const In*>(ops.data[k]);
  if (ops.single >> k & 1) {
    const auto v = load(p);
    COGRAD_UNROLL
    for (int i = 0; i < N; ++i) x[i] = v;
  } else if (at + N <= n) {
    using Loaded = select_t<is_same<In, bool>, uint8_t, In>;
    const auto pack = *reinterpret_cast<const Pack<Loaded, N>*>(p + at);
    COGRAD_UNROLL
    for (int i = 0; i < N; ++i) {
      if constexpr (is_same<In, bool>)
        x[i] = pack.v[i] != 0;
      else
        x[i] = widen(pack.v[i]);
    }
  } else {
    COGRAD_UNROLL
    for (int i = 0; i < N; ++i)
      if (at + i < n) x[i] = load(p, at + i);
  }
}

template <class Op, int N>
struct Packs {
  compute_t<typename Op::First> first[N];
  compute_t<typename Op::In> b[N], c[N], d[N];

  void read(const LoopOperands& ops, int64_t at, int64_t n) {
    if constexpr (Op::kInputs > 0) load_pack<typename Op::First, N>(ops, 1, at, n, first);
    if constexpr (Op::kInputs > 1) load_pack<typename Op::In, N>(ops, 2, at, n, b);
    if constexpr (Op::kInputs > 2) load_pack<typename Op::In, N>(ops, 3, at, n, c);
    if constexpr (Op::kInputs > 3) load_pack<typename Op::In, N>(ops, 4, at, n, d);
  }
  Inputs<Op> at(int i) const {
    Inputs<Op> x;
    if constexpr (Op::kInputs > 0) x.first = first[i];
    if constexpr (Op::kInputs > 1) x.b = b[i];
    if constexpr (Op::kInputs > 2) x.c = c[i];
    if constexpr (Op::kInputs > 3) x.d = d[i];
    return x;
  }
};

constexpr int larger(int a, int b) { return a < b ? b : a; }
// Elements of a pack: the widest operand takes 16 bytes, but a pack has at most 8.
template <class Op>
inline constexpr int kPack = [] {
  const int in = Op::kInputs > 1 ? larger(sizeof(typename Op::First), sizeof(typename Op::In))
                                 : static_cast<int>(sizeof(typename Op::First));
  const int n = 16 / larger(sizeof(typename Op::Out), in);
  return n > 8 ? 8 : n;
}();
inline constexpr int kPacksPerThread = 2;

// Each thread computes two packs, a block's width apart.
template <class Op>
inline void run_flat(const FlatArgs& a) {
  constexpr int N = kPack<Op>;
  typename Op::T p[3];
  read_params<Op>(a.ops, p);
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kPacksPerThread * blockDim.x;
  Packs<Op, N> in[kPacksPerThread];
  COGRAD_UNROLL
  for (int j = 0; j < kPacksPerThread; ++j) {
    const int64_t at = (block + j * blockDim.x + threadIdx.x) * N;
    if (at < a.n) in[j].read(a.ops, at, a.n);
  }
  auto* out = static_cast<typename Op::Out*>(a.ops.data[0]);
  COGRAD_UNROLL
  for (int j = 0; j < kPacksPerThread; ++j) {
    const int64_t at = (block + j * blockDim.x + threadIdx.x) * N;
    if (at >= a.n) continue;
    Pack<typename Op::Out, N> r;
    COGRAD_UNROLL
    for (int i = 0; i < N; ++i) {
      if (at + i >= a.n) break;
      const Inputs<Op> x = in[j].at(i);
      if constexpr (Op::kDivides) report<Op>(a.ops, x.b == 0);
      r.v[i] = typename Op::Out(compute_t<typename Op::Out>(value_of<Op>(x, p)));
    }
    if (at + N <= a.n) {
      *reinterpret_cast<Pack<typename Op::Out, N>*>(out + at) = r;
      continue;
    }
    COGRAD_UNROLL
    for (int i = 0; i < N; ++i)
      if (at + i < a.n) out[at + i] = r.v[i];
  }
}

// Adds index * stride of each dim to the offsets of kOps operands. Index is 32 bits wide if there
// are fewer than 2^31 elements.
template <class Index, int kOps>
inline void add_offsets(const StridedArgs& a, Index at, int64_t* offsets) {
  COGRAD_UNROLL
  for (int k = 0; k < kOps; ++k) offsets[k] = 0;
  COGRAD_UNROLL
  for (int d = 0; d < kLoopDims; ++d) {
    const auto& dim = a.dims[d];
    const bool last = d + 1 == a.ndim;
    Index rest;
    if constexpr (sizeof(Index) == 4) {
      const uint32_t q =
          last ? 0 : Divider{0, dim.multiplier, dim.shift}.quotient(static_cast<uint32_t>(at));
      rest = at - q * static_cast<uint32_t>(dim.size);
      at = q;
    } else {
      const Index q = last ? 0 : at / static_cast<Index>(dim.size);
      rest = at - q * static_cast<Index>(dim.size);
      at = q;
    }
    COGRAD_UNROLL
    for (int k = 0; k < kOps; ++k) offsets[k] += static_cast<int64_t>(rest) * dim.strides[k];
    if (last) return;
  }
}

template <class T>
inline const T* element_at(const LoopOperands& ops, int k, int64_t offset) {
  return reinterpret_cast<const T*>(static_cast<const char*>(ops.data[k]) + offset);
}
template <class In>
inline compute_t<In> load_element(const LoopOperands& ops, int k, int64_t offset) {
  if (ops.on_host >> k & 1) return value_as<compute_t<In>>(ops.value[k]);
  return load(element_at<In>(ops, k, offset));
}

inline constexpr int kElementsPerThread = 4;

// Each thread computes four elements, a block's width apart.
template <class Op, class Index>
inline void run_strided(const StridedArgs& a) {
  constexpr int kOps = 1 + Op::kInputs;
  typename Op::T p[3];
  read_params<Op>(a.ops, p);
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kElementsPerThread * blockDim.x;
  Inputs<Op> x[kElementsPerThread];
  int64_t to[kElementsPerThread];
  COGRAD_UNROLL
  for (int j = 0; j < kElementsPerThread; ++j) {
    const int64_t at = block + j * blockDim.x + threadIdx.x;
    to[j] = -1;
    if (at >= a.n) continue;
    int64_t offsets[kOps];
    add_offsets<Index, kOps>(a, static_cast<Index>(at), offsets);
    to[j] = offsets[0];
    if constexpr (kOps > 1) x[j].first = load_element<typename Op::First>(a.ops, 1, offsets[1]);
    if constexpr (kOps > 2) x[j].b = load_element<typename Op::In>(a.ops, 2, offsets[2]);
    if constexpr (kOps > 3) x[j].c = load_element<typename Op::In>(a.ops, 3, offsets[3]);
    if constexpr (kOps > 4) x[j].d = load_element<typename Op::In>(a.ops, 4, offsets[4]);
  }
  COGRAD_UNROLL
  for (int j = 0; j < kElementsPerThread; ++j) {
    if (block + j * blockDim.x + threadIdx.x >= a.n) continue;
    if constexpr (Op::kDivides) report<Op>(a.ops, x[j].b == 0);
    auto* out = const_cast<typename Op::Out*>(element_at<typename Op::Out>(a.ops, 0, to[j]));
    *out = typename Op::Out(compute_t<typename Op::Out>(value_of<Op>(x[j], p)));
  }
}

// Conversions that need more than static_cast: out-of-range floats and NaN become the smallest
// integer, cut to the width, as the host's cast_loop does.
template <class To, class From>
inline compute_t<To> converted(From v) {
  using C = compute_t<To>;
  if constexpr (is_complex_type<From> && is_complex_type<To>) {
    return C(v);
  } else if constexpr (is_complex_type<To>) {
    return C(static_cast<typename To::value_type>(v));
  } else if constexpr (is_same<To, bool>) {
    return !(v == From(0));
  } else if constexpr (is_complex_type<From>) {
    return converted<To>(v.re);
  } else if constexpr (!is_float<From> || is_float<C>) {
    return static_cast<C>(v);
  } else if constexpr (is_same<To, uint64_t>) {
    constexpr From kHalf = From(9223372036854775808.0);
    if (v >= kHalf + kHalf) return 0;
    const bool high = v >= kHalf;
    const auto low = static_cast<uint64_t>(converted<int64_t>(high ? v - kHalf : v));
    return high ? low + (uint64_t{1} << 63) : low;
  } else if constexpr (sizeof(To) == 8 || is_same<To, uint32_t> ||
                       (sizeof(From) == 8 && is_same<To, uint8_t>)) {
    constexpr From kLimit = From(9223372036854775808.0);
    constexpr int64_t kLowest = -9223372036854775807LL - 1;
    return static_cast<To>(v >= -kLimit && v < kLimit ? static_cast<int64_t>(v) : kLowest);
  } else {
    constexpr From kLimit = From(2147483648.0);
    constexpr int32_t kLowest = -2147483647 - 1;
    return static_cast<To>(v > -kLimit - From(1) && v < kLimit ? static_cast<int32_t>(v) : kLowest);
  }
}

// The next 16-bit float: without the sign, their bits are ordered by magnitude.
inline uint16_t next_bits(uint16_t a, uint16_t b, uint16_t inf) {
  const uint16_t size_a = a & 0x7fff, size_b = b & 0x7fff;
  if (size_a > inf) return a;
  if (size_b > inf || a == b || (size_a | size_b) == 0) return b;
  if (size_a == 0) return static_cast<uint16_t>((b & 0x8000) | 1);
  const bool grows = (a ^ b) < 0x8000 && size_a < size_b;
  return static_cast<uint16_t>(grows ? a + 1 : a - 1);
}

}  // namespace cograd::device
