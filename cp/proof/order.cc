#include "cp/proof/order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "cp/proof/structure.h"
#include "fmt/format.h"

namespace lcab::cp::proof {
namespace {

// For each step and stream, the last step of that stream that is sure to be complete before.
using Clock = std::vector<int>;

std::vector<Clock> ClocksOf(const RankPlan& plan, Pass pass) {
  const std::vector<Step>& steps = plan.steps(pass);
  std::vector<Clock> clocks;
  std::vector<int> last(static_cast<size_t>(plan.streams), -1);
  for (size_t i = 0; i < steps.size(); ++i) {
    Clock clock(static_cast<size_t>(plan.streams), -1);
    const auto join = [&](int earlier) {
      const auto e = static_cast<size_t>(earlier);
      for (size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], clocks[e][s]);
      int& own = clock[static_cast<size_t>(steps[e].stream)];
      own = std::max(own, earlier);
    };
    const auto stream = static_cast<size_t>(steps[i].stream);
    if (last[stream] >= 0) join(last[stream]);
    for (const int earlier : steps[i].after) join(earlier);
    clocks.push_back(std::move(clock));
    last[stream] = static_cast<int>(i);
  }
  return clocks;
}

// Messages of one direction between two ranks on one communicator, in order.
using Channel = std::tuple<int, int, int>;  // communicator, from, to

// The course of a pass over all ranks.
class Course {
 public:
  Course(const std::vector<RankPlan>& plans, Pass pass, bool collapsed, const StepRunner& run)
      : plans_(plans), pass_(pass), run_(run) {
    for (const RankPlan& plan : plans) {
      RankState state;
      const std::vector<Step>& steps = plan.steps(pass);
      state.done.resize(steps.size(), false);
      state.queues.resize(collapsed ? 1 : static_cast<size_t>(plan.streams));
      for (size_t i = 0; i < steps.size(); ++i) {
        const size_t queue = collapsed ? 0 : static_cast<size_t>(steps[i].stream);
        state.queues[queue].steps.push_back(static_cast<int>(i));
      }
      ranks_.push_back(std::move(state));
    }
  }

