#include "measurement/row_statistics.h"

#include <cmath>
#include <memory>
#include <vector>

#include "attention/masks.h"
#include "attention/reference.h"
#include "gtest/gtest.h"

namespace lcab::measurement {
namespace {

void RunHere(int64_t parts, const std::function<void(int64_t)>& body) {
  for (int64_t part = 0; part < parts; ++part) body(part);
}

struct Shape {
  std::string mask;
  Options options;
  int64_t q_tokens, k_tokens, q_heads, kv_heads, qk_dim, v_dim;
  double softcap = 0;
  Distribution distribution = Distribution::kNormal;
};

TEST(RowStatisticsTest, AgreesWithTheReferenceToTheLastDigits) {
  for (const Shape& shape : {
           Shape{"full", {}, 65, 65, 2, 1, 16, 16},
           Shape{"causal", {}, 200, 200, 4, 2, 33, 70},
           Shape{"causal", {}, 1, 1, 1, 1, 1, 1},
           Shape{"sliding_window_causal",
                 {{"window", Value{int64_t{3}}}},
                 150,
                 150,
                 1,
                 1,
                 64,
                 64,
                 /*softcap=*/5},
           Shape{"block_sparse_uniform",
                 {{"block", Value{int64_t{64}}}, {"keep", Value{0.3}}},
                 300,
                 300,
                 4,
                 2,
                 8,
                 8},
           Shape{"causal", {}, 130, 130, 2, 2, 64, 64, 0, Distribution::kHeavyTailed},
           Shape{"causal", {}, 130, 130, 2, 2, 64, 64, 0, Distribution::kCorrelated},
           Shape{"slices",
                 {{"slices", Value{Value::List{Value{Value::List{
                                 Value{int64_t{0}}, Value{int64_t{160}}, Value{int64_t{0}},
                                 Value{int64_t{96}}, Value{std::string("causal")}}}}}}},
                 160,
                 96,
                 2,
                 1,
                 16,
                 16},
       }) {
    Problem problem;
    problem.op = Softmax{.softcap = shape.softcap};
    problem.q_heads = shape.q_heads;
    problem.kv_heads = shape.kv_heads;
    problem.qk_head_dim = shape.qk_dim;
    problem.v_head_dim = shape.v_dim;
    problem.dtype = DType::kBFloat16;
    const absl::StatusOr<Mask> mask = MakeMask(
        shape.mask, shape.options,
        {.q_tokens = shape.q_tokens, .k_tokens = shape.k_tokens, .kv_heads = shape.kv_heads});
    ASSERT_TRUE(mask.ok()) << mask.status();
    problem.mask = std::make_shared<const Mask>(*mask);
    for (int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      const HeadInputs inputs = MakeHeadInputs(problem, Pass::kBackward,
                                               {.seed = 3,
                                                .distribution = shape.distribution,
                                                .dtype = problem.dtype,
                                                .heads_per_kv = problem.heads_per_kv()},
                                               kv_head, RunHere);
      const RowStatistics statistics = ComputeRowStatistics(inputs, RunHere);
      Reference exact(inputs.problem, {inputs.q, inputs.k, inputs.v, inputs.dout, {}},
                      Precision::kExact);
      for (int64_t head = 0; head < inputs.problem.q_heads; ++head) {
        exact.PrepareRows(head, {0, shape.q_tokens});
        for (int64_t row = 0; row < shape.q_tokens; ++row) {
          const auto n = static_cast<size_t>(head * shape.q_tokens + row);
          if (std::isinf(exact.lse(head, row))) {
            EXPECT_EQ(statistics.lse[n], exact.lse(head, row));
            EXPECT_EQ(statistics.delta[n], 0);
            EXPECT_EQ(statistics.delta_terms[n], 0);
            continue;
          }
          EXPECT_NEAR(statistics.lse[n], exact.lse(head, row),
                      1e-13 * (1 + std::abs(exact.lse(head, row))))
              << shape.mask << " " << row;
          EXPECT_NEAR(statistics.delta[n], exact.delta(head, row), 1e-11)
              << shape.mask << " " << row;
          double squares = 0;
          const std::vector<double> out = exact.Out(head, row).out;
          for (size_t d = 0; d < out.size(); ++d) {
            const size_t place = static_cast<size_t>(row * inputs.problem.q_heads + head) *
                                     static_cast<size_t>(shape.v_dim) +
                                 d;
            squares += out[d] * out[d] * inputs.dout[place] * inputs.dout[place];
          }
          EXPECT_NEAR(statistics.delta_terms[n], std::sqrt(squares), 1e-11);
        }
      }
    }
  }
}

TEST(RowStatisticsTest, HeadOfAProblemIsItsOwnProblem) {
  Problem problem;
  problem.q_heads = 6;
  problem.kv_heads = 3;
  problem.qk_head_dim = problem.v_head_dim = 4;
  problem.mask = std::make_shared<const Mask>(
      MakeMask("block_sparse_uniform", {{"block", Value{int64_t{64}}}, {"keep", Value{0.5}}},
               {.q_tokens = 256, .k_tokens = 256, .kv_heads = 3, .seed = 5})
          .value());
  const InputSource source = {.seed = 9, .heads_per_kv = 2};
  const HeadInputs inputs = MakeHeadInputs(problem, Pass::kForward, source, 2, RunHere);
  EXPECT_EQ(inputs.problem.q_heads, 2);
  EXPECT_EQ(inputs.problem.kv_heads, 1);
  EXPECT_EQ(inputs.problem.mask->Area(0), problem.mask->Area(2));
  EXPECT_EQ(inputs.k[10 * 4 + 3], InputElement(source, Tensor::kK, 10, 2, 3));
  EXPECT_EQ(inputs.q[(10 * 2 + 1) * 4 + 3], InputElement(source, Tensor::kQ, 10, 5, 3));
  EXPECT_TRUE(inputs.dout.empty());
}

}  // namespace
}  // namespace lcab::measurement
