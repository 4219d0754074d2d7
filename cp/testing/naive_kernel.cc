#include "cp/testing/naive_kernel.h"

#include <cmath>
#include <limits>
#include <vector>

namespace lcab::cp {
namespace {

double Get(const TensorView& view, int64_t token, int64_t head, int64_t d) {
  return view.dtype == DType::kFloat32
             ? static_cast<double>(view.Row<float>(token, head)[d])
             : static_cast<double>(ToFloat(view.Row<BFloat16>(token, head)[d]));
}

void Set(const TensorView& view, int64_t token, int64_t head, const std::vector<double>& values) {
  for (int64_t d = 0; d < view.dim; ++d) {
    const auto value = static_cast<float>(values[static_cast<size_t>(d)]);
    if (view.dtype == DType::kFloat32) {
      view.Row<float>(token, head)[d] = value;
    } else {
      view.Row<BFloat16>(token, head)[d] = ToBFloat16(value);
    }
  }
}

double Dot(const TensorView& a, int64_t a_token, int64_t a_head, const TensorView& b,
           int64_t b_token, int64_t b_head) {
  double sum = 0;
  for (int64_t d = 0; d < a.dim; ++d)
    sum += Get(a, a_token, a_head, d) * Get(b, b_token, b_head, d);
  return sum;
}

void Accumulate(std::vector<double>& sum, double weight, const TensorView& view, int64_t token,
                int64_t head) {
  for (int64_t d = 0; d < view.dim; ++d) {
    sum[static_cast<size_t>(d)] += weight * Get(view, token, head, d);
  }
}

class Prepared : public PreparedKernel {
 public:
  Prepared(const Problem& problem, Traits traits) : problem_(problem), traits_(traits) {}

  absl::Status Forward(const ForwardTensors& t, Stream& stream) override {
    return stream.Enqueue([this, t] {
      for (int64_t head = 0; head < problem_.q_heads; ++head) {
        for (int64_t row = 0; row < problem_.q_tokens(); ++row) ForwardRow(t, head, row);
      }
      return absl::OkStatus();
    });
  }

  absl::Status Backward(const BackwardTensors& t, Stream& stream) override {
    return stream.Enqueue([this, t] {
      for (int64_t head = 0; head < problem_.q_heads; ++head) {
        for (int64_t row = 0; row < problem_.q_tokens(); ++row) QueryGradient(t, head, row);
      }
      for (int64_t head = 0; head < problem_.kv_heads; ++head) {
        for (int64_t key = 0; key < problem_.k_tokens(); ++key) KeyGradients(t, head, key);
      }
      return absl::OkStatus();
    });
  }

 private:
  bool Allows(int64_t q_head, int64_t row, int64_t key) const {
    return problem_.mask->Allows(problem_.MaskGroupOf(q_head), row, key);
  }
  double Logit(const TensorView& q, const TensorView& k, int64_t head, int64_t row,
               int64_t key) const {
    const double x = problem_.Scale() * Dot(q, row, head, k, key, problem_.KvHeadOf(head));
    return problem_.Softcap() == 0 ? x : problem_.Softcap() * std::tanh(x / problem_.Softcap());
  }

  void ForwardRow(const ForwardTensors& t, int64_t head, int64_t row) const {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t key = 0; key < problem_.k_tokens(); ++key) {
      if (Allows(head, row, key)) top = std::max(top, Logit(t.q, t.k, head, row, key));
    }
    std::vector<double> out(static_cast<size_t>(problem_.v_head_dim));
    for (int64_t key = 0; key < problem_.k_tokens(); ++key) {
      if (!Allows(head, row, key)) continue;
      const double weight = std::exp(Logit(t.q, t.k, head, row, key) - top);
      sum += weight;
      Accumulate(out, weight, t.v, key, problem_.KvHeadOf(head));
    }
    for (double& x : out) x = sum == 0 ? 0 : x / sum;
    Set(t.out, row, head, out);
    *t.lse.At(head, row) = static_cast<float>(sum == 0 ? top : top + std::log(sum));
  }

  // P and dS of one pair.
  struct Pair {
    double p, ds;
  };
  Pair At(const BackwardTensors& t, int64_t head, int64_t row, int64_t key) const {
    const int64_t kv_head = problem_.KvHeadOf(head);
    const double logit = Logit(t.q, t.k, head, row, key);
    const double p = std::exp(logit - static_cast<double>(*t.lse.At(head, row)));
    const double delta = traits_.wants_delta ? static_cast<double>(*t.delta.At(head, row))
                                             : Dot(t.out, row, head, t.dout, row, head);
    double ds = p * (Dot(t.dout, row, head, t.v, key, kv_head) - delta) * problem_.Scale();
    if (problem_.Softcap() != 0) {
      const double capped = logit / problem_.Softcap();
      ds *= 1 - capped * capped;
    }
    return {p, ds};
  }

  void QueryGradient(const BackwardTensors& t, int64_t head, int64_t row) const {
    std::vector<double> dq(static_cast<size_t>(problem_.qk_head_dim));
    for (int64_t key = 0; key < problem_.k_tokens(); ++key) {
      if (!Allows(head, row, key)) continue;
      Accumulate(dq, At(t, head, row, key).ds, t.k, key, problem_.KvHeadOf(head));
    }
    Set(t.dq, row, head, dq);
  }

  void KeyGradients(const BackwardTensors& t, int64_t kv_head, int64_t key) const {
    std::vector<double> dk(static_cast<size_t>(problem_.qk_head_dim));
    std::vector<double> dv(static_cast<size_t>(problem_.v_head_dim));
    const int64_t first = kv_head * problem_.heads_per_kv();
    for (int64_t head = first; head < first + problem_.heads_per_kv(); ++head) {
      for (int64_t row = 0; row < problem_.q_tokens(); ++row) {
        if (!Allows(head, row, key)) continue;
        const Pair pair = At(t, head, row, key);
        Accumulate(dk, pair.ds, t.q, row, head);
        Accumulate(dv, pair.p, t.dout, row, head);
      }
    }
    Set(t.dk, key, kv_head, dk);
    Set(t.dv, key, kv_head, dv);
  }

  const Problem problem_;
  const Traits traits_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreparedKernel>> NaiveKernel::Prepare(const Problem& problem, Pass,
                                                                     const Options&,
                                                                     Device&) const {
  return std::make_unique<Prepared>(problem, traits_);
}

}  // namespace lcab::cp
