#include "measurement/probe_pattern.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace lcab::measurement {
namespace {

// Offsets keep the marks of heads apart; both are odd and larger than any tile's row of channels
// would repeat.
constexpr int64_t kKvHeadOffset = 17;
constexpr int64_t kQHeadOffset = 29;

bool IsPrime(int64_t n) {
  if (n < 2) return false;
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

// The two largest primes up to `channels`, or 1 where there is none.
std::vector<int64_t> Periods(int64_t channels) {
  std::vector<int64_t> periods;
  for (int64_t p = channels; p >= 2 && periods.size() < 2; --p) {
    if (IsPrime(p)) periods.push_back(p);
  }
  if (periods.empty()) periods.push_back(1);
  return periods;
}

// (-1)^floor(x / p)
double Alternation(int64_t x, int64_t p) { return x / p % 2 == 0 ? 1 : -1; }

// v(x): constant in sign along no channel, and not along a run of neighbours either, so that rows
// of few keys see both signs.
double ValueSign(int64_t x, int64_t p) { return (x / (2 * p) + x % p) % 2 == 0 ? 1 : -1; }

// Numbers t >= 0 with m + t p < x.
int64_t Terms(int64_t x, int64_t m, int64_t p) { return x <= m ? 0 : (x - m - 1) / p + 1; }

// Sum of Alternation over x' < x in residue m.
double AlternationSum(int64_t x, int64_t m, int64_t p) { return Terms(x, m, p) % 2 == 0 ? 0 : 1; }

// Sum of Alternation * ValueSign over x' < x in residue m: signs +, -, -, + (times (-1)^m).
double SignedAlternationSum(int64_t x, int64_t m, int64_t p) {
  constexpr double kSums[4] = {0, 1, 0, -1};
  return kSums[Terms(x, m, p) % 4] * (m % 2 == 0 ? 1 : -1);
}

// Sum of ValueSign over x' < x. Over 2p neighbours it is 0 (p even) or 2 (p odd) with either sign
// in turn, so over 4p it is 0.
double ValueSignSum(int64_t x, int64_t p) {
  double sum = 0;
  const int64_t rest = x % (4 * p);
  for (int64_t half = 0; half < 4; ++half) {
    const int64_t length = std::clamp<int64_t>(rest - half * p, 0, p);
    // p neighbours alternate from +.
    if (length % 2 == 1) sum += half < 2 ? 1 : -1;
  }
  return sum;
}

// The least power of two that is more than count: also one key too many leaves a weight of 1 or
// more.
double PowerAbove(int64_t count) {
  return static_cast<double>(std::bit_ceil(static_cast<uint64_t>(count + 1)));
}

int64_t Count(std::span<const Interval> intervals) {
  int64_t count = 0;
  for (const Interval& interval : intervals) count += interval.size();
  return count;
}

int64_t KeyOffset(int64_t kv_head) { return kKvHeadOffset * kv_head; }
int64_t RowOffset(const Problem& problem, int64_t q_head) {
  const int64_t kv_head = problem.KvHeadOf(q_head);
  return KeyOffset(kv_head) + kQHeadOffset * (q_head - kv_head * problem.heads_per_kv());
}

}  // namespace

std::vector<ProbeRun> ProbeRuns(const Problem& problem, Pass pass) {
  std::vector<ProbeRun> runs;
  if (problem.q_tokens() == 0 && problem.k_tokens() == 0) return runs;
  const std::vector<int64_t> v_periods = Periods(problem.v_head_dim);
  if (pass == Pass::kForward) {
    for (const int64_t period : v_periods) {
      runs.push_back({.pass = pass, .v_period = period});
    }
    return runs;
  }
  const std::vector<int64_t> qk_periods = Periods(std::max<int64_t>(1, problem.qk_head_dim / 2));
  const size_t rounds = std::max(v_periods.size(), qk_periods.size());
  for (size_t round = 0; round < rounds; ++round) {
    for (int64_t head = 0; head < problem.heads_per_kv(); head += kHeadsAtOnce) {
      ProbeRun run = {
          .pass = pass,
          .v_period = v_periods[std::min(round, v_periods.size() - 1)],
          .qk_period = qk_periods[std::min(round, qk_periods.size() - 1)],
          .heads_of_group = {head, std::min(problem.heads_per_kv(), head + kHeadsAtOnce)}};
      if (problem.qk_head_dim >= 2) {
        runs.push_back(run);
        continue;
      }
      run.mark_k = false;
      runs.push_back(run);
      std::swap(run.mark_q, run.mark_k);
      runs.push_back(run);
    }
  }
  return runs;
}

ProbeInputs::ProbeInputs(const Problem& problem, const ProbeRun& run)
    : problem_(problem), run_(run) {}

void ProbeInputs::Row(Tensor tensor, int64_t token, int64_t head, std::span<float> row) const {
  std::fill(row.begin(), row.end(), 0.0F);
  const auto mark = [&](int64_t channel, double value) {
    row[static_cast<size_t>(channel)] = static_cast<float>(value);
  };
  const int64_t half = problem_.qk_head_dim / 2;
  const bool forward = run_.pass == Pass::kForward;
  if (tensor == Tensor::kK) {
    const int64_t x = token + KeyOffset(head);
    if (forward) {
      // Whatever K holds does not matter where Q is 0: a pattern without a mean.
      for (size_t c = 0; c < row.size(); ++c) {
        row[c] = static_cast<float>(Alternation(x + static_cast<int64_t>(c) * 3, 2)) * 0.5F;
      }
    } else if (run_.mark_k) {
      mark(half + x % run_.qk_period, Alternation(x, run_.qk_period));
    }
    return;
  }
  if (tensor == Tensor::kV) {
    const int64_t x = token + KeyOffset(head);
    if (forward) {
      mark(x % run_.v_period, Alternation(x, run_.v_period));
    } else {
      const int64_t period = std::max<int64_t>(1, run_.qk_period);
      std::fill(row.begin(), row.end(), static_cast<float>(ValueSign(x, period)));
    }
    return;
  }
  if (forward) return;  // Q = 0
  const int64_t of_group = head % problem_.heads_per_kv();
  if (!run_.heads_of_group.Contains(of_group)) return;
  const int64_t y = token + RowOffset(problem_, head);
  const double sign = Alternation(y, run_.v_period);
  if (tensor == Tensor::kQ && run_.mark_q) {
    mark(y % run_.qk_period, sign * Alternation(y, run_.qk_period));
  } else if (tensor == Tensor::kDOut) {
    const int64_t count = problem_.mask->RowCount(problem_.MaskGroupOf(head), token);
    mark(y % run_.v_period, sign * PowerAbove(count));
  }
}

ProbeExpectation::ProbeExpectation(const Problem& problem, const ProbeRun& run, int64_t kv_head,
                                   const RunParts& run_parts)
    : problem_(problem), run_(run), kv_head_(kv_head), mask_group_(problem.mask->GroupOf(kv_head)) {
  if (run.pass == Pass::kForward) return;
  const int64_t rows = problem.q_tokens();
  // Weight and mean sign of each row, the same for all heads of the group.
  std::vector<double> weights(static_cast<size_t>(rows)), means(static_cast<size_t>(rows));
  constexpr int64_t kRowsOfPart = 256;
  run_parts((rows + kRowsOfPart - 1) / kRowsOfPart, [&](int64_t part) {
    std::vector<Interval> keys;
    for (int64_t i = part * kRowsOfPart; i < std::min(rows, (part + 1) * kRowsOfPart); ++i) {
      problem_.mask->RowKeys(mask_group_, i, &keys);
      const int64_t count = Count(keys);
      if (count == 0) continue;  // adds nothing
      weights[static_cast<size_t>(i)] = PowerAbove(count) / static_cast<double>(count);
      means[static_cast<size_t>(i)] = MeanSign(keys, count);
    }
  });
  for (int64_t u = run.heads_of_group.begin; u < run.heads_of_group.end; ++u) {
    const int64_t offset = RowOffset(problem, kv_head * problem.heads_per_kv() + u);
    std::vector<double> dv(static_cast<size_t>(rows)), dk(static_cast<size_t>(rows)),
        dk_mean(static_cast<size_t>(rows));
    const auto before = [](const std::vector<double>& sums, int64_t i, int64_t period) {
      return i >= period ? sums[static_cast<size_t>(i - period)] : 0;
    };
    for (int64_t i = 0; i < rows; ++i) {
      const auto n = static_cast<size_t>(i);
      const double w = weights[n];
      dv[n] = before(dv, i, run.v_period) + w * Alternation(i + offset, run.v_period);
      const double alternating = w * Alternation(i + offset, run.qk_period);
      dk[n] = before(dk, i, run.qk_period) + alternating;
      dk_mean[n] = before(dk_mean, i, run.qk_period) + alternating * means[n];
    }
    dv_sums_.push_back(std::move(dv));
    dk_sums_.push_back(std::move(dk));
    dk_mean_sums_.push_back(std::move(dk_mean));
  }
}

double ProbeExpectation::MeanSign(std::span<const Interval> keys, int64_t count) const {
  const int64_t offset = KeyOffset(kv_head_);
  double sum = 0;
  for (const Interval& interval : keys) {
    sum += ValueSignSum(interval.end + offset, run_.qk_period) -
           ValueSignSum(interval.begin + offset, run_.qk_period);
  }
  return sum / static_cast<double>(count);
}

bool ProbeExpectation::SameIntervals(Tensor tensor, int64_t head, Scratch& scratch) const {
  const bool same = scratch.last_tensor == tensor && scratch.last_head == head &&
                    scratch.last_intervals == scratch.intervals;
  scratch.last_tensor = tensor;
  scratch.last_head = head;
  if (!same) scratch.last_intervals = scratch.intervals;
  return same;
}

void ProbeExpectation::Expect(Tensor tensor, int64_t token, int64_t head, Scratch& scratch,
                              Row* row) const {
  if (tensor == Tensor::kDK || tensor == Tensor::kDV) {
    problem_.mask->ColumnRows(mask_group_, token, &scratch.intervals);
    ExpectKeyGradient(tensor, token, scratch, row);
    return;
  }
  problem_.mask->RowKeys(mask_group_, token, &scratch.intervals);
  if (tensor == Tensor::kDQ) {
    ExpectDQ(token, head, scratch, row);
  } else {
    ExpectForward(tensor, head, scratch, row);
  }
}

void ProbeExpectation::ExpectForward(Tensor tensor, int64_t head, Scratch& scratch,
                                     Row* row) const {
  const int64_t count = Count(scratch.intervals);
  if (tensor == Tensor::kLse) {
    const double lse = count == 0 ? -std::numeric_limits<double>::infinity()
                                  : std::log(static_cast<double>(count));
    *row = {.values = {lse}, .absolute = 0x1p-21, .relative = 0x1p-21};
    return;
  }
  const auto dim = static_cast<size_t>(problem_.v_head_dim);
  row->unit = count == 0 ? 1 : 1 / static_cast<double>(count);
  row->absolute = count == 0 ? 0 : 0.25;  // a row without keys is 0, not nearly 0
  row->relative = 0x1p-8;
  if (!SameIntervals(tensor, head, scratch)) {
    scratch.sums.assign(dim, 0);
    const int64_t offset = KeyOffset(kv_head_);
    for (const Interval& interval : scratch.intervals) {
      for (int64_t m = 0; m < run_.v_period; ++m) {
        scratch.sums[static_cast<size_t>(m)] +=
            AlternationSum(interval.end + offset, m, run_.v_period) -
            AlternationSum(interval.begin + offset, m, run_.v_period);
      }
    }
  }
  row->values = scratch.sums;
}

void ProbeExpectation::ExpectDQ(int64_t token, int64_t head, Scratch& scratch, Row* row) const {
  const int64_t count = Count(scratch.intervals);
  const bool marked = run_.heads_of_group.Contains(head % problem_.heads_per_kv());
  row->values.assign(static_cast<size_t>(problem_.qk_head_dim), 0);
  row->relative = 0x1p-8;
  row->absolute = count == 0 || !marked ? 0 : 0.25;
  row->unit = 1;
  if (count == 0 || !marked) return;
  const double weight = PowerAbove(count) / static_cast<double>(count);
  const double sign = Alternation(token + RowOffset(problem_, head), run_.v_period);
  row->unit = problem_.Scale() * weight * sign;
  if (row->unit == 0) row->unit = 1;
  if (!run_.mark_k || problem_.Scale() == 0) return;
  const double mean = MeanSign(scratch.intervals, count);
  const int64_t offset = KeyOffset(kv_head_);
  const int64_t p = run_.qk_period;
  double* values = row->values.data() + problem_.qk_head_dim / 2;
  if (!SameIntervals(Tensor::kDQ, head, scratch)) {
    scratch.sums.assign(static_cast<size_t>(p), 0);
    for (const Interval& interval : scratch.intervals) {
      for (int64_t m = 0; m < p; ++m) {
        const auto difference = [&](auto sum) {
          return sum(interval.end + offset, m, p) - sum(interval.begin + offset, m, p);
        };
        scratch.sums[static_cast<size_t>(m)] +=
            difference(SignedAlternationSum) - mean * difference(AlternationSum);
      }
    }
  }
  std::copy(scratch.sums.begin(), scratch.sums.end(), values);
}

void ProbeExpectation::ExpectKeyGradient(Tensor tensor, int64_t key, Scratch& scratch,
                                         Row* row) const {
  const bool is_dv = tensor == Tensor::kDV;
  const int64_t period = is_dv ? run_.v_period : run_.qk_period;
  const bool nothing = scratch.intervals.empty();
  row->unit = is_dv || problem_.Scale() == 0 ? 1 : problem_.Scale();
  row->absolute = nothing ? 0 : 0.5;
  row->relative = 0x1p-8;
  const int64_t dim = is_dv ? problem_.v_head_dim : problem_.qk_head_dim;
  row->values.assign(static_cast<size_t>(dim), 0);
  if (!is_dv && (!run_.mark_q || problem_.Scale() == 0)) return;

  if (!SameIntervals(tensor, kv_head_, scratch)) {
    scratch.sums.assign(static_cast<size_t>(period), 0);
    scratch.other_sums.assign(static_cast<size_t>(period), 0);
    for (size_t n = 0; n < dv_sums_.size(); ++n) {
      const int64_t head =
          kv_head_ * problem_.heads_per_kv() + run_.heads_of_group.begin + static_cast<int64_t>(n);
      const int64_t offset = RowOffset(problem_, head);
      // The running sum at the last row below `end` in residue m.
      const auto sum_below = [&](const std::vector<double>& sums, int64_t end, int64_t m) {
        if (end <= 0) return 0.0;
        const int64_t i = end - 1 - ((end - 1 + offset - m) % period + period) % period;
        return i < 0 ? 0.0 : sums[static_cast<size_t>(i)];
      };
      const auto add = [&](const std::vector<double>& sums, std::vector<double>& to) {
        for (const Interval& rows : scratch.intervals) {
          for (int64_t m = 0; m < period; ++m) {
            to[static_cast<size_t>(m)] +=
                sum_below(sums, rows.end, m) - sum_below(sums, rows.begin, m);
          }
        }
      };
      if (is_dv) {
        add(dv_sums_[n], scratch.sums);
      } else {
        add(dk_sums_[n], scratch.sums);
        add(dk_mean_sums_[n], scratch.other_sums);
      }
    }
  }
  const double sign = ValueSign(key + KeyOffset(kv_head_), std::max<int64_t>(1, run_.qk_period));
  for (size_t m = 0; m < static_cast<size_t>(period); ++m) {
    row->values[m] = is_dv ? scratch.sums[m] : sign * scratch.sums[m] - scratch.other_sums[m];
  }
}

}  // namespace lcab::measurement
