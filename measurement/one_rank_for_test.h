// For tests: a problem by one line, and a kernel on one rank whose rows can be looked at.

#ifndef LCAB_MEASUREMENT_ONE_RANK_FOR_TEST_H_
#define LCAB_MEASUREMENT_ONE_RANK_FOR_TEST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "attention/inputs.h"
#include "attention/masks.h"
#include "cp/executor.h"
#include "cp/strategy.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"
#include "measurement/numbers.h"
#include "measurement/row_selection.h"
#include "measurement/shards.h"

namespace lcab::measurement {

inline absl::Time Soon() { return absl::Now() + absl::Seconds(50); }

struct Shape {
  std::string mask;
  Options options;
  int64_t tokens, q_heads, kv_heads, qk_dim, v_dim;
  DType dtype = DType::kFloat32;
  double softcap = 0;
  std::optional<double> scale;
};

inline Problem MakeProblem(const Shape& shape) {
  Problem problem;
  problem.op = Softmax{.scale = shape.scale, .softcap = shape.softcap};
  problem.q_heads = shape.q_heads;
  problem.kv_heads = shape.kv_heads;
  problem.qk_head_dim = shape.qk_dim;
  problem.v_head_dim = shape.v_dim;
  problem.dtype = shape.dtype;
  problem.mask = std::make_shared<const Mask>(MakeMask(shape.mask, shape.options,
                                                       {.q_tokens = shape.tokens,
                                                        .k_tokens = shape.tokens,
                                                        .kv_heads = shape.kv_heads,
                                                        .seed = 1})
                                                  .value());
  return problem;
}

// A kernel's executor on one rank, prepared.
inline std::unique_ptr<cp::Executor> MakeOneRankExecutor(const Problem& problem, Pass pass,
                                                         const std::string& kernel_name,
                                                         Device& device) {
  const Kernel* kernel = BuiltinKernels().Find(kernel_name).value();
  const Options options = ResolveOptions(kernel_name, {}, kernel->parameters()).value();
  const cp::Strategy* single = cp::BuiltinStrategies().Find("single").value();
  const std::vector<cp::RankPlan> plans =
      single
          ->MakePlans({.problem = problem,
                       .kernel = cp::GetPlanTraits(*kernel, options),
                       .backward = pass == Pass::kBackward})
          .value();
  std::unique_ptr<cp::Executor> executor =
      cp::MakeExecutor(plans[0], {.kernel = kernel, .kernel_options = options, .device = &device})
          .value();
  EXPECT_TRUE(executor->Prepare().ok());
  return executor;
}

// The selected rows that a kernel computes from inputs of this source.
inline KeptRows RowsOfKernel(const Problem& problem, Pass pass, const std::string& kernel_name,
                             const InputSource& source, const RowSelection& selection,
                             Device& device) {
  const std::unique_ptr<cp::Executor> executor =
      MakeOneRankExecutor(problem, pass, kernel_name, device);
  EXPECT_TRUE(WriteShards(
                  executor->inputs(),
                  [&](Tensor tensor, int64_t token, int64_t head, std::span<float> row) {
                    InputRow(source, tensor, token, head, static_cast<int64_t>(row.size()),
                             row.data());
                  },
                  device, Soon())
                  .ok());
  EXPECT_TRUE(executor->Enqueue(Pass::kForward).ok());
  if (pass == Pass::kBackward) {
    EXPECT_TRUE(executor->Enqueue(Pass::kBackward).ok());
  }
  EXPECT_TRUE(device.stream().Synchronize(Soon()).ok());
  return KeptRows::Copy(executor->outputs(pass), selection, device, Soon()).value();
}

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_ONE_RANK_FOR_TEST_H_
