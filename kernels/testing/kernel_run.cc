#include "kernels/testing/kernel_run.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "attention/reference.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"

namespace lcab {
namespace {

constexpr double kCancelled = 3e-5;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A tensor in device memory with its rows `padding` elements further apart than need be.
class DeviceTensor {
 public:
  DeviceTensor(Device& device, DType dtype, const Problem::Extent& extent, int64_t padding) {
    view_ = {nullptr, dtype, extent.tokens, extent.heads, extent.dim, 0, extent.dim + padding};
    view_.token_stride = extent.heads * view_.head_stride + padding;
    const int64_t bytes = std::max<int64_t>(1, extent.tokens * view_.token_stride) * SizeOf(dtype);
    memory_ = device.Allocate(bytes).value();
    view_.data = memory_.data();
    std::memset(memory_.data(), 0xFF, static_cast<size_t>(bytes));  // NaN in every dtype
  }

  const TensorView& view() const { return view_; }

  void Set(const std::vector<float>& values) {
    ForEach([&](int64_t index, int64_t token, int64_t head, int64_t channel) {
      const float value = values[static_cast<size_t>(index)];
      if (view_.dtype == DType::kFloat32) {
        view_.Row<float>(token, head)[channel] = value;
      } else {
        view_.Row<BFloat16>(token, head)[channel] = ToBFloat16(value);
      }
    });
  }
  void SetAll(float value) {
    Set(std::vector<float>(static_cast<size_t>(view_.tokens * view_.heads * view_.dim), value));
  }

  std::vector<float> Get() const {
    std::vector<float> values(static_cast<size_t>(view_.tokens * view_.heads * view_.dim));
    ForEach([&](int64_t index, int64_t token, int64_t head, int64_t channel) {
      values[static_cast<size_t>(index)] = view_.dtype == DType::kFloat32
                                               ? view_.Row<float>(token, head)[channel]
                                               : ToFloat(view_.Row<BFloat16>(token, head)[channel]);
    });
    return values;
  }

  std::vector<std::byte> Bytes() const {
    return {memory_.data(), memory_.data() + memory_.bytes()};
  }

  // Bytes between rows still are what the constructor wrote.
  bool PaddingIsUntouched() const {
    std::vector<uint8_t> is_row(static_cast<size_t>(memory_.bytes()), 0);
    for (int64_t token = 0; token < view_.tokens; ++token) {
      for (int64_t head = 0; head < view_.heads; ++head) {
        const auto begin = view_.At(token, head) - view_.data;
        std::fill_n(is_row.begin() + begin, view_.dim * SizeOf(view_.dtype), 1);
      }
    }
    if (view_.tokens == 0) return true;
    for (size_t i = 0; i < is_row.size(); ++i) {
      if (is_row[i] == 0 && memory_.data()[i] != std::byte{0xFF}) return false;
    }
    return true;
  }

 private:
  template <typename Body>
  void ForEach(const Body& body) const {
    int64_t index = 0;
    for (int64_t token = 0; token < view_.tokens; ++token) {
      for (int64_t head = 0; head < view_.heads; ++head) {
        for (int64_t channel = 0; channel < view_.dim; ++channel, ++index) {
          body(index, token, head, channel);
        }
      }
    }
  }

