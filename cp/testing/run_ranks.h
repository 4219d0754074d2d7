// Runs the plans of all ranks in one process and puts their outputs together: for tests.

#ifndef LCAB_CP_TESTING_RUN_RANKS_H_
#define LCAB_CP_TESTING_RUN_RANKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attention/problem.h"
#include "cp/plan.h"
#include "cp/transport.h"
#include "kernels/kernel.h"

namespace lcab::cp {

// Whole tensors: [tokens, heads, dim], LSE [heads, tokens]. Inputs hold values of the dtype.
using Tensors = std::map<Tensor, std::vector<float>>;

// Values near N(0, 1), the same for equal seeds.
Tensors RandomInputs(const Problem& problem, uint64_t seed);

struct RunResult {
  Tensors outputs;
  std::vector<int64_t> forward_bytes,
      backward_bytes;  // sent by each rank, as its transport counted
};

struct RunOptions {
  const Kernel* kernel = nullptr;
  std::string fault;
  int iterations = 1;    // of each pass; results are the last one's
  bool network = false;  // Gloo over loopback, else through memory
};

// Outputs are NaN before each iteration. Fails when a rank does; Internal when an element of an
// output is held by no rank or by several.
absl::StatusOr<RunResult> RunRanks(const std::vector<RankPlan>& plans, const Tensors& inputs,
                                   const RunOptions& options);

// Runs `body` once a rank, each in a thread.
void OnRanks(int ranks, const std::function<void(int rank)>& body);

}  // namespace lcab::cp

#endif  // LCAB_CP_TESTING_RUN_RANKS_H_
