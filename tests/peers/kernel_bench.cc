// lcab-kernel-bench: one kernel on one problem, driven from outside, so that a peer in another
// process can take turns with it; and time against area over the masks.
//
//   lcab-kernel-bench serve --mask causal --seq-len 4096    each line on stdin runs it once and is
//                                                           answered with the seconds; `rate` with
//                                                           multiply-adds a second, in FLOP/s
//   lcab-kernel-bench areas --seq-len 4096                  a table of all static masks

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "attention/flops.h"
#include "attention/inputs.h"
#include "attention/masks.h"
#include "attention/problem.h"
#include "device/device.h"
#include "fmt/format.h"
#include "kernels/registry.h"
#include "tests/peers/multiply_add_rate.h"

namespace lcab {
namespace {

struct Arguments {
  std::string kernel = "cpu_tiled";
  std::string mask = "full";
  int64_t window = 0;  // 0: the mask's default
  std::string pass = "forward";
  std::string dtype = "fp32";
  int64_t seq_len = 4096;
  int64_t q_heads = 8;
  int64_t kv_heads = 8;
  int64_t head_dim = 64;
  int threads = 2;
  int repeats = 5;
};

absl::StatusOr<Problem> MakeProblem(const Arguments& arguments, const std::string& mask_name) {
  const std::optional<DType> dtype = ParseDType(arguments.dtype);
  if (!dtype) return absl::InvalidArgumentError("--dtype is fp32 or bf16");
  Options options;
  if (arguments.window > 0) options["window"] = Value{arguments.window};
  absl::StatusOr<Mask> mask =
      MakeMask(mask_name, options,
               {arguments.seq_len, arguments.seq_len, arguments.kv_heads, /*seed=*/1, /*draw=*/0});
  if (!mask.ok()) return mask.status();
  Problem problem;
  problem.q_heads = arguments.q_heads;
  problem.kv_heads = arguments.kv_heads;
  problem.qk_head_dim = problem.v_head_dim = arguments.head_dim;
  problem.dtype = *dtype;
  problem.mask = std::make_shared<const Mask>(*std::move(mask));
  if (absl::Status status = Validate(problem); !status.ok()) return status;
  return problem;
}

// A kernel with its tensors, ready to be called.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(const Kernel& kernel, const Problem& problem,
                                                       Pass pass, Device& device) {
    auto bench = std::unique_ptr<Bench>(new Bench(problem, pass, device));
    for (TensorView* tensor : {&bench->q_, &bench->k_, &bench->v_, &bench->dout_, &bench->out_,
                               &bench->dq_, &bench->dk_, &bench->dv_}) {
      absl::StatusOr<Memory> memory =
          device.Allocate(tensor->tokens * tensor->token_stride * SizeOf(tensor->dtype));
      if (!memory.ok()) return memory.status();
      tensor->data = memory->data();
      bench->memory_.push_back(*std::move(memory));
    }
    bench->FillInputs();
    if (absl::Status status = bench->PrepareRows(kernel); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<PreparedKernel>> prepared =
        kernel.Prepare(problem, pass, {}, device);
    if (!prepared.ok()) return prepared.status();
    bench->prepared_ = *std::move(prepared);
    return bench;
  }

  absl::StatusOr<double> RunSeconds() {
    const auto start = std::chrono::steady_clock::now();
    absl::Status status = pass_ == Pass::kForward
                              ? prepared_->Forward({q_, k_, v_, out_, View(lse_)}, device_.stream())
                              : prepared_->Backward({q_, k_, v_, dout_, out_, View(lse_),
                                                     View(delta_), dq_, dk_, dv_, false},
                                                    device_.stream());
    if (status.ok()) status = device_.stream().Synchronize(absl::Now() + absl::Minutes(10));
    if (!status.ok()) return status;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  // Tensors as raw files, [tokens, heads, dim].
  absl::Status Dump(const std::string& folder) const {
    for (const auto& [name, tensor] : {std::pair("q", &q_),
                                       {"k", &k_},
                                       {"v", &v_},
                                       {"dout", &dout_},
                                       {"out", &out_},
                                       {"dq", &dq_},
                                       {"dk", &dk_},
                                       {"dv", &dv_}}) {
      const std::string path = fmt::format("{}/{}.raw", folder, name);
      std::FILE* file = std::fopen(path.c_str(), "wb");
      if (file == nullptr) return absl::NotFoundError(fmt::format("cannot write {}", path));
      const auto bytes =
          static_cast<size_t>(tensor->tokens * tensor->token_stride * SizeOf(tensor->dtype));
      const bool written = std::fwrite(tensor->data, 1, bytes, file) == bytes;
      if (std::fclose(file) != 0 || !written) {
        return absl::DataLossError(fmt::format("{} could not be written whole", path));
      }
    }
    return absl::OkStatus();
  }

 private:
  Bench(const Problem& problem, Pass pass, Device& device)
      : problem_(problem), pass_(pass), device_(device) {
    const auto view = [&](Tensor role) {
      const Problem::Extent extent = problem.ExtentOf(role);
      return TensorView{nullptr,      problem.dtype, extent.tokens,
                        extent.heads, extent.dim,    extent.heads * extent.dim,
                        extent.dim};
    };
    q_ = view(Tensor::kQ), k_ = view(Tensor::kK), v_ = view(Tensor::kV);
    dout_ = view(Tensor::kDOut), out_ = view(Tensor::kOut);
    dq_ = view(Tensor::kDQ), dk_ = view(Tensor::kDK), dv_ = view(Tensor::kDV);
    lse_.resize(static_cast<size_t>(problem.q_heads * problem.q_tokens()));
    delta_.resize(lse_.size());
  }

  RowStatView View(std::vector<float>& values) const {
    return {values.data(), problem_.q_heads, problem_.q_tokens(), problem_.q_tokens(), 1};
  }

  static float Read(const TensorView& tensor, int64_t token, int64_t head, int64_t channel) {
    return tensor.dtype == DType::kFloat32 ? tensor.Row<float>(token, head)[channel]
                                           : ToFloat(tensor.Row<BFloat16>(token, head)[channel]);
  }

  void FillInputs() {
    const InputSource source = {.seed = 1, .dtype = problem_.dtype};
    for (const auto& [role, tensor] : {std::pair(Tensor::kQ, &q_),
                                       {Tensor::kK, &k_},
                                       {Tensor::kV, &v_},
                                       {Tensor::kDOut, &dout_}}) {
      std::vector<float> row(static_cast<size_t>(tensor->dim));
      for (int64_t token = 0; token < tensor->tokens; ++token) {
        for (int64_t head = 0; head < tensor->heads; ++head) {
          InputRow(source, role, token, head, tensor->dim, row.data());
          for (int64_t channel = 0; channel < tensor->dim; ++channel) {
            const float value = row[static_cast<size_t>(channel)];
            if (tensor->dtype == DType::kFloat32) {
              tensor->Row<float>(token, head)[channel] = value;
            } else {
              tensor->Row<BFloat16>(token, head)[channel] = ToBFloat16(value);
            }
          }
        }
      }
    }
  }

  // out, LSE and delta, which the backward pass reads.
  absl::Status PrepareRows(const Kernel& kernel) {
    if (pass_ == Pass::kForward) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<PreparedKernel>> forward =
        kernel.Prepare(problem_, Pass::kForward, {}, device_);
    if (!forward.ok()) return forward.status();
    absl::Status status = (*forward)->Forward({q_, k_, v_, out_, View(lse_)}, device_.stream());
    if (!status.ok()) return status;
    for (int64_t head = 0; head < problem_.q_heads; ++head) {
      for (int64_t token = 0; token < problem_.q_tokens(); ++token) {
        double sum = 0;
        for (int64_t channel = 0; channel < problem_.v_head_dim; ++channel) {
          sum += static_cast<double>(Read(dout_, token, head, channel)) *
                 Read(out_, token, head, channel);
        }
        *View(delta_).At(head, token) = static_cast<float>(sum);
      }
    }
    return absl::OkStatus();
  }

  const Problem problem_;
  const Pass pass_;
  Device& device_;
  std::vector<Memory> memory_;
  TensorView q_, k_, v_, dout_, out_, dq_, dk_, dv_;
  std::vector<float> lse_, delta_;
  std::unique_ptr<PreparedKernel> prepared_;
};

absl::Status Serve(const Arguments& arguments) {
  absl::StatusOr<const Kernel*> kernel = BuiltinKernels().Find(arguments.kernel);
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<Problem> problem = MakeProblem(arguments, arguments.mask);
  if (!problem.ok()) return problem.status();
  absl::StatusOr<std::unique_ptr<Device>> device = MakeCpuDevice({.threads = arguments.threads});
  if (!device.ok()) return device.status();
  const Pass pass = arguments.pass == "forward" ? Pass::kForward : Pass::kBackward;
  auto bench = Bench::Create(**kernel, *problem, pass, **device);
  if (!bench.ok()) return bench.status();
  fmt::print("{{\"flops\": {}, \"area\": {}, \"cpu\": \"{}\"}}\n", Flops(*problem, pass),
             TotalArea(*problem), (*device)->info().model);
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line == "rate") {
      fmt::print("{:.6g}\n", MultiplyAddRate(**device));
      std::fflush(stdout);
      continue;
    }
    absl::StatusOr<double> seconds = (*bench)->RunSeconds();
    if (!seconds.ok()) return seconds.status();
    if (line.starts_with("dump ")) {
      if (absl::Status status = (*bench)->Dump(line.substr(5)); !status.ok()) return status;
    }
    fmt::print("{:.9f}\n", *seconds);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

absl::Status Areas(const Arguments& arguments) {
  absl::StatusOr<const Kernel*> kernel = BuiltinKernels().Find(arguments.kernel);
  if (!kernel.ok()) return kernel.status();
  absl::StatusOr<std::unique_ptr<Device>> device = MakeCpuDevice({.threads = arguments.threads});
  if (!device.ok()) return device.status();
  const Pass pass = arguments.pass == "forward" ? Pass::kForward : Pass::kBackward;
  fmt::print("{} {} on {}, {} threads: {} tokens, {}:{} heads of {}, {}\n\n", arguments.kernel,
             Name(pass), (*device)->info().model, arguments.threads, arguments.seq_len,
             arguments.q_heads, arguments.kv_heads, arguments.head_dim, arguments.dtype);
  fmt::print(
      "| mask | area | of full | time, ms | of full | GFLOP/s |\n| --- | --: | --: | --: | --: | "
      "--: |\n");
  double full_area = 0, full_seconds = 0;
  for (const MaskType& type : MaskTypes()) {
    if (type.name == "slices") continue;
    Arguments of_mask = arguments;
    if (!type.name.starts_with("sliding")) of_mask.window = 0;
    absl::StatusOr<Problem> problem = MakeProblem(of_mask, type.name);
    if (!problem.ok()) return problem.status();
    auto bench = Bench::Create(**kernel, *problem, pass, **device);
    if (!bench.ok()) return bench.status();
    double best = 1e30;
    for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
      absl::StatusOr<double> seconds = (*bench)->RunSeconds();
      if (!seconds.ok()) return seconds.status();
      best = std::min(best, *seconds);
    }
    const auto area = static_cast<double>(TotalArea(*problem));
    if (type.name == "full") full_area = area, full_seconds = best;
    fmt::print("| {} | {} | {:.3f} | {:.2f} | {:.3f} | {:.0f} |\n", type.name, TotalArea(*problem),
               area / full_area, 1e3 * best, best / full_seconds,
               1e-9 * static_cast<double>(Flops(*problem, pass)) / best);
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Times one kernel, for comparison with peers.");
  app.add_option("--kernel", arguments.kernel, "name of the kernel");
  app.add_option("--mask", arguments.mask, "name of the mask");
  app.add_option("--window", arguments.window, "of sliding masks; 0: their default");
  app.add_option("--pass", arguments.pass)->check(CLI::IsMember({"forward", "backward"}));
  app.add_option("--dtype", arguments.dtype)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--seq-len", arguments.seq_len)->check(CLI::PositiveNumber);
  app.add_option("--q-heads", arguments.q_heads)->check(CLI::PositiveNumber);
  app.add_option("--kv-heads", arguments.kv_heads)->check(CLI::PositiveNumber);
  app.add_option("--head-dim", arguments.head_dim)->check(CLI::PositiveNumber);
  app.add_option("--threads", arguments.threads)->check(CLI::PositiveNumber);
  app.add_option("--repeats", arguments.repeats, "of `areas`: the best counts")
      ->check(CLI::PositiveNumber);
  app.require_subcommand(1);
  app.fallthrough();
  const CLI::App* serve = app.add_subcommand(
      "serve",
      "each line on stdin runs the kernel once and is answered with the seconds; `dump "
      "FOLDER` also writes the tensors");
  app.add_subcommand("areas", "time against area over all masks");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = serve->parsed() ? Serve(arguments) : Areas(arguments);
  if (!status.ok()) fmt::print(stderr, "{}\n", std::string(status.message()));
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace lcab

int main(int argc, char** argv) { return lcab::Main(argc, argv); }
