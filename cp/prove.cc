#include "cp/prove.h"

#include <map>
#include <string>
#include <utility>

#include "cp/proof/holdings.h"
#include "cp/proof/interpreter.h"
#include "cp/proof/order.h"
#include "cp/proof/structure.h"
#include "fmt/format.h"

namespace lcab::cp {
namespace {

using proof::Delivery;
using proof::Interpreter;
using proof::Piece;

absl::Status AtPlace(const RankPlan& plan, Pass pass, int step, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(), fmt::format("{}: {}", Place(plan, pass, step), std::string(status.message())));
}

int64_t BytesSent(const RankPlan& plan, Pass pass) {
  int64_t bytes = 0;
  for (const Step& step : plan.steps(pass)) {
    const auto* exchange = std::get_if<Exchange>(&step.action);
    if (exchange == nullptr) continue;
    for (const Message& message : exchange->sends) {
      if (message.peer == plan.rank) continue;
      bytes += BytesOf(plan.buffers[static_cast<size_t>(message.view.buffer)], message.view);
    }
  }
  return bytes;
}

// One pass of all ranks on symbolic contents, in program order.
class PassRunner {
 public:
  PassRunner(const std::vector<RankPlan>& plans, Pass pass, std::vector<Interpreter>& interpreters)
      : plans_(plans), pass_(pass), interpreters_(interpreters) {}

  absl::Status Run() {
    for (Interpreter& interpreter : interpreters_) interpreter.Begin(pass_);
    absl::Status s =
        proof::Schedule(plans_, pass_, /*collapsed=*/true,
                        [this](int rank, int step, const std::vector<Delivery>& received) {
                          return AtPlace(plans_[static_cast<size_t>(rank)], pass_, step,
                                         RunStep(rank, step, received));
                        });
    if (!s.ok()) return s;
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      const absl::Status outputs = interpreters_[rank].CheckOutputs(pass_);
      if (!outputs.ok()) return AtPlace(plans_[rank], pass_, -1, outputs);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RunStep(int rank, int step, const std::vector<Delivery>& received) {
    Interpreter& interpreter = interpreters_[static_cast<size_t>(rank)];
    const RankPlan& plan = plans_[static_cast<size_t>(rank)];
    const Action& action = plan.steps(pass_)[static_cast<size_t>(step)].action;
    const auto* exchange = std::get_if<Exchange>(&action);
    if (exchange == nullptr) return interpreter.Run(action);
    // What is sent is what was there when both sides had come: a sender that has left already, or
    // a receive of this step, must not change it. So everything is read before anything is stored,
    // and what others have yet to read of ours is kept.
    for (size_t i = 0; i < exchange->sends.size(); ++i) {
      absl::StatusOr<std::vector<Piece>> pieces = interpreter.Read(exchange->sends[i].view);
      if (!pieces.ok()) return pieces.status();
      sent_[{rank, step, static_cast<int>(i)}] = *std::move(pieces);
    }
    for (const Delivery& delivery : received) {
      absl::StatusOr<std::vector<Piece>> pieces = Sent(delivery.from);
      if (!pieces.ok()) return pieces.status();
      const Message& message = exchange->receives[static_cast<size_t>(delivery.to.index)];
      if (absl::Status s = interpreter.Store(message.view, *pieces); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // The content of a message: kept from when its sender ran, or still there when it has not yet.
  absl::StatusOr<std::vector<Piece>> Sent(const proof::MessageEnd& from) {
    const auto kept = sent_.find({from.rank, from.step, from.index});
    if (kept != sent_.end()) {
      std::vector<Piece> pieces = std::move(kept->second);
      sent_.erase(kept);
      return pieces;
    }
    const RankPlan& plan = plans_[static_cast<size_t>(from.rank)];
    const Action& action = plan.steps(pass_)[static_cast<size_t>(from.step)].action;
    const View& view = std::get<Exchange>(action).sends[static_cast<size_t>(from.index)].view;
    return interpreters_[static_cast<size_t>(from.rank)].Read(view);
  }

  const std::vector<RankPlan>& plans_;
  const Pass pass_;
  std::vector<Interpreter>& interpreters_;
  std::map<std::tuple<int, int, int>, std::vector<Piece>> sent_;  // by rank, step, message
};

absl::Status CheckOrder(const std::vector<RankPlan>& plans, Pass pass) {
  for (const RankPlan& plan : plans) {
    if (absl::Status s = proof::CheckRaces(plan, pass); !s.ok()) return s;
  }
  // On their own streams; the collapsed order is the one that contents are run in.
  return proof::Schedule(plans, pass, /*collapsed=*/false,
                         [](int, int, const std::vector<Delivery>&) { return absl::OkStatus(); });
}

}  // namespace

absl::StatusOr<Proof> Prove(const std::vector<RankPlan>& plans,
                            const std::function<int64_t(int rank, Pass pass)>& bytes_sent) {
  if (plans.empty()) return absl::FailedPreconditionError("there is no plan");
  for (const RankPlan& plan : plans) {
    if (absl::Status s = proof::CheckStructure(plan); !s.ok()) return s;
  }
  if (absl::Status s = proof::CheckHoldings(plans); !s.ok()) return s;

  std::vector<Interpreter> interpreters;
  interpreters.reserve(plans.size());
  for (const RankPlan& plan : plans) interpreters.emplace_back(plan);
  Proof proof{.ranks = std::vector<RankFacts>(plans.size())};
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    if (absl::Status s = CheckOrder(plans, pass); !s.ok()) return s;
    if (absl::Status s = PassRunner(plans, pass, interpreters).Run(); !s.ok()) return s;
    for (size_t rank = 0; rank < plans.size(); ++rank) {
      const RankPlan& plan = plans[rank];
      RankFacts& facts = proof.ranks[rank];
      const int64_t bytes = BytesSent(plan, pass);
      const bool asked = pass == Pass::kForward || !plan.backward_outputs.empty();
      const int64_t formula = asked ? bytes_sent(plan.rank, pass) : 0;
      if (bytes != formula) {
        return absl::FailedPreconditionError(
            fmt::format("rank {}, {}: the plan sends {} bytes, the strategy's formula says {}",
                        plan.rank, Name(pass), bytes, formula));
      }
      (pass == Pass::kForward ? facts.forward_bytes_sent : facts.backward_bytes_sent) = bytes;
      facts.area = interpreters[rank].area();
      facts.peak_bytes = plan.slab_bytes;
    }
  }
  proof.digest = Digest(plans);
  return proof;
}

}  // namespace lcab::cp
