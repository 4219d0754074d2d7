#include "suites/expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "attention/problem.h"
#include "suites/conversion.h"
#include "suites/support.h"
#include "suites/trial_key.h"

namespace lcab::suites {
namespace {

constexpr size_t kMostKeyBytes = size_t{32} << 20;

// The product of counts, no larger than kMostTrials + 1.
int64_t Product(std::initializer_list<size_t> counts) {
  int64_t product = 1;
  for (const size_t count : counts) {
    if (count == 0) return 0;
    const auto factor = static_cast<int64_t>(std::min<size_t>(count, kMostTrials + 1));
    product = std::min(product * factor, kMostTrials + 1);
  }
  return product;
}

int64_t TrialsOf(const Matrix& matrix) {
  int64_t draws = 0;
  for (const auto& mask : matrix.masks) draws = std::min(draws + mask.value.draws, kMostTrials + 1);
  return Product({static_cast<size_t>(draws), matrix.shapes.size(), matrix.operators.size(),
                  matrix.lengths.size(), matrix.kernels.size(), matrix.passes.size(),
                  matrix.strategies.size(), matrix.ranks.size(), matrix.ranks_per_device.size(),
                  matrix.overlaps.size(), matrix.measures.size()});
}

// The masks of a matrix, each draw apart.
struct DrawnMask {
  const Located<Choice>* mask = nullptr;
  int64_t draw = 0;
};

std::vector<DrawnMask> DrawnMasks(const Matrix& matrix) {
  std::vector<DrawnMask> drawn;
  for (const Located<Choice>& mask : matrix.masks) {
    const int64_t first = mask.value.first_draw;
    for (int64_t n = 0; n < mask.value.draws; ++n) drawn.push_back({&mask, first + n});
  }
  return drawn;
}

class Expander {
 public:
  Expander(const Suite& suite, const Catalogue& catalogue)
      : suite_(suite), catalogue_(catalogue), diagnostics_(suite.file_name) {}

  absl::StatusOr<Expansion> Run() {
    for (const Matrix& matrix : suite_.matrices) ExpandMatrix(matrix);
    if (!diagnostics_.empty()) return diagnostics_.ToStatus();
    return std::move(expansion_);
  }

 private:
  // What the loops over the axes have fixed so far.
  struct Point {
    const Matrix* matrix = nullptr;
    const Shape* shape = nullptr;
    const Softmax* softmax = nullptr;
    const Length* length = nullptr;
    DrawnMask mask;
    int32_t ranks = 1;
    int32_t ranks_per_device = 1;
  };

  void ExpandMatrix(const Matrix& matrix) {
    Point point{.matrix = &matrix};
    for (const auto& shape : matrix.shapes) {
      point.shape = &shape.value;
      for (const auto& softmax : matrix.operators) {
        point.softmax = &softmax.value;
        for (const auto& length : matrix.lengths) {
          point.length = &length.value;
          for (const DrawnMask& mask : DrawnMasks(matrix)) {
            point.mask = mask;
            ExpandGangs(point, length.where);
          }
        }
      }
    }
  }

  void ExpandGangs(Point point, Location length) {
    for (const auto& ranks : point.matrix->ranks) {
      point.ranks = ranks.value;
      const std::optional<v1::Problem> problem = ProblemAt(point, length);
      if (!problem.has_value() || !Make(*problem, point)) continue;
      for (const auto& ranks_per_device : point.matrix->ranks_per_device) {
        point.ranks_per_device = ranks_per_device.value;
        for (const auto& measure : point.matrix->measures) {
          for (const auto& pass : point.matrix->passes) {
            ExpandContenders(point, *problem, pass.value, measure.value);
          }
        }
      }
    }
  }

  // Nothing, with a finding, where the tokens of all ranks are more than a problem may have.
  std::optional<v1::Problem> ProblemAt(const Point& point, Location where) {
    const int64_t factor = point.length->per_rank ? point.ranks : 1;
    if (point.length->q_tokens > kMostTokens / factor) {
      diagnostics_.Add(where,
                       fmt::format("{} tokens on each of {} ranks are more than {}, the most "
                                   "that a problem may have",
                                   point.length->q_tokens, factor, kMostTokens));
      return std::nullopt;
    }
    v1::Problem problem;
    v1::SoftmaxOperator& softmax = *problem.mutable_softmax();
    if (point.softmax->scale.has_value()) softmax.set_scale(*point.softmax->scale);
    softmax.set_softcap(point.softmax->softcap);
    problem.set_q_heads(point.shape->q_heads);
    problem.set_kv_heads(point.shape->kv_heads);
    problem.set_qk_head_dim(point.shape->qk_head_dim);
    problem.set_v_head_dim(point.shape->v_head_dim);
    problem.set_dtype(ToProto(point.shape->dtype));
    const Choice& mask = point.mask.mask->value;
    *problem.mutable_mask() = MakeComponent(mask.name, mask.options);
    problem.set_q_tokens(point.length->q_tokens * factor);
    problem.set_k_tokens(point.length->k_tokens * factor);
    problem.set_seed(suite_.seed);
    problem.set_draw(point.mask.draw);
    return problem;
  }

