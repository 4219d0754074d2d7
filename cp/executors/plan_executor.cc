#include "cp/executors/plan_executor.h"

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cp/executors/attend_calls.h"
#include "cp/executors/operand.h"
#include "cp/executors/planted_fault.h"
#include "cp/executors/watched_reads.h"
#include "fmt/format.h"

namespace lcab::cp {
namespace {

class PlanExecutor : public Executor {
 public:
  PlanExecutor(const RankPlan& plan, const ExecutorOptions& options,
               std::unique_ptr<DeviceSteps> device_steps, AttendCalls calls, PlantedFault fault)
      : plan_(plan),
        options_(options),
        device_(*options.device),
        device_steps_(std::move(device_steps)),
        calls_(std::move(calls)),
        fault_(std::move(fault)),
        forward_(plan_.forward),
        backward_(plan_.backward) {}

  // Work of our streams refers to us: it ends before we do. A step that still waits for a peer is
  // woken. What that work failed with concerns nobody any more.
  ~PlanExecutor() override {
    Abort("the executor is going away");
    for (const std::unique_ptr<Stream>& stream : streams_) {
      stream->Synchronize(absl::Now() + options_.step_timeout).IgnoreError();
    }
  }

  absl::Status Prepare() override {
    absl::StatusOr<Memory> slab = device_.Allocate(plan_.slab_bytes);
    if (!slab.ok()) return slab.status();
    slab_ = *std::move(slab);
    for (int stream = 1; stream < plan_.streams; ++stream) {
      absl::StatusOr<std::unique_ptr<Stream>> made = device_.MakeStream();
      if (!made.ok()) return made.status();
      streams_.push_back(*std::move(made));
    }
    for (Timetable* timetable : {&forward_, &backward_}) {
      if (absl::Status s = MakeEvents(*timetable); !s.ok()) return s;
    }
    inputs_ = ShardsOf(plan_.inputs);
    forward_outputs_ = ShardsOf(plan_.forward_outputs);
    backward_outputs_ = ShardsOf(plan_.backward_outputs);
    if (absl::Status s = fault_.Prepare(device_); !s.ok()) return s;
    return calls_.Prepare(device_);
  }

  absl::Status Connect() override {
    if (plan_.ranks == 1) return absl::OkStatus();
    for (int index = 0; index <= plan_.communicators; ++index) {
      absl::StatusOr<std::unique_ptr<Communicator>> made = options_.make_communicator(index);
      if (!made.ok()) return made.status();
      const std::lock_guard lock(mutex_);
      if (abort_reason_) return absl::AbortedError(*abort_reason_);
      communicators_.push_back(*std::move(made));
    }
    return absl::OkStatus();
  }

  MemoryNeed memory_need() const override {
    return {.plan_bytes = plan_.slab_bytes,
            .workspace_bytes = calls_.requirements().workspace_bytes,
            .schedule_bytes = calls_.requirements().schedule_bytes};
  }

  absl::Status Enqueue(Pass pass) override {
    if (absl::Status s = Ready(); !s.ok()) return s;
    if (absl::Status s = Failure(); !s.ok()) return s;
    Timetable& timetable = pass == Pass::kForward ? forward_ : backward_;
    absl::Status s = Fork(timetable);
    if (s.ok()) s = fault_.BeginPass(pass, slab_.data(), device_);
    for (int i = 0; s.ok() && i < static_cast<int>(timetable.steps.size()); ++i) {
      s = EnqueueStep(pass, timetable, i);
    }
    if (s.ok()) s = Join(timetable);
    if (s.ok()) s = fault_.EndPass(pass, slab_.data(), device_);
    if (s.ok()) s = device_.stream().Enqueue([this] { return Failure(); });
    // Later steps must not wait for, or read, what will not come.
    if (!s.ok()) Fail(s);
    return s;
  }

  absl::StatusOr<std::vector<std::string>> RunWatched(Pass pass, absl::Time deadline) override {
    changed_reads_.clear();
    watched_until_ = deadline;
    absl::Status s = Enqueue(pass);
    watched_until_.reset();
    if (s.ok()) s = device_.stream().Synchronize(deadline);
    if (!s.ok()) return s;
    return changed_reads_;
  }

  absl::Status Barrier(absl::Time deadline) override {
    if (plan_.ranks == 1) return absl::OkStatus();
    if (absl::Status s = Ready(); !s.ok()) return s;
    return communicators_.back()->Barrier(deadline);
  }

