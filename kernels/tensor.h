// Views of tensors in device memory, as kernels take them.

#ifndef LCAB_KERNELS_TENSOR_H_
#define LCAB_KERNELS_TENSOR_H_

#include <cstddef>
#include <cstdint>

#include "attention/dtype.h"

namespace lcab {

// [tokens, heads, dim] with strides in elements; the innermost stride is 1.
struct TensorView {
  std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t dim = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;

  std::byte* At(int64_t token, int64_t head) const {
    return data + (token * token_stride + head * head_stride) * SizeOf(dtype);
  }
  template <typename T>
  T* Row(int64_t token, int64_t head) const {
    return reinterpret_cast<T*>(At(token, head));
  }
};

// [heads, tokens] in fp32 with strides in elements: LSE (natural logarithm), dLSE, delta.
struct RowStatView {
  float* data = nullptr;
  int64_t heads = 0;
  int64_t tokens = 0;
  int64_t head_stride = 0;
  int64_t token_stride = 1;

  float* At(int64_t head, int64_t token) const {
    return data + head * head_stride + token * token_stride;
  }
};

}  // namespace lcab

#endif  // LCAB_KERNELS_TENSOR_H_
