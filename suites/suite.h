// A suite as it was written: matrices whose axes are lists of values with their places in the file.
// docs/suites.md is the reference of the format.

#ifndef LCAB_SUITES_SUITE_H_
#define LCAB_SUITES_SUITE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/dtype.h"
#include "attention/parameters.h"
#include "attention/problem.h"
#include "lcab/v1/trial.pb.h"
#include "suites/diagnostics.h"

namespace lcab::suites {

template <typename T>
struct Located {
  T value;
  Location where;
};

// The values that a matrix takes along one axis, in the order of the file.
template <typename T>
using Axis = std::vector<Located<T>>;

struct Shape {
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t qk_head_dim = 0;
  int64_t v_head_dim = 0;
  DType dtype = DType::kBFloat16;
};

// Either tokens of the whole problem, or as many for each rank.
struct Length {
  int64_t q_tokens = 0;
  int64_t k_tokens = 0;
  bool per_rank = false;
};

// A mask, kernel or strategy with all its parameters, defaults filled in.
struct Choice {
  std::string name;
  Options options;
  int64_t draws = 1;       // of a random mask
  int64_t first_draw = 0;  // counted from 0
};

struct Matrix {
  Location where;
  Axis<Shape> shapes;
  Axis<Softmax> operators;
  Axis<Length> lengths;
  Axis<Choice> masks;
  Axis<Choice> kernels;
  Axis<Pass> passes;
  Axis<Choice> strategies;
  Axis<int32_t> ranks;
  Axis<int32_t> ranks_per_device;
  Axis<bool> overlaps;
  Axis<v1::Measure> measures;
};

struct Suite {
  std::string file_name;
  std::string name;
  std::string description;
  uint64_t seed = 1;
  std::vector<Matrix> matrices;
};

}  // namespace lcab::suites

#endif  // LCAB_SUITES_SUITE_H_