  const std::vector<Shard>& inputs() const override { return inputs_; }
  const std::vector<Shard>& outputs(Pass pass) const override {
    return pass == Pass::kForward ? forward_outputs_ : backward_outputs_;
  }

  int64_t bytes_sent() const override {
    int64_t bytes = 0;
    for (const auto& communicator : communicators_) bytes += communicator->bytes_sent();
    return bytes;
  }
  void ResetBytesSent() override {
    for (const auto& communicator : communicators_) communicator->ResetBytesSent();
  }

  void Abort(std::string_view reason) override {
    const std::lock_guard lock(mutex_);
    if (!abort_reason_) abort_reason_ = reason;
    for (const auto& communicator : communicators_) communicator->Abort(reason);
  }

 private:
  // A pass's steps with the events that order them across streams.
  struct Timetable {
    explicit Timetable(const std::vector<Step>& pass_steps) : steps(pass_steps) {}

    const std::vector<Step>& steps;
    std::vector<std::unique_ptr<Event>> done;   // by step; null where no other stream waits
    std::unique_ptr<Event> begun;               // on the compute stream
    std::vector<std::unique_ptr<Event>> ended;  // of each other stream
  };

  Stream& StreamAt(StreamIndex index) {
    return index == kComputeStream ? device_.stream() : *streams_[static_cast<size_t>(index - 1)];
  }

  absl::Status MakeEvents(Timetable& timetable) {
    const auto make = [this](std::unique_ptr<Event>& event) -> absl::Status {
      absl::StatusOr<std::unique_ptr<Event>> made = device_.MakeEvent();
      if (!made.ok()) return made.status();
      event = *std::move(made);
      return absl::OkStatus();
    };
    timetable.done.resize(timetable.steps.size());
    for (const Step& step : timetable.steps) {
      for (const int earlier : step.after) {
        std::unique_ptr<Event>& event = timetable.done[static_cast<size_t>(earlier)];
        if (event != nullptr) continue;
        if (absl::Status s = make(event); !s.ok()) return s;
      }
    }
    timetable.ended.resize(streams_.size());
    for (std::unique_ptr<Event>& event : timetable.ended) {
      if (absl::Status s = make(event); !s.ok()) return s;
    }
    return make(timetable.begun);
  }

  absl::Status Ready() {
    if (slab_.data() == nullptr && plan_.slab_bytes > 0) {
      return absl::FailedPreconditionError("the executor is not prepared: call Prepare() first");
    }
    if (plan_.ranks > 1 && static_cast<int>(communicators_.size()) <= plan_.communicators) {
      return absl::FailedPreconditionError("the executor is not connected: call Connect() first");
    }
    return absl::OkStatus();
  }

  // Other streams start behind what the compute stream holds now.
  absl::Status Fork(Timetable& timetable) {
    if (streams_.empty()) return absl::OkStatus();
    absl::Status s = timetable.begun->Record(device_.stream());
    for (size_t i = 0; s.ok() && i < streams_.size(); ++i) s = timetable.begun->Wait(*streams_[i]);
    return s;
  }

  // The compute stream goes on behind what all others hold.
  absl::Status Join(Timetable& timetable) {
    absl::Status s;
    for (size_t i = 0; s.ok() && i < streams_.size(); ++i) {
      s = timetable.ended[i]->Record(*streams_[i]);
      if (s.ok()) s = timetable.ended[i]->Wait(device_.stream());
    }
    return s;
  }

  absl::Status EnqueueStep(Pass pass, Timetable& timetable, int index) {
    const Step& step = timetable.steps[static_cast<size_t>(index)];
    Stream& stream = StreamAt(step.stream);
    for (const int earlier : step.after) {
      absl::Status s = timetable.done[static_cast<size_t>(earlier)]->Wait(stream);
      if (!s.ok()) return s;
    }
    absl::Status s =
        fault_.SkipsStep(pass, index)
            ? absl::OkStatus()
            : std::visit([&](const auto& a) { return Run(a, pass, index, stream); }, step.action);
    if (!s.ok()) return s;
    const std::unique_ptr<Event>& done = timetable.done[static_cast<size_t>(index)];
    return done == nullptr ? absl::OkStatus() : done->Record(stream);
  }

