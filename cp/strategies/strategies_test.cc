#include <cmath>
#include <memory>

#include "cp/prove.h"
#include "cp/strategy.h"
#include "cp/testing/naive_kernel.h"
#include "cp/testing/run_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lcab::cp {
namespace {

TEST(Strategies, AgreeWithOneRankAndSendTheBytesOfTheirFormulas) {
  const std::vector<Slice> slices = {{0, 37, 0, 37, SliceKind::kCausal}};
  Problem problem{.q_heads = 4, .kv_heads = 2, .qk_head_dim = 16, .v_head_dim = 8};
  problem.mask = std::make_shared<Mask>(Mask::FromSlices(37, 37, slices).value());
  const NaiveKernel kernel;
  const Tensors inputs = RandomInputs(problem, 1);
  Tensors truth;
  for (const bool network : {false, true}) {
    for (const char* name : {"single", "ring", "ring_zigzag", "all_gather", "ulysses"}) {
      const Strategy* strategy = BuiltinStrategies().Find(name).value();
      for (int ranks = 1; ranks <= 5; ++ranks) {
        if (std::string(name) == "single" && ranks > 1) continue;
        for (const bool overlap : {false, true}) {
          PlanRequest request{.problem = problem,
                              .topology = {.ranks = ranks},
                              .options = ResolveOptions(name, {}, strategy->parameters()).value(),
                              .backward = true,
                              .overlap = overlap};
          if (!strategy->Supports(request).ok()) continue;
          auto plans = strategy->MakePlans(request);
          ASSERT_TRUE(plans.ok()) << plans.status();
          auto proof = Prove(*plans, [&](int rank, Pass pass) {
            return strategy->BytesSent(request, rank, pass);
          });
          ASSERT_TRUE(proof.ok()) << proof.status();
          auto result =
              RunRanks(*plans, inputs, {.kernel = &kernel, .iterations = 2, .network = network});
          ASSERT_TRUE(result.ok()) << result.status();
          if (truth.empty()) truth = result->outputs;
          for (const auto& [tensor, values] : result->outputs) {
            for (size_t i = 0; i < values.size(); ++i) {
              ASSERT_NEAR(values[i], truth[tensor][i], 1e-5)
                  << name << ranks << " " << Name(tensor) << " " << i;
            }
          }
          for (int rank = 0; rank < ranks; ++rank) {
            EXPECT_EQ(result->forward_bytes[rank],
                      strategy->BytesSent(request, rank, Pass::kForward));
            EXPECT_EQ(result->backward_bytes[rank],
                      strategy->BytesSent(request, rank, Pass::kBackward));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lcab::cp
