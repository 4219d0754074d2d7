// cpu_reference: the definition of attention written down in fp64, one pair of query and key at a
// time. Slow; made to be read and believed.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "kernels/registry.h"
#include "kernels/tensor_check.h"

namespace lcab {
namespace {

constexpr Traits kTraits = {.wants_delta = true,
                            .float32_out = true,
                            .float32_gradients = true,
                            .accumulates = true,
                            .deterministic = true};

double Read(const TensorView& tensor, int64_t token, int64_t head, int64_t channel) {
  return tensor.dtype == DType::kFloat32 ? tensor.Row<float>(token, head)[channel]
                                         : ToFloat(tensor.Row<BFloat16>(token, head)[channel]);
}

void Write(const TensorView& tensor, int64_t token, int64_t head, int64_t channel, double value,
           bool accumulate = false) {
  if (tensor.dtype == DType::kFloat32) {
    float& element = tensor.Row<float>(token, head)[channel];
    element = static_cast<float>(accumulate ? element + value : value);
  } else {
    tensor.Row<BFloat16>(token, head)[channel] = ToBFloat16(static_cast<float>(value));
  }
}

double Dot(const TensorView& a, int64_t a_token, int64_t a_head, const TensorView& b,
           int64_t b_token, int64_t b_head) {
  double sum = 0;
  for (int64_t channel = 0; channel < a.dim; ++channel) {
    sum += Read(a, a_token, a_head, channel) * Read(b, b_token, b_head, channel);
  }
  return sum;
}

class PreparedReference : public PreparedKernel {
 public:
  PreparedReference(const Problem& problem, Workers& workers)
      : problem_(problem), workers_(workers), threads_(static_cast<size_t>(workers.threads())) {}

  absl::Status Forward(const ForwardTensors& tensors, Stream& stream) override {
    if (absl::Status status = CheckTensors(problem_, kTraits, tensors); !status.ok()) return status;
    return stream.Enqueue([this, tensors] {
      workers_.Run(problem_.q_heads * problem_.q_tokens(), [&](int64_t part, int thread) {
        ForwardRow(tensors, part / problem_.q_tokens(), part % problem_.q_tokens(),
                   threads_[static_cast<size_t>(thread)]);
      });
      return absl::OkStatus();
    });
  }

  absl::Status Backward(const BackwardTensors& tensors, Stream& stream) override {
    if (absl::Status status = CheckTensors(problem_, kTraits, tensors); !status.ok()) return status;
    return stream.Enqueue([this, tensors] {
      workers_.Run(problem_.q_heads * problem_.q_tokens(), [&](int64_t part, int thread) {
        BackwardRow(tensors, part / problem_.q_tokens(), part % problem_.q_tokens(),
                    threads_[static_cast<size_t>(thread)]);
      });
      workers_.Run(problem_.kv_heads * problem_.k_tokens(), [&](int64_t part, int thread) {
        BackwardKey(tensors, part / problem_.k_tokens(), part % problem_.k_tokens(),
                    threads_[static_cast<size_t>(thread)]);
      });
      return absl::OkStatus();
    });
  }

 private:
  struct ThreadState {
    std::vector<Interval> intervals;
    std::vector<double> sums, more_sums;
  };
  struct Score {
    double value = 0;  // after scale and softcap
    double slope = 0;  // d value / d (q . k)
  };

  Score ScoreOf(const TensorView& q, const TensorView& k, int64_t q_head, int64_t row,
                int64_t key) const {
    const double x = problem_.Scale() * Dot(q, row, q_head, k, key, problem_.KvHeadOf(q_head));
    const double softcap = problem_.Softcap();
    if (softcap == 0) return {x, problem_.Scale()};
    const double tanh = std::tanh(x / softcap);
    return {softcap * tanh, problem_.Scale() * (1 - tanh * tanh)};
  }

  void ForwardRow(const ForwardTensors& tensors, int64_t q_head, int64_t row,
                  ThreadState& state) const {
    const int64_t kv_head = problem_.KvHeadOf(q_head);
    problem_.mask->RowKeys(problem_.MaskGroupOf(q_head), row, &state.intervals);
    double maximum = -std::numeric_limits<double>::infinity();
    for (const Interval& keys : state.intervals) {
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        maximum = std::max(maximum, ScoreOf(tensors.q, tensors.k, q_head, row, key).value);
      }
    }
    // Scores of -inf alone weigh nothing: the row is as one without keys.
    const bool no_key = maximum == -std::numeric_limits<double>::infinity();
    double weights = 0;
    state.sums.assign(static_cast<size_t>(problem_.v_head_dim), 0);
    for (const Interval& keys : state.intervals) {
      for (int64_t key = keys.begin; key < keys.end && !no_key; ++key) {
        const double weight =
            std::exp(ScoreOf(tensors.q, tensors.k, q_head, row, key).value - maximum);
        weights += weight;
        for (int64_t channel = 0; channel < problem_.v_head_dim; ++channel) {
          state.sums[static_cast<size_t>(channel)] +=
              weight * Read(tensors.v, key, kv_head, channel);
        }
      }
    }
    for (int64_t channel = 0; channel < problem_.v_head_dim; ++channel) {
      Write(tensors.out, row, q_head, channel,
            no_key ? 0 : state.sums[static_cast<size_t>(channel)] / weights);
    }
    *tensors.lse.At(q_head, row) =
        static_cast<float>(no_key ? maximum : maximum + std::log(weights));
  }

