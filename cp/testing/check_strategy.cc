#include "cp/testing/check_strategy.h"

#include <cmath>
#include <utility>
#include <vector>

#include "attention/reference.h"
#include "cp/executor.h"
#include "cp/prove.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"

namespace lcab::cp {
namespace {

// How far apart results may be: rounding of the dtype, and of what is computed from rounded values
// (delta from out, in the gradients). A pair lost or added moves results by far more.
double Tolerance(DType dtype, double right) {
  return dtype == DType::kFloat32 ? 2e-5 * (1 + std::abs(right)) : 0.03 + std::abs(right) / 128;
}

void ExpectNear(const Trial& trial, Tensor tensor, const std::vector<float>& got,
                const std::vector<float>& right) {
  ASSERT_EQ(got.size(), right.size()) << Name(tensor);
  const DType dtype = tensor == Tensor::kLse ? DType::kFloat32 : trial.problem.dtype;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == right[i]) continue;  // infinities too
    ASSERT_NEAR(got[i], right[i], Tolerance(dtype, static_cast<double>(right[i])))
        << Describe(trial) << ": " << Name(tensor) << ", element " << i;
  }
}

}  // namespace

Tensors Truth(const Problem& problem, const Tensors& inputs) {
  Reference reference(problem,
                      {.q = inputs.at(Tensor::kQ),
                       .k = inputs.at(Tensor::kK),
                       .v = inputs.at(Tensor::kV),
                       .dout = inputs.at(Tensor::kDOut),
                       .dlse = {}},
                      Precision::kExact);
  Tensors truth;
  const auto append = [&truth](Tensor tensor, const std::vector<double>& values) {
    for (const double value : values) truth[tensor].push_back(static_cast<float>(value));
  };
  truth = {{Tensor::kOut, {}},
           {Tensor::kLse, {}},
           {Tensor::kDQ, {}},
           {Tensor::kDK, {}},
           {Tensor::kDV, {}}};
  for (int64_t head = 0; head < problem.q_heads; ++head) {
    reference.PrepareRows(head, {0, problem.q_tokens()});
    for (int64_t row = 0; row < problem.q_tokens(); ++row) {
      append(Tensor::kLse, {reference.lse(head, row)});
    }
  }
  for (int64_t row = 0; row < problem.q_tokens(); ++row) {
    for (int64_t head = 0; head < problem.q_heads; ++head) {
      append(Tensor::kOut, reference.Out(head, row).out);
      append(Tensor::kDQ, reference.DQ(head, row));
    }
  }
  for (int64_t key = 0; key < problem.k_tokens(); ++key) {
    for (int64_t head = 0; head < problem.kv_heads; ++head) {
      append(Tensor::kDK, reference.DK(head, key));
      append(Tensor::kDV, reference.DV(head, key));
    }
  }
  return truth;
}

PlanRequest RequestOf(const Trial& trial) {
  const Strategy* strategy = BuiltinStrategies().Find(trial.strategy).value();
  PlanRequest request{
      .problem = trial.problem,
      .topology = {.ranks = trial.ranks, .ranks_per_node = trial.ranks},
      .options = ResolveOptions(trial.strategy, trial.options, strategy->parameters()).value(),
      .backward = true,
      .overlap = trial.overlap};
  if (trial.run.kernel != nullptr) request.kernel = GetPlanTraits(*trial.run.kernel, {});
  return request;
}

std::string Describe(const Trial& trial) {
  const Problem& p = trial.problem;
  return fmt::format("{} on {} ranks, {}x{} tokens, {}:{} heads, {}",
                     ComponentText(trial.strategy, trial.options), trial.ranks, p.q_tokens(),
                     p.k_tokens(), p.q_heads, p.kv_heads, Name(p.dtype));
}

void PrintTo(const Trial& trial, std::ostream* out) { *out << Describe(trial); }

bool CheckTrial(const Trial& trial, const Tensors& inputs, const Tensors& truth) {
  const Strategy* strategy = BuiltinStrategies().Find(trial.strategy).value();
  const PlanRequest request = RequestOf(trial);
  const absl::StatusOr<std::vector<RankPlan>> plans = strategy->MakePlans(request);
  if (absl::IsUnimplemented(plans.status())) return false;
  EXPECT_TRUE(plans.ok()) << plans.status();
  if (!plans.ok()) return true;
  const auto formula = [&](int rank, Pass pass) {
    return strategy->BytesSent(request, rank, pass);
  };
  const absl::Status proof = Prove(*plans, formula).status();
  EXPECT_TRUE(proof.ok()) << Describe(trial) << ": " << proof;
  if (!proof.ok()) return true;

  RunOptions run = trial.run;
  if (run.kernel == nullptr) run.kernel = BuiltinKernels().Find("cpu_reference").value();
  const absl::StatusOr<RunResult> result = RunRanks(*plans, inputs, run);
  EXPECT_TRUE(result.ok()) << Describe(trial) << ": " << result.status();
  if (!result.ok()) return true;
  EXPECT_EQ(result->outputs.size(), truth.size());
  for (const auto& [tensor, values] : result->outputs) {
    ExpectNear(trial, tensor, values, truth.at(tensor));
  }
  for (int rank = 0; rank < trial.ranks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    EXPECT_EQ(result->forward_bytes[r], formula(rank, Pass::kForward)) << Describe(trial);
    EXPECT_EQ(result->backward_bytes[r], formula(rank, Pass::kBackward)) << Describe(trial);
  }
  return true;
}

}  // namespace lcab::cp
