// Test kernels that misbehave as programs: they crash, hang, eat memory, are slow or noisy.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "kernels/cpu/test_kernel.h"

namespace lcab {
namespace {

Parameter Count(std::string name, int64_t default_value, double minimum, std::string description) {
  return {.name = std::move(name),
          .kind = ParameterKind::kInteger,
          .default_value = Value{default_value},
          .description = std::move(description),
          .minimum = minimum};
}

const Parameter& CallParameter() {
  static const Parameter parameter =
      Count("call", 1, 1, "in which call of the prepared kernel it happens, counted from 1");
  return parameter;
}

// Does something in one call, whatever the pass.
class InOneCall : public Fault {
 public:
  explicit InOneCall(const Options& options) : call_(GetInteger(options, "call")) {}

  absl::StatusOr<bool> BeforeForward(int64_t call, const ForwardTensors& /*tensors*/) override {
    return AtCall(call);
  }
  absl::StatusOr<bool> BeforeBackward(int64_t call, const BackwardTensors& /*tensors*/) override {
    return AtCall(call);
  }

 protected:
  virtual absl::Status Happen() = 0;

 private:
  absl::StatusOr<bool> AtCall(int64_t call) {
    if (call == call_) {
      if (absl::Status status = Happen(); !status.ok()) return status;
    }
    return true;
  }
  const int64_t call_;
};

class Crash : public InOneCall {
 public:
  using InOneCall::InOneCall;
  absl::Status Happen() override {
    // What a wild write ends in, without the undefined behaviour.
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
    return absl::OkStatus();
  }
};

class Abort : public InOneCall {
 public:
  using InOneCall::InOneCall;
  absl::Status Happen() override { std::abort(); }
};

class Killed : public InOneCall {
 public:
  using InOneCall::InOneCall;
  absl::Status Happen() override {
    std::raise(SIGKILL);
    return absl::OkStatus();
  }
};

class Hang : public InOneCall {
 public:
  using InOneCall::InOneCall;
  absl::Status Happen() override {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, SIG_IGN);
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
};

class EatMemory : public InOneCall {
 public:
  explicit EatMemory(const Options& options)
      : InOneCall(options), most_bytes_(GetInteger(options, "most_bytes")) {}

  absl::Status Happen() override {
    constexpr int64_t kChunk = int64_t{16} << 20;
    constexpr int64_t kPage = 4096;
    std::vector<void*> chunks;
    int64_t bytes = 0;
    while (most_bytes_ == 0 || bytes < most_bytes_) {
      void* chunk =
          mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (chunk == MAP_FAILED) break;
      for (int64_t at = 0; at < kChunk; at += kPage) static_cast<char*>(chunk)[at] = 1;
      chunks.push_back(chunk);
      bytes += kChunk;
    }
    for (void* chunk : chunks) munmap(chunk, kChunk);
    return absl::ResourceExhaustedError(
        fmt::format("the test kernel got {} bytes and no more", bytes));
  }

 private:
  const int64_t most_bytes_;
};

class Print : public InOneCall {
 public:
  explicit Print(const Options& options)
      : InOneCall(options), bytes_(GetInteger(options, "bytes")) {}

  absl::Status Happen() override {
    // One line of `bytes` bytes, its end included.
    constexpr size_t kPiece = 1 << 16;
    const std::string piece(kPiece, 'x');
    auto left = static_cast<size_t>(bytes_);
    while (left > 1) {
      const size_t size = std::min(left - 1, kPiece);
      if (std::fwrite(piece.data(), 1, size, stderr) != size) {
        return absl::DataLossError("stderr takes no more");
      }
      left -= size;
    }
    if (left == 1) std::fputc('\n', stderr);
    return absl::OkStatus();
  }

 private:
  const int64_t bytes_;
};

class Slow : public Fault {
 public:
  explicit Slow(const Options& options)
      : delay_(std::chrono::milliseconds(GetInteger(options, "delay_ms"))) {}
  absl::StatusOr<bool> BeforeForward(int64_t /*call*/, const ForwardTensors&) override {
    std::this_thread::sleep_for(delay_);
    return true;
  }
  absl::StatusOr<bool> BeforeBackward(int64_t /*call*/, const BackwardTensors&) override {
    std::this_thread::sleep_for(delay_);
    return true;
  }

 private:
  const std::chrono::milliseconds delay_;
};

class SlowPrepare : public Fault {
 public:
  explicit SlowPrepare(const Options& options)
      : delay_(std::chrono::milliseconds(GetInteger(options, "delay_ms"))) {}
  absl::Status OnPrepare() override {
    std::this_thread::sleep_for(delay_);
    return absl::OkStatus();
  }

 private:
  const std::chrono::milliseconds delay_;
};

class Unsupported : public Fault {
 public:
  explicit Unsupported(const Options& /*options*/) {}
  absl::StatusOr<Problem> Distort(const Problem& /*problem*/) override {
    return absl::UnimplementedError("test_unsupported supports nothing, on purpose");
  }
};

template <typename T>
std::unique_ptr<Fault> Make(const Options& options) {
  return std::make_unique<T>(options);
}

}  // namespace

std::vector<FaultType> ProgramFaults() {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return {
      {"test_crash", "ends with SIGSEGV", {CallParameter()}, Make<Crash>},
      {"test_abort", "ends with SIGABRT", {CallParameter()}, Make<Abort>},
      {"test_killed",
       "ends with SIGKILL, as if somebody outside sent it",
       {CallParameter()},
       Make<Killed>},
      {"test_hang", "never returns and ignores SIGTERM", {CallParameter()}, Make<Hang>},
      {"test_memory",
       "takes memory until it is killed or gets no more",
       {CallParameter(), Count("most_bytes", 0, 0, "where it stops by itself; 0: nowhere")},
       Make<EatMemory>},
      {"test_slow",
       "sleeps before each call",
       {Count("delay_ms", 100, 0, "how long it sleeps, in milliseconds")},
       Make<Slow>},
      {"test_prepare_slow",
       "sleeps while it is prepared",
       {Count("delay_ms", 20, 0, "how long it sleeps, in milliseconds")},
       Make<SlowPrepare>},
      {"test_prints",
       "prints one long line to stderr",
       {CallParameter(), Count("bytes", 6 * kMiB, 0, "of the line, its end included")},
       Make<Print>},
      {"test_unsupported", "supports no problem", {}, Make<Unsupported>},
  };
}

}  // namespace lcab