  // P and dS / d (q . k) of a pair that the mask allows.
  std::pair<double, double> Gradients(const BackwardTensors& tensors, int64_t q_head, int64_t row,
                                      int64_t key) const {
    const double lse = *tensors.lse.At(q_head, row);
    if (lse == -std::numeric_limits<double>::infinity()) return {0, 0};
    const Score score = ScoreOf(tensors.q, tensors.k, q_head, row, key);
    const double p = std::exp(score.value - lse);
    const double dp = Dot(tensors.dout, row, q_head, tensors.v, key, problem_.KvHeadOf(q_head));
    return {p, p * (dp - *tensors.delta.At(q_head, row)) * score.slope};
  }

  void BackwardRow(const BackwardTensors& tensors, int64_t q_head, int64_t row,
                   ThreadState& state) const {
    const int64_t kv_head = problem_.KvHeadOf(q_head);
    problem_.mask->RowKeys(problem_.MaskGroupOf(q_head), row, &state.intervals);
    state.sums.assign(static_cast<size_t>(problem_.qk_head_dim), 0);
    for (const Interval& keys : state.intervals) {
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        const double ds = Gradients(tensors, q_head, row, key).second;
        for (int64_t channel = 0; channel < problem_.qk_head_dim; ++channel) {
          state.sums[static_cast<size_t>(channel)] += ds * Read(tensors.k, key, kv_head, channel);
        }
      }
    }
    for (int64_t channel = 0; channel < problem_.qk_head_dim; ++channel) {
      Write(tensors.dq, row, q_head, channel, state.sums[static_cast<size_t>(channel)],
            tensors.accumulate);
    }
  }

  void BackwardKey(const BackwardTensors& tensors, int64_t kv_head, int64_t key,
                   ThreadState& state) const {
    problem_.mask->ColumnRows(problem_.mask->GroupOf(kv_head), key, &state.intervals);
    state.sums.assign(static_cast<size_t>(problem_.qk_head_dim), 0);
    state.more_sums.assign(static_cast<size_t>(problem_.v_head_dim), 0);
    const int64_t first_head = kv_head * problem_.heads_per_kv();
    for (int64_t q_head = first_head; q_head < first_head + problem_.heads_per_kv(); ++q_head) {
      for (const Interval& rows : state.intervals) {
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          const auto [p, ds] = Gradients(tensors, q_head, row, key);
          for (int64_t channel = 0; channel < problem_.qk_head_dim; ++channel) {
            state.sums[static_cast<size_t>(channel)] += ds * Read(tensors.q, row, q_head, channel);
          }
          for (int64_t channel = 0; channel < problem_.v_head_dim; ++channel) {
            state.more_sums[static_cast<size_t>(channel)] +=
                p * Read(tensors.dout, row, q_head, channel);
          }
        }
      }
    }
    for (int64_t channel = 0; channel < problem_.qk_head_dim; ++channel) {
      Write(tensors.dk, key, kv_head, channel, state.sums[static_cast<size_t>(channel)],
            tensors.accumulate);
    }
    for (int64_t channel = 0; channel < problem_.v_head_dim; ++channel) {
      Write(tensors.dv, key, kv_head, channel, state.more_sums[static_cast<size_t>(channel)],
            tensors.accumulate);
    }
  }

  const Problem problem_;
  Workers& workers_;
  std::vector<ThreadState> threads_;
};

class ReferenceKernel : public Kernel {
 public:
  std::string name() const override { return "cpu_reference"; }
  std::string description() const override {
    return "the definition in fp64, pair by pair; slow, to check others by";
  }
  DeviceKind device_kind() const override { return DeviceKind::kCpu; }

  absl::Status Supports(const Problem& problem, Pass /*pass*/, const Options& /*options*/,
                        const DeviceInfo& device) const override {
    if (device.kind != DeviceKind::kCpu) {
      return absl::UnimplementedError("cpu_reference runs on CPUs only");
    }
    if (!std::holds_alternative<Softmax>(problem.op)) {
      return absl::UnimplementedError("cpu_reference computes softmax attention only");
    }
    return absl::OkStatus();
  }
  Traits GetTraits(const Options& /*options*/) const override { return kTraits; }

  absl::StatusOr<Requirements> GetRequirements(const Problem& problem, Pass pass,
                                               const Options& options,
                                               const DeviceInfo& device) const override {
    if (absl::Status status = Check(problem, pass, options, device); !status.ok()) return status;
    return Requirements{};
  }
  absl::StatusOr<std::unique_ptr<PreparedKernel>> Prepare(const Problem& problem, Pass pass,
                                                          const Options& options,
                                                          Device& device) const override {
    if (absl::Status status = Check(problem, pass, options, device.info()); !status.ok()) {
      return status;
    }
    return std::unique_ptr<PreparedKernel>(
        std::make_unique<PreparedReference>(problem, *device.workers()));
  }

 private:
  absl::Status Check(const Problem& problem, Pass pass, const Options& options,
                     const DeviceInfo& device) const {
    if (absl::Status status = Validate(problem); !status.ok()) return status;
    return Supports(problem, pass, options, device);
  }
};

}  // namespace

void Register_cpu_reference(KernelRegistry& registry) {
  registry.AddBuiltin(std::make_unique<ReferenceKernel>());
}

}  // namespace lcab
