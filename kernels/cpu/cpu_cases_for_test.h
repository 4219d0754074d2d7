// For tests of every CPU kernel on cases with known answers.

#ifndef LCAB_KERNELS_CPU_CPU_CASES_FOR_TEST_H_
#define LCAB_KERNELS_CPU_CPU_CASES_FOR_TEST_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/masks.h"
#include "attention/problem.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kernels/testing/kernel_run.h"

namespace lcab {

// fp32 sums of some hundred terms; a lost key among 500 is 400 times as much.
inline constexpr double kTolerance = 5e-6;
// One rounding to bf16 of each output, 2^-8 of it, in units of its row.
inline constexpr double kBFloat16Tolerance = 4e-3;
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

inline Problem MakeProblem(Mask mask, int64_t q_heads, int64_t kv_heads, int64_t qk_head_dim,
                           int64_t v_head_dim, DType dtype = DType::kFloat32) {
  Problem problem;
  problem.q_heads = q_heads;
  problem.kv_heads = kv_heads;
  problem.qk_head_dim = qk_head_dim;
  problem.v_head_dim = v_head_dim;
  problem.dtype = dtype;
  problem.mask = std::make_shared<const Mask>(std::move(mask));
  return problem;
}

inline Mask Slices(int64_t q_tokens, int64_t k_tokens, const std::vector<Slice>& slices) {
  return Mask::FromSlices(q_tokens, k_tokens, slices).value();
}

inline Value IntegerList(const std::vector<int64_t>& integers) {
  Value::List list;
  for (const int64_t integer : integers) list.push_back(Value{integer});
  return Value{list};
}

struct KernelAndDType {
  std::string kernel;
  DType dtype;
};

class CpuCasesTest : public testing::TestWithParam<KernelAndDType> {
 protected:
  const Kernel& kernel() const { return BuiltinKernel(GetParam().kernel); }
  DType dtype() const { return GetParam().dtype; }
  double tolerance() const { return dtype() == DType::kFloat32 ? kTolerance : kBFloat16Tolerance; }

  KernelOutputs Run(const Problem& problem, const KernelInputs& inputs,
                    const KernelRunOptions& options = {}) {
    return RunKernel(kernel(), problem, inputs, *device_, options);
  }
  // Runs the kernel and holds everything that it writes against fp64.
  KernelOutputs RunAndCheck(const Problem& problem, const KernelInputs& inputs) {
    const KernelOutputs truth = ReferenceOutputs(problem, inputs);
    KernelOutputs outputs = Run(problem, inputs, {.forward = &truth});
    ExpectNear(outputs, truth, problem, tolerance(), kernel().name());
    return outputs;
  }

  // All channels of rows (tokens, all heads) [rows.begin, rows.end) are exactly 0.
  static void ExpectZeroRows(const std::vector<float>& values, int64_t floats_of_token,
                             Interval rows, const std::string& what) {
    for (int64_t i = rows.begin * floats_of_token; i < rows.end * floats_of_token; ++i) {
      ASSERT_EQ(values[static_cast<size_t>(i)], 0.0f) << what << " token " << i / floats_of_token;
    }
  }
  static void ExpectNoKeyRows(const Problem& problem, const KernelOutputs& outputs, Interval rows) {
    ExpectZeroRows(outputs.out, problem.q_heads * problem.v_head_dim, rows, "out");
    ExpectZeroRows(outputs.dq, problem.q_heads * problem.qk_head_dim, rows, "dQ");
    for (int64_t head = 0; head < problem.q_heads; ++head) {
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        ASSERT_EQ(outputs.lse[static_cast<size_t>(head * problem.q_tokens() + row)], kMinusInfinity)
            << "row " << row;
      }
    }
  }
  static void ExpectUnseenKeys(const Problem& problem, const KernelOutputs& outputs,
                               Interval keys) {
    ExpectZeroRows(outputs.dk, problem.kv_heads * problem.qk_head_dim, keys, "dK");
    ExpectZeroRows(outputs.dv, problem.kv_heads * problem.v_head_dim, keys, "dV");
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice({.threads = 2}).value();
};

// Too large for the reference kernel, which smaller shapes cover.
class LargeCpuCasesTest : public CpuCasesTest {};

inline std::string InstanceName(const testing::TestParamInfo<KernelAndDType>& instance) {
  return fmt::format("{}_{}", instance.param.kernel, Name(instance.param.dtype));
}

}  // namespace lcab

#endif  // LCAB_KERNELS_CPU_CPU_CASES_FOR_TEST_H_
