// What a strategy must do on any problem: plans that are proved, run, give the right numbers and
// send the bytes of its formula. For the tests of strategies.

#ifndef LCAB_CP_TESTING_CHECK_STRATEGY_H_
#define LCAB_CP_TESTING_CHECK_STRATEGY_H_

#include <ostream>
#include <string>

#include "attention/parameters.h"
#include "attention/problem.h"
#include "cp/strategy.h"
#include "cp/testing/run_ranks.h"

namespace lcab::cp {

// The fp64 reference of every output.
Tensors Truth(const Problem& problem, const Tensors& inputs);

struct Trial {
  std::string strategy;
  Options options;
  Problem problem;
  int ranks = 1;
  bool overlap = true;
  RunOptions run;  // no kernel: cpu_reference
};

// As strategies get it, both passes.
PlanRequest RequestOf(const Trial& trial);
// "ring_zigzag{per=document} on 3 ranks".
std::string Describe(const Trial& trial);
void PrintTo(const Trial& trial, std::ostream* out);  // the same, for GoogleTest

// Fails the test unless plans are proved, all elements of all outputs agree with `truth` and bytes
// counted by the transport equal the formula. False where the strategy is not for this problem.
bool CheckTrial(const Trial& trial, const Tensors& inputs, const Tensors& truth);

}  // namespace lcab::cp

#endif  // LCAB_CP_TESTING_CHECK_STRATEGY_H_
