// The probe's inputs and the outputs they must give, as closed forms of the mask.
//
// Where every logit is 0, each allowed key weighs 1/count, so outputs follow from counts and from
// sums of signs over intervals of keys or rows. Marks stand in channel (x mod p) with the sign
// (-1)^floor(x / p), for x = token + an offset of the head: signs alternate along a channel, so
// that sums stay small enough for bf16 while one key or row more or less moves one of them by a
// whole mark, at any length. Two periods in turn see what a shift by a multiple of one would hide.
//
// Forward: Q = 0, V marked. Row i of out is (sum of marks) / count, its LSE ln(count).
//
// Backward, all three gradients in one run: Q is marked in the lower half of its channels and K in
// the upper half, so that Q K^T = 0 still; V is one sign v_j in all channels, and dOut is marked,
// times w'_i, the power of two above count_i. With w_i = w'_i / count_i in (1, 2] and vbar_i the
// mean of v over the row, dS_ij = w_i sign_i (v_j - vbar_i), thus
//   dQ_i = scale sum_j dS_ij K_j,  dK_j = scale sum_i dS_ij Q_i,  dV_j = sum_i w_i sign_i mark_i.
// Query heads of one group add up in dK and dV; their offsets differ, so that none can stand in for
// another, and at most kHeadsAtOnce are marked in one run, which keeps the noise of bf16 far below
// a mark.

#ifndef LCAB_MEASUREMENT_PROBE_PATTERN_H_
#define LCAB_MEASUREMENT_PROBE_PATTERN_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "attention/problem.h"
#include "attention/tokens.h"

namespace lcab::measurement {

inline constexpr int64_t kHeadsAtOnce = 4;

// One untimed run of the pass with inputs of the probe.
struct ProbeRun {
  Pass pass = Pass::kForward;
  int64_t v_period = 1;   // of marks over channels of V (forward) or dOut (backward)
  int64_t qk_period = 0;  // backward: over half the channels of Q and K
  bool mark_q = true;     // backward: with one channel, Q and K are marked in runs of their own
  bool mark_k = true;
  Interval heads_of_group = {};  // backward: query heads of each group that are marked
};

// The runs that see every row, key and head of the problem in this pass. Empty when it has no row.
std::vector<ProbeRun> ProbeRuns(const Problem& problem, Pass pass);

// Inputs of one run. Thread-safe. The problem must outlive it.
class ProbeInputs {
 public:
  ProbeInputs(const Problem& problem, const ProbeRun& run);
  // Row (token, head) of Q, K, V or dOut.
  void Row(Tensor tensor, int64_t token, int64_t head, std::span<float> row) const;

 private:
  const Problem& problem_;
  const ProbeRun run_;
};

// What one kv head's rows of out, LSE, dQ, dK and dV must be.
class ProbeExpectation {
 public:
  using RunParts = std::function<void(int64_t parts, const std::function<void(int64_t part)>&)>;

  // Backward: sums over the rows of the group, with `run_parts` to share the work among threads.
  ProbeExpectation(const Problem& problem, const ProbeRun& run, int64_t kv_head,
                   const RunParts& run_parts);

  // A row in units in which one mark more or less moves an element by 1 (dQ and dK: by |v - vbar|).
  struct Row {
    std::vector<double> values;  // expected
    double unit = 1;             // actual / unit compares with `values`
    double absolute = 0;         // allowed: absolute + relative * |value|
    double relative = 0;
  };

  // Remembers the last row's intervals, which the next row often shares: one a thread.
  struct Scratch {
    std::vector<Interval> intervals, last_intervals;
    int64_t last_head = -1;
    Tensor last_tensor = Tensor::kQ;
    std::vector<double> sums, other_sums;
  };

  // Of kOut, kLse, kDQ (head: a query head of the kv head's group), kDK or kDV (the kv head).
  void Expect(Tensor tensor, int64_t token, int64_t head, Scratch& scratch, Row* row) const;

 private:
  void ExpectForward(Tensor tensor, int64_t head, Scratch& scratch, Row* row) const;
  void ExpectDQ(int64_t token, int64_t head, Scratch& scratch, Row* row) const;
  void ExpectKeyGradient(Tensor tensor, int64_t key, Scratch& scratch, Row* row) const;
  bool SameIntervals(Tensor tensor, int64_t head, Scratch& scratch) const;
  double MeanSign(std::span<const Interval> keys, int64_t count) const;

  const Problem& problem_;
  const ProbeRun run_;
  const int64_t kv_head_;
  const int64_t mask_group_;

  // Backward, for each marked query head of the group, over rows: running sums along each residue
  // of the period of w * sign (dV), and of w * alternation and w * vbar * alternation (dK).
  std::vector<std::vector<double>> dv_sums_, dk_sums_, dk_mean_sums_;
};

}  // namespace lcab::measurement

#endif  // LCAB_MEASUREMENT_PROBE_PATTERN_H_