  Memory memory_;
  TensorView view_;
};

std::vector<float> RandomTensor(const Problem& problem, Tensor tensor, uint64_t seed) {
  const Problem::Extent extent = problem.ExtentOf(tensor);
  std::vector<float> values(static_cast<size_t>(extent.tokens * extent.heads * extent.dim));
  std::mt19937_64 generator(seed * 16 + static_cast<uint64_t>(tensor));
  std::normal_distribution<float> normal;
  for (float& value : values) {
    value = normal(generator);
    if (problem.dtype == DType::kBFloat16) value = ToFloat(ToBFloat16(value));
  }
  return values;
}

// sum over channels of dOut * out, [q_heads, q_tokens].
std::vector<float> DeltaOf(const Problem& problem, const std::vector<float>& dout,
                           const std::vector<float>& out) {
  std::vector<float> delta(static_cast<size_t>(problem.q_heads * problem.q_tokens()));
  for (int64_t token = 0; token < problem.q_tokens(); ++token) {
    for (int64_t head = 0; head < problem.q_heads; ++head) {
      double sum = 0;
      const int64_t row = (token * problem.q_heads + head) * problem.v_head_dim;
      for (int64_t channel = 0; channel < problem.v_head_dim; ++channel) {
        const auto place = static_cast<size_t>(row + channel);
        sum += static_cast<double>(dout[place]) * out[place];
      }
      delta[static_cast<size_t>(head * problem.q_tokens() + token)] = static_cast<float>(sum);
    }
  }
  return delta;
}

void ExpectRowsNear(const std::vector<float>& actual, const std::vector<float>& expected,
                    int64_t dim, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const auto rows = static_cast<int64_t>(expected.size()) / dim;
  double squares = 0;
  for (const float value : expected) squares += static_cast<double>(value) * value;
  const double typical = rows > 0 ? std::sqrt(squares / static_cast<double>(rows)) : 0;
  int failures = 0;
  for (int64_t row = 0; row < rows && failures < 3; ++row) {
    double error = 0, norm = 0;
    for (int64_t i = row * dim; i < (row + 1) * dim; ++i) {
      const double want = expected[static_cast<size_t>(i)];
      const double difference = actual[static_cast<size_t>(i)] - want;
      error += difference * difference;
      norm += want * want;
    }
    // In this order NaN fails, too.
    if (!(std::sqrt(error) <= tolerance * std::max(std::sqrt(norm), typical) + kCancelled)) {
      ADD_FAILURE() << fmt::format(
          "{}: row {} (token * heads + head) is off by {} (its norm is {}, typical is {})", what,
          row, std::sqrt(error), std::sqrt(norm), typical);
      ++failures;
    }
  }
}

}  // namespace

KernelInputs KernelInputs::Random(const Problem& problem, uint64_t seed) {
  return {.q = RandomTensor(problem, Tensor::kQ, seed),
          .k = RandomTensor(problem, Tensor::kK, seed),
          .v = RandomTensor(problem, Tensor::kV, seed),
          .dout = RandomTensor(problem, Tensor::kDOut, seed)};
}

KernelOutputs RunKernel(const Kernel& kernel, const Problem& problem, const KernelInputs& inputs,
                        Device& device, const KernelRunOptions& options) {
  const auto make = [&](Tensor role, DType dtype) {
    return DeviceTensor(device, dtype, problem.ExtentOf(role), options.padding);
  };
  const DType output_dtype = options.output_dtype.value_or(problem.dtype);
  DeviceTensor q = make(Tensor::kQ, problem.dtype), k = make(Tensor::kK, problem.dtype),
               v = make(Tensor::kV, problem.dtype), dout = make(Tensor::kDOut, problem.dtype);
  DeviceTensor out = make(Tensor::kOut, output_dtype), dq = make(Tensor::kDQ, output_dtype),
               dk = make(Tensor::kDK, output_dtype), dv = make(Tensor::kDV, output_dtype);
  q.Set(inputs.q);
  k.Set(inputs.k);
  v.Set(inputs.v);
  dout.Set(inputs.dout);
  const std::vector<std::byte> q_bytes = q.Bytes(), k_bytes = k.Bytes(), v_bytes = v.Bytes(),
                               dout_bytes = dout.Bytes();

  KernelOutputs outputs;
  outputs.lse.assign(static_cast<size_t>(problem.q_heads * problem.q_tokens()), kNan);
  const auto stat_view = [&](std::vector<float>& values) {
    return RowStatView{values.data(), problem.q_heads, problem.q_tokens(), problem.q_tokens(), 1};
  };
  const auto synchronise = [&] {
    return device.stream().Synchronize(absl::Now() + absl::Minutes(5));
  };

  absl::StatusOr<std::unique_ptr<PreparedKernel>> forward =
      kernel.Prepare(problem, Pass::kForward, options.kernel_options, device);
  if (!forward.ok()) {
    ADD_FAILURE() << kernel.name() << ": " << forward.status();
    return outputs;
  }
  absl::Status status = (*forward)->Forward(
      {q.view(), k.view(), v.view(), out.view(), stat_view(outputs.lse)}, device.stream());
  if (status.ok()) status = synchronise();
  EXPECT_TRUE(status.ok()) << kernel.name() << ": " << status;
  outputs.out = out.Get();

  if (options.backward) {
    const KernelOutputs& given = options.forward != nullptr ? *options.forward : outputs;
    std::vector<float> lse = given.lse;
    std::vector<float> delta = DeltaOf(problem, inputs.dout, given.out);
    if (options.forward != nullptr) out.Set(given.out);
    // What the kernel does not ask for is not there.
    const bool wants_delta = kernel.GetTraits(options.kernel_options).wants_delta;
    const TensorView given_out = wants_delta ? TensorView() : out.view();
    const RowStatView given_delta = wants_delta ? stat_view(delta) : RowStatView();
    if (options.accumulate_on) {
      for (DeviceTensor* gradient : {&dq, &dk, &dv}) gradient->SetAll(*options.accumulate_on);
    }
    absl::StatusOr<std::unique_ptr<PreparedKernel>> backward =
        kernel.Prepare(problem, Pass::kBackward, options.kernel_options, device);
    if (!backward.ok()) {
      ADD_FAILURE() << kernel.name() << ": " << backward.status();
      return outputs;
    }
    status = (*backward)->Backward(
        {q.view(), k.view(), v.view(), dout.view(), given_out, stat_view(lse), given_delta,
         dq.view(), dk.view(), dv.view(), options.accumulate_on.has_value()},
        device.stream());
    if (status.ok()) status = synchronise();
    EXPECT_TRUE(status.ok()) << kernel.name() << ": " << status;
    outputs.dq = dq.Get();
    outputs.dk = dk.Get();
    outputs.dv = dv.Get();
  }
  EXPECT_TRUE(q.Bytes() == q_bytes && k.Bytes() == k_bytes && v.Bytes() == v_bytes &&
              dout.Bytes() == dout_bytes)
      << kernel.name() << " changed its inputs";
  for (const DeviceTensor* tensor : {&out, &dq, &dk, &dv}) {
    EXPECT_TRUE(tensor->PaddingIsUntouched()) << kernel.name() << " wrote between rows";
  }
  return outputs;
}

KernelOutputs ReferenceOutputs(const Problem& problem, const KernelInputs& inputs, bool backward) {
  Reference reference(problem, {inputs.q, inputs.k, inputs.v, inputs.dout, {}}, Precision::kExact);
  KernelOutputs outputs;
  const auto resize = [&](Tensor role, std::vector<float>& values) {
    const Problem::Extent extent = problem.ExtentOf(role);
    values.resize(static_cast<size_t>(extent.tokens * extent.heads * extent.dim));
  };
  const auto put = [](const std::vector<double>& row, int64_t place, std::vector<float>& values) {
    std::copy(row.begin(), row.end(), values.begin() + place * static_cast<int64_t>(row.size()));
  };
  resize(Tensor::kOut, outputs.out);
  resize(Tensor::kLse, outputs.lse);
  for (int64_t head = 0; head < problem.q_heads; ++head) {
    for (int64_t row = 0; row < problem.q_tokens(); ++row) {
      const Reference::OutRow out = reference.Out(head, row);
      put(out.out, row * problem.q_heads + head, outputs.out);
      outputs.lse[static_cast<size_t>(head * problem.q_tokens() + row)] =
          static_cast<float>(out.lse);
    }
  }
  if (!backward) return outputs;
  resize(Tensor::kDQ, outputs.dq);
  resize(Tensor::kDK, outputs.dk);
  resize(Tensor::kDV, outputs.dv);
  for (int64_t head = 0; head < problem.q_heads; ++head) {
    reference.PrepareRows(head, {0, problem.q_tokens()});
    for (int64_t row = 0; row < problem.q_tokens(); ++row) {
      put(reference.DQ(head, row), row * problem.q_heads + head, outputs.dq);
    }
  }
  for (int64_t head = 0; head < problem.kv_heads; ++head) {
    for (int64_t key = 0; key < problem.k_tokens(); ++key) {
      put(reference.DK(head, key), key * problem.kv_heads + head, outputs.dk);
      put(reference.DV(head, key), key * problem.kv_heads + head, outputs.dv);
    }
  }
  return outputs;
}

const Kernel& BuiltinKernel(std::string_view name) { return **BuiltinKernels().Find(name); }

void ExpectNear(const KernelOutputs& actual, const KernelOutputs& expected, const Problem& problem,
                double tolerance, const std::string& what) {
  ExpectRowsNear(actual.out, expected.out, problem.v_head_dim, tolerance, what + " out");
  ASSERT_EQ(actual.lse.size(), expected.lse.size()) << what;
  for (size_t i = 0; i < expected.lse.size(); ++i) {
    if (std::isinf(expected.lse[i])) {
      ASSERT_EQ(actual.lse[i], expected.lse[i]) << what << " LSE " << i;
    } else {
      ASSERT_NEAR(actual.lse[i], expected.lse[i], 5e-6 * (1 + std::abs(expected.lse[i])))
          << what << " LSE " << i;
    }
  }
  if (expected.dq.empty() && expected.dk.empty()) return;
  ExpectRowsNear(actual.dq, expected.dq, problem.qk_head_dim, tolerance, what + " dQ");
  ExpectRowsNear(actual.dk, expected.dk, problem.qk_head_dim, tolerance, what + " dK");
  ExpectRowsNear(actual.dv, expected.dv, problem.v_head_dim, tolerance, what + " dV");
}

}  // namespace lcab