  // Makes `problem`, unless it is the one made last; false, with a finding, where that fails. Ranks
  // are the inner loop, so that a problem is made once.
  bool Make(const v1::Problem& problem, const Point& point) {
    std::string key = ProblemKey(problem);
    if (key == problem_key_) return problem_.has_value();
    problem_key_ = std::move(key);
    problem_.reset();
    absl::StatusOr<Problem> made = MakeProblem(problem);
    if (made.ok()) {
      problem_ = *std::move(made);
      return true;
    }
    diagnostics_.Add(point.mask.mask->where,
                     fmt::format("with {} query and {} key tokens: {}", problem.q_tokens(),
                                 problem.k_tokens(), std::string(made.status().message())));
    return false;
  }

  void ExpandContenders(const Point& point, const v1::Problem& problem, Pass pass,
                        const v1::Measure& measure) {
    // Long lists as parameters stand in every trial that has them.
    if (key_bytes_ > kMostKeyBytes) {
      return diagnostics_.Add(point.matrix->where,
                              fmt::format("the parameters of all trials take more than {} bytes as "
                                          "text; shorten the lists among them, or split the suite",
                                          kMostKeyBytes));
    }
    for (const auto& strategy : point.matrix->strategies) {
      for (const auto& overlap : point.matrix->overlaps) {
        for (const auto& kernel : point.matrix->kernels) {
          v1::TrialSpec trial;
          *trial.mutable_problem() = problem;
          trial.set_pass(ToProto(pass));
          *trial.mutable_kernel() = MakeComponent(kernel.value.name, kernel.value.options);
          *trial.mutable_strategy() = MakeComponent(strategy.value.name, strategy.value.options);
          trial.set_ranks(point.ranks);
          trial.set_ranks_per_device(point.ranks_per_device);
          trial.set_overlap(overlap.value);
          *trial.mutable_measure() = measure;
          trial.set_key(TrialKey(trial));
          const Contender contender{.pass = pass,
                                    .kernel = catalogue_.FindKernel(kernel.value.name),
                                    .kernel_options = kernel.value.options,
                                    .strategy = catalogue_.FindStrategy(strategy.value.name),
                                    .strategy_options = strategy.value.options,
                                    .ranks = point.ranks,
                                    .ranks_per_device = point.ranks_per_device,
                                    .overlap = overlap.value};
          trial.set_unsupported_reason(WhyUnsupported(*problem_, contender));
          AddTrial(std::move(trial), contender.kernel->device_kind);
        }
        if (point.ranks == 1) break;  // nothing to overlap with: other values are the same trial
      }
    }
  }

  void AddTrial(v1::TrialSpec trial, std::string_view device_kind) {
    key_bytes_ += trial.key().size();
    const std::string key = fmt::format(
        "{} {} {}/{} {} {}", ProblemKey(trial.problem()), static_cast<int>(trial.pass()),
        trial.ranks(), trial.ranks_per_device(), device_kind, trial.measure().SerializeAsString());
    const auto [place, is_new] = cohorts_.emplace(key, expansion_.cohorts.size());
    if (is_new) {
      v1::CohortSpec& cohort = expansion_.cohorts.emplace_back();
      cohort.set_ranks(trial.ranks());
      cohort.set_ranks_per_device(trial.ranks_per_device());
    }
    *expansion_.cohorts[place->second].add_trials() = std::move(trial);
    ++expansion_.trials;
  }

  const Suite& suite_;
  const Catalogue& catalogue_;
  Diagnostics diagnostics_;
  Expansion expansion_;
  size_t key_bytes_ = 0;                   // of the trials so far
  std::map<std::string, size_t> cohorts_;  // by what their trials share
  std::string problem_key_;                // of the problem made last
  std::optional<Problem> problem_;         // empty: it could not be made
};

}  // namespace

absl::StatusOr<Expansion> Expand(const Suite& suite, const Catalogue& catalogue) {
  int64_t trials = 0;
  for (const Matrix& matrix : suite.matrices) {
    trials += TrialsOf(matrix);
    if (trials > kMostTrials) {
      Diagnostics diagnostics(suite.file_name);
      diagnostics.Add(matrix.where,
                      fmt::format("with this matrix the suite has more than {} trials; split it "
                                  "into several suites",
                                  kMostTrials));
      return diagnostics.ToStatus();
    }
  }
  return Expander(suite, catalogue).Run();
}

}  // namespace lcab::suites
