// The truths of a cohort's problem: computed once for all its trials, each kv head's by one rank,
// and exchanged through the rendezvous.

#ifndef LCAB_MEASUREMENT_TRUTH_STORE_H_
#define LCAB_MEASUREMENT_TRUTH_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attention/inputs.h"
#include "attention/problem.h"
#include "cp/transport.h"
#include "device/device.h"
#include "measurement/row_selection.h"
#include "measurement/truth.h"

namespace lcab::measurement {

// A set of inputs, and which of its rows are compared.
struct TruthCase {
  std::vector<InputSource> sources;  // by kv head, for it and the query heads of its group
  RowSelection forward, backward;
};

class TruthStore {
 public:
  // `secret` draws the rows and the changed inputs; the same on every rank. The rendezvous may be
  // null for one rank. All must outlive it.
  struct Ranks {
    int rank = 0;
    int ranks = 1;
    std::string prefix;
    cp::Rendezvous* rendezvous = nullptr;
  };
  TruthStore(Problem problem, uint64_t seed, Distribution distribution, uint64_t secret,
             Device& device, Ranks ranks);

  const Problem& problem() const { return problem_; }
  // Cases 0 and 1 are what a trial is timed on, before and after its inputs change. The others hold
  // the remaining distributions, with fewer rows: each kv head has another one, so that as few runs
  // as possible see them all.
  static constexpr int kTimedCases = 2;
  const std::vector<TruthCase>& cases() const { return cases_; }
  // The source of a row of Q, K, V or dOut.
  const InputSource& SourceOf(int index, Tensor tensor, int64_t head) const;
  const RowSelection& selection(Pass pass, int index) const {
    const TruthCase& chosen = cases_[static_cast<size_t>(index)];
    return pass == Pass::kForward ? chosen.forward : chosen.backward;
  }

  // All ranks must ask for the same truths in the same order: each computes its part first. Fails
  // with what another rank's part failed with, or DeadlineExceeded naming the rank.
  absl::StatusOr<const std::vector<TruthRow>*> Get(Pass pass, int index, absl::Time deadline);

 private:
  absl::StatusOr<std::vector<TruthRow>> ComputePart(Pass pass, int index);
  absl::Status Publish(const std::string& key, const absl::StatusOr<std::vector<TruthRow>>& part);
  absl::Status Receive(int rank, const std::string& key, absl::Time deadline,
                       std::vector<TruthRow>* rows);

  const Problem problem_;
  Device& device_;
  const Ranks ranks_;
  std::vector<TruthCase> cases_;
  std::map<std::pair<Pass, int>, std::vector<TruthRow>> truths_;
};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_TRUTH_STORE_H_