  // Kernels are enqueued; they find their stream themselves.
  absl::Status Run(const Attend& a, Pass pass, int step, Stream& stream) {
    if (absl::Status s = Failure(); !s.ok()) return s;
    const auto reads = Watch({{"q", a.q}, {"k", a.k}, {"v", a.v}}, stream);
    if (!reads.ok()) return AtStep(reads.status(), pass, step);
    absl::Status s = calls_.At(pass, step)
                         .Forward({.q = ViewOf(a.q),
                                   .k = ViewOf(a.k),
                                   .v = ViewOf(a.v),
                                   .out = ViewOf(a.out),
                                   .lse = RowStatOf(a.lse)},
                                  stream);
    if (s.ok()) s = Compare(*reads, pass, step, stream);
    return AtStep(s, pass, step);
  }
  absl::Status Run(const AttendBackward& a, Pass pass, int step, Stream& stream) {
    if (absl::Status s = Failure(); !s.ok()) return s;
    const auto reads = Watch({{"q", a.q},
                              {"k", a.k},
                              {"v", a.v},
                              {"dout", a.dout},
                              {"out", a.out},
                              {"lse", a.lse},
                              {"delta", a.delta}},
                             stream);
    if (!reads.ok()) return AtStep(reads.status(), pass, step);
    const absl::StatusOr<TensorView> k = fault_.KeyFor(ViewOf(a.k), device_, stream);
    if (!k.ok()) return AtStep(k.status(), pass, step);
    absl::Status s = calls_.At(pass, step)
                         .Backward({.q = ViewOf(a.q),
                                    .k = *k,
                                    .v = ViewOf(a.v),
                                    .dout = ViewOf(a.dout),
                                    .out = a.out.used() ? ViewOf(a.out) : TensorView{},
                                    .lse = RowStatOf(a.lse),
                                    .delta = a.delta.used() ? RowStatOf(a.delta) : RowStatView{},
                                    .dq = ViewOf(a.dq),
                                    .dk = ViewOf(a.dk),
                                    .dv = ViewOf(a.dv)},
                                   stream);
    if (s.ok()) s = Compare(*reads, pass, step, stream);
    return AtStep(s, pass, step);
  }

  // Around a kernel's call, in RunWatched(): what it may only read. Else null.
  absl::StatusOr<std::shared_ptr<WatchedReads>> Watch(
      std::initializer_list<std::pair<std::string_view, const View&>> views, Stream& stream) {
    std::shared_ptr<WatchedReads> watched;
    if (!watched_until_.has_value()) return watched;
    std::vector<std::pair<std::string_view, TensorView>> reads;
    for (const auto& [name, view] : views) {
      if (view.used()) reads.emplace_back(name, ViewOf(view));
    }
    watched = std::make_shared<WatchedReads>(std::move(reads));
    absl::Status s = InTurn(stream, [this, watched, &stream, until = *watched_until_] {
      return watched->Before(*device_steps_, until, stream);
    });
    if (!s.ok()) return s;
    return watched;
  }
  absl::Status Compare(const std::shared_ptr<WatchedReads>& watched, Pass pass, int step,
                       Stream& stream) {
    if (watched == nullptr) return absl::OkStatus();
    return InTurn(
        stream, [this, watched, pass, step, &stream, until = *watched_until_]() -> absl::Status {
          const auto changed = watched->Changed(*device_steps_, until, stream);
          if (!changed.ok()) return changed.status();
          for (const std::string_view name : *changed) {
            changed_reads_.push_back(fmt::format("{} of {}", name, Place(plan_, pass, step)));
          }
          return absl::OkStatus();
        });
  }

  absl::Status Run(const Delta& a, Pass, int, Stream& stream) {
    return InTurn(stream, [this, &a, &stream] {
      return device_steps_->ComputeDelta(At(a.out), At(a.dout), At(a.delta), stream);
    });
  }
  absl::Status Run(const Merge& a, Pass, int, Stream& stream) {
    return InTurn(stream, [this, &a, &stream] {
      return device_steps_->MergePart(At(a.out), At(a.lse), At(a.part), At(a.part_lse), stream);
    });
  }
  absl::Status Run(const Add& a, Pass, int, Stream& stream) {
    return InTurn(
        stream, [this, &a, &stream] { return device_steps_->AddTo(At(a.to), At(a.from), stream); });
  }
  absl::Status Run(const Copy& a, Pass, int, Stream& stream) {
    return InTurn(stream, [this, &a, &stream] {
      return device_steps_->CopyTo(At(a.to), At(a.from), stream);
    });
  }
  absl::Status Run(const Fill& a, Pass, int, Stream& stream) {
    return InTurn(
        stream, [this, &a, &stream] { return device_steps_->FillWith(At(a.to), a.value, stream); });
  }