  absl::Status Go() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
        for (Queue& queue : ranks_[static_cast<size_t>(rank)].queues) {
          absl::StatusOr<bool> advanced = Advance(rank, queue);
          if (!advanced.ok()) return advanced.status();
          moved |= *advanced;
        }
      }
    }
    return CheckEnd();
  }

 private:
  struct Queue {
    std::vector<int> steps;
    size_t next = 0;
    bool posted = false;  // the step at the front is an exchange that others can see
  };
  struct RankState {
    std::vector<Queue> queues;
    std::vector<bool> done;  // by step
  };
  // The ends of a channel, in the order in which they were posted.
  struct Ends {
    std::vector<MessageEnd> sends, receives;
  };

  const Step& StepAt(int rank, int step) const {
    return plans_[static_cast<size_t>(rank)].steps(pass_)[static_cast<size_t>(step)];
  }
  const View& ViewOf(const MessageEnd& end, bool sends) const {
    const auto& exchange = std::get<Exchange>(StepAt(end.rank, end.step).action);
    const auto& messages = sends ? exchange.sends : exchange.receives;
    return messages[static_cast<size_t>(end.index)].view;
  }

  // Runs what is ready at the front of a queue. True when something happened.
  absl::StatusOr<bool> Advance(int rank, Queue& queue) {
    RankState& state = ranks_[static_cast<size_t>(rank)];
    bool moved = false;
    while (queue.next < queue.steps.size()) {
      const int index = queue.steps[queue.next];
      const Step& step = StepAt(rank, index);
      for (const int earlier : step.after) {
        if (!state.done[static_cast<size_t>(earlier)]) return moved;
      }
      std::vector<Delivery> received;
      if (const auto* exchange = std::get_if<Exchange>(&step.action)) {
        if (!queue.posted) {
          Post(rank, index, *exchange);
          queue.posted = true;
          moved = true;
        }
        std::optional<std::vector<Delivery>> met = Meet(rank, index, *exchange);
        if (!met) return moved;
        received = *std::move(met);
        for (const Delivery& delivery : received) {
          if (absl::Status s = CheckAlike(delivery); !s.ok()) return s;
        }
      }
      if (absl::Status s = run_(rank, index, received); !s.ok()) return s;
      state.done[static_cast<size_t>(index)] = true;
      ++queue.next;
      queue.posted = false;
      moved = true;
    }
    return moved;
  }

  void Post(int rank, int step, const Exchange& exchange) {
    for (size_t i = 0; i < exchange.sends.size(); ++i) {
      const Channel channel{exchange.communicator, rank, exchange.sends[i].peer};
      channels_[channel].sends.push_back({rank, step, static_cast<int>(i)});
    }
    for (size_t i = 0; i < exchange.receives.size(); ++i) {
      const Channel channel{exchange.communicator, exchange.receives[i].peer, rank};
      channels_[channel].receives.push_back({rank, step, static_cast<int>(i)});
    }
  }

  // What the exchange receives, once every one of its messages has met its other end.
  std::optional<std::vector<Delivery>> Meet(int rank, int step, const Exchange& exchange) {
    for (const Message& message : exchange.sends) {
      const Ends& ends = channels_[{exchange.communicator, rank, message.peer}];
      for (size_t i = 0; i < ends.sends.size(); ++i) {
        if (ends.sends[i].step == step && i >= ends.receives.size()) {
          return std::nullopt;
        }
      }
    }
    std::vector<Delivery> received;
    for (size_t m = 0; m < exchange.receives.size(); ++m) {
      const Ends& ends = channels_[{exchange.communicator, exchange.receives[m].peer, rank}];
      for (size_t i = 0; i < ends.receives.size(); ++i) {
        const MessageEnd& end = ends.receives[i];
        if (end.step != step || end.index != static_cast<int>(m)) continue;
        if (i >= ends.sends.size()) return std::nullopt;
        received.push_back({ends.sends[i], end});
      }
    }
    return received;
  }

  absl::Status CheckAlike(const Delivery& delivery) const {
    const RankPlan& from = plans_[static_cast<size_t>(delivery.from.rank)];
    const RankPlan& to = plans_[static_cast<size_t>(delivery.to.rank)];
    const View& sent = ViewOf(delivery.from, true);
    const View& received = ViewOf(delivery.to, false);
    const Buffer& a = from.buffers[static_cast<size_t>(sent.buffer)];
    const Buffer& b = to.buffers[static_cast<size_t>(received.buffer)];
    if (RowsOf(sent) == RowsOf(received) && HeadsOf(sent) == HeadsOf(received) && a.dim == b.dim &&
        a.dtype == b.dtype && a.head_major == b.head_major) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(fmt::format(
        "{} sends {}, and {} receives it as {}", Place(from, pass_, delivery.from.step),
        Describe(from, sent), Place(to, pass_, delivery.to.step), Describe(to, received)));
  }

  absl::Status CheckEnd() const {
    bool all_done = true;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
      for (const Queue& queue : ranks_[static_cast<size_t>(rank)].queues) {
        if (queue.next == queue.steps.size()) continue;
        all_done = false;
        const int step = queue.steps[queue.next];
        const RankPlan& plan = plans_[static_cast<size_t>(rank)];
        if (!queue.posted) continue;  // it waits for another of its rank's streams
        return absl::FailedPreconditionError(fmt::format(
            "{} waits for ever: {}", Place(plan, pass_, step), WhatIsMissing(rank, step)));
      }
    }
    if (all_done) return absl::OkStatus();
    return absl::FailedPreconditionError("steps wait for each other in a circle");
  }

  std::string WhatIsMissing(int rank, int step) const {
    const auto& exchange = std::get<Exchange>(StepAt(rank, step).action);
    for (const Message& message : exchange.sends) {
      const auto at = channels_.find({exchange.communicator, rank, message.peer});
      if (at->second.receives.size() < at->second.sends.size()) {
        return fmt::format("rank {} does not come to receive", message.peer);
      }
    }
    for (const Message& message : exchange.receives) {
      const auto at = channels_.find({exchange.communicator, message.peer, rank});
      if (at->second.sends.size() < at->second.receives.size()) {
        return fmt::format("rank {} does not come to send", message.peer);
      }
    }
    return "its peers do not come";
  }

  const std::vector<RankPlan>& plans_;
  const Pass pass_;
  const StepRunner& run_;
  std::vector<RankState> ranks_;
  std::map<Channel, Ends> channels_;
};

}  // namespace

absl::Status CheckRaces(const RankPlan& plan, Pass pass) {
  const std::vector<Step>& steps = plan.steps(pass);
  const std::vector<Clock> clocks = ClocksOf(plan, pass);
  std::vector<std::vector<Access>> accesses;
  for (const Step& step : steps) accesses.push_back(AccessesOf(step.action));
  for (size_t later = 0; later < steps.size(); ++later) {
    for (size_t earlier = 0; earlier < later; ++earlier) {
      const auto stream = static_cast<size_t>(steps[earlier].stream);
      if (clocks[later][stream] >= static_cast<int>(earlier)) continue;
      for (const Access& a : accesses[earlier]) {
        for (const Access& b : accesses[later]) {
          if (!(a.writes || b.writes) || !SharesMemory(plan, *a.view, *b.view)) continue;
          return absl::FailedPreconditionError(
              fmt::format("{} {} {} while step {} ({}) may still {} {}",
                          Place(plan, pass, static_cast<int>(later)), b.writes ? "writes" : "reads",
                          Describe(plan, *b.view), earlier, Name(steps[earlier].action),
                          a.writes ? "write" : "read", Describe(plan, *a.view)));
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Schedule(const std::vector<RankPlan>& plans, Pass pass, bool collapsed,
                      const StepRunner& run) {
  return Course(plans, pass, collapsed, run).Go();
}

}  // namespace lcab::cp::proof
