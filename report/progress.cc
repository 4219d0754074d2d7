#include "report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "proto/visible_text.h"
#include "report/quantities.h"
#include "report/rates.h"
#include "report/table.h"
#include "suites/enum_names.h"
#include "suites/labels.h"

namespace lcab::report {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(100);
constexpr int kBarWidth = 24;

// The first `width` columns of a text.
std::string Cut(const std::string& text, size_t width) {
  if (DisplayWidth(text) <= width) return text;
  std::string cut;
  size_t columns = 0;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (begins && ++columns > width) break;
    cut += c;
  }
  return cut;
}

std::string_view ColorOf(v1::Outcome outcome) {
  if (outcome == v1::OUTCOME_OK) return "\033[32m";
  if (outcome == v1::OUTCOME_UNSUPPORTED || outcome == v1::OUTCOME_CANCELLED) return "\033[2m";
  return "\033[31m";
}

// What the trial is, as far as the event tells.
std::string LabelOf(const v1::JobEvent& event) {
  return event.has_spec() ? suites::TrialLabel(event.spec()) : event.trial();
}

}  // namespace

int64_t Ended(const v1::TrialCounts& counts) {
  return counts.ok() + counts.wrong_result() + counts.unsupported() + counts.out_of_memory() +
         counts.timed_out() + counts.crashed() + counts.cancelled() + counts.lost();
}

void Progress::Show(const v1::JobEvent& event, absl::Time now) {
  if (event.job().has_counts()) counts_ = event.job().counts();
  if (started_ == absl::InfinitePast()) {
    started_ = now;
    done_at_start_ = Ended(counts_);
  }
  if (event.trial().empty()) {
    if (!event.message().empty()) Note(event.message());
  } else if (event.trial_state() == v1::TRIAL_STATE_DONE) {
    running_.erase(event.trial());
    NoteEnd(event);
    drawn_ = absl::InfinitePast();
  } else if (event.trial_state() == v1::TRIAL_STATE_RUNNING) {
    std::string& text = running_[event.trial()];
    if (event.has_spec() || text.empty()) text = LabelOf(event);
    // The stage follows the label, which later events need not carry.
    const size_t stage = text.find(" - ");
    if (stage != std::string::npos) text.resize(stage);
    if (!event.stage().empty()) text += fmt::format(" - {}", event.stage());
    if (event.samples() > 0) text += fmt::format(" {}", event.samples());
  } else {
    running_.erase(event.trial());
    if (!event.message().empty()) Note(fmt::format("{}: {}", LabelOf(event), event.message()));
  }
  Draw(now);
}

void Progress::Tick(absl::Time now) {
  if (started_ != absl::InfinitePast()) Draw(now);
}

void Progress::NoteEnd(const v1::JobEvent& event) {
  v1::Trial trial;
  *trial.mutable_spec() = event.spec();
  *trial.mutable_result() = event.result();
  trial.set_state(v1::TRIAL_STATE_DONE);
  const v1::TrialResult& result = event.result();
  // An end that was overcome, by a retry for example: its result is gone, its event says what it
  // was.
  if (result.outcome() == v1::OUTCOME_UNSPECIFIED) {
    Note(fmt::format("{}: {}", LabelOf(event), event.message()));
    return;
  }
  const std::string outcome = suites::Name(result.outcome());
  // On a terminal the bar counts what is well; only what is not is worth a line.
  if (terminal_.interactive && result.outcome() == v1::OUTCOME_OK) return;
  std::string line = fmt::format("[{}/{}] ", Ended(counts_), counts_.total());
  line +=
      terminal_.color ? fmt::format("{}{}\033[0m", ColorOf(result.outcome()), outcome) : outcome;
  std::string rest;
  rest += " " + LabelOf(event);
  if (const std::optional<double> rate = Tflops(trial)) {
    rest += fmt::format(": {} GFLOP/s, {}", ThreeDigits(*rate * 1000),
                        SecondsText(result.statistics().median_seconds()));
  }
  if (!result.reason().empty()) rest += fmt::format(": {}", result.reason());
  Print(line + VisibleText(rest));
}

void Progress::Note(std::string_view line) { Print(VisibleText(line)); }

void Progress::Print(std::string_view line) {
  Finish();
  out_ << line << '\n';
  out_.flush();
}

std::string Progress::Bar(absl::Time now) const {
  const int64_t total = std::max<int64_t>(counts_.total(), 1);
  const int64_t done = std::clamp<int64_t>(Ended(counts_), 0, total);
  const int filled = static_cast<int>(done * kBarWidth / total);
  std::string text = fmt::format("[{:#<{}}{:.<{}}] {}/{}", "", filled, "", kBarWidth - filled, done,
                                 counts_.total());
  const int64_t bad = done - counts_.ok() - counts_.unsupported();
  if (bad > 0) text += fmt::format(" ({} not ok)", bad);
  const absl::Duration elapsed = now - started_;
  if (done > done_at_start_ && done < total) {
    const double remaining =
        static_cast<double>(total - done) / static_cast<double>(done - done_at_start_);
    text += fmt::format("  {} left", WaitText(elapsed * remaining));
  } else {
    text += fmt::format("  {}", WaitText(elapsed));
  }
  if (!running_.empty()) {
    text += fmt::format("  {}", running_.begin()->second);
    if (running_.size() > 1) text += fmt::format(" and {} more", running_.size() - 1);
  }
  return text;
}

void Progress::Draw(absl::Time now) {
  if (!terminal_.interactive || counts_.total() == 0) return;
  if (now - drawn_ < kRedraw && now >= drawn_) return;
  drawn_ = now;
  // The last column stays free: some terminals wrap when it is written.
  std::string bar =
      Cut(VisibleText(Bar(now)), static_cast<size_t>(std::max(terminal_.width - 1, 1)));
  if (bar == shown_) return;
  // One write: the new text over the old one, then the rest of the old one cleared. Nothing is
  // blank in between, so nothing flickers.
  out_ << fmt::format("\r{}\033[K", bar);
  out_.flush();
  shown_ = std::move(bar);
}

void Progress::Finish() {
  if (shown_.empty()) return;
  out_ << "\r\033[K";
  out_.flush();
  shown_.clear();
}

}  // namespace lcab::report
