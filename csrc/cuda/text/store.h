// SPDX-License-Identifier: BSD-3-Clause
// Stores a number as an element of a dtype that is known at run time. It is for a result per row or
// per reduction: a program for each pair of dtypes would cost more than the branch.
#pragma once
#include "prelude.h"

namespace cograd::device {

// The values of DType (include/cograd/dtype.h).
enum StoredType : int {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kUInt16 = 12,
  kUInt32,
  kUInt64,
};

template <class V>
inline void store_as(int type, void* p, int64_t i, V v) {
  switch (type) {
    case kBool:
      static_cast<bool*>(p)[i] = v != V(0);
      break;
    case kUInt8:
      static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(v);
      break;
    case kInt8:
      static_cast<int8_t*>(p)[i] = static_cast<int8_t>(v);
      break;
    case kInt16:
    case kUInt16:
      static_cast<int16_t*>(p)[i] = static_cast<int16_t>(v);
      break;
    case kInt32:
    case kUInt32:
      static_cast<int32_t*>(p)[i] = static_cast<int32_t>(v);
      break;
    case kInt64:
    case kUInt64:
      static_cast<int64_t*>(p)[i] = static_cast<int64_t>(v);
      break;
    case kFloat16:
      static_cast<Half*>(p)[i] = Half(static_cast<float>(v));
      break;
    case kBFloat16:
      static_cast<BFloat16*>(p)[i] = BFloat16(static_cast<float>(v));
      break;
    case kFloat32:
      static_cast<float*>(p)[i] = static_cast<float>(v);
      break;
    default:
      static_cast<double*>(p)[i] = static_cast<double>(v);
  }
}

}  // namespace cograd::device