  absl::Status Run(const Exchange& a, Pass pass, int step, Stream& stream) {
    return InTurn(stream, [this, &a, pass, step, &stream] {
      std::vector<SendBuffer> sends;
      std::vector<ReceiveBuffer> receives;
      for (const Message& m : a.sends) sends.push_back({m.peer, BytesAt(m.view)});
      for (const Message& m : a.receives) receives.push_back({m.peer, BytesAt(m.view)});
      Communicator& communicator = *communicators_[static_cast<size_t>(a.communicator)];
      absl::Status s = AtStep(device_steps_->Exchange(communicator, sends, receives,
                                                      absl::Now() + options_.step_timeout, stream),
                              pass, step);
      if (!s.ok()) Fail(s);
      return s;
    });
  }

  // Work whose turn comes after a failure is left out.
  absl::Status InTurn(Stream& stream, std::function<absl::Status()> work) {
    return stream.Enqueue([this, work = std::move(work)] {
      absl::Status s = Failure();
      return s.ok() ? work() : s;
    });
  }

  absl::Status AtStep(const absl::Status& status, Pass pass, int step) const {
    if (status.ok()) return status;
    return absl::Status(status.code(), fmt::format("{}: {}", Place(plan_, pass, step),
                                                   std::string(status.message())));
  }

  // The first failure of any stream: all steps behind it are left out.
  absl::Status Failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  void Fail(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = status;
  }

  Operand At(const View& view) const { return OperandOf(plan_, view, slab_.data()); }

  TensorView ViewOf(const View& view) const { return TensorViewOf(plan_, view, slab_.data()); }
  RowStatView RowStatOf(const View& view) const { return RowStatViewOf(plan_, view, slab_.data()); }
  std::span<std::byte> BytesAt(const View& view) const {
    const Buffer& buffer = plan_.buffers[static_cast<size_t>(view.buffer)];
    const Interval bytes = ContiguousBytes(buffer, view).value();
    return {slab_.data() + buffer.offset + bytes.begin, static_cast<size_t>(bytes.size())};
  }

  std::vector<Shard> ShardsOf(const std::vector<Held>& holdings) const {
    std::vector<Shard> shards;
    for (const Held& held : holdings) {
      Shard shard{.tensor = held.tensor,
                  .problem = held.problem,
                  .tokens = held.tokens,
                  .heads = held.heads};
      if (held.tensor == Tensor::kLse) {
        shard.row_stat = RowStatOf(held.view);
      } else {
        shard.view = ViewOf(held.view);
      }
      shards.push_back(std::move(shard));
    }
    return shards;
  }

  const RankPlan plan_;
  const ExecutorOptions options_;
  Device& device_;
  const std::unique_ptr<DeviceSteps> device_steps_;
  AttendCalls calls_;
  PlantedFault fault_;
  std::optional<absl::Time> watched_until_;  // while RunWatched() enqueues
  std::vector<std::string> changed_reads_;   // written by the compute stream, which runs kernels
  Memory slab_;
  Timetable forward_, backward_;
  std::vector<Shard> inputs_, forward_outputs_, backward_outputs_;

  std::mutex mutex_;
  absl::Status failure_;                                      // guarded
  std::optional<std::string> abort_reason_;                   // guarded
  std::vector<std::unique_ptr<Communicator>> communicators_;  // grows under the mutex; fixed after

  // Last, so that their threads are gone before anything they use.
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> MakePlanExecutor(
    const RankPlan& plan, const ExecutorOptions& options,
    std::unique_ptr<DeviceSteps> device_steps) {
  absl::StatusOr<PlantedFault> fault = PlantedFault::Create(options.fault, plan);
  if (!fault.ok()) return fault.status();
  absl::StatusOr<AttendCalls> calls =
      AttendCalls::Create(plan, *options.kernel, options.kernel_options, options.device->info());
  if (!calls.ok()) return calls.status();
  return std::make_unique<PlanExecutor>(plan, options, std::move(device_steps), *std::move(calls),
                                        *std::move(fault));
}

}  // namespace lcab::cp
