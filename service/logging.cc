#include "service/logging.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "proto/visible_text.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace lcab::service {
namespace {

// Messages carry names and reasons that others chose: none of them acts upon the terminal, or looks
// like a line of its own.
class VisibleFormatter : public spdlog::formatter {
 public:
  explicit VisibleFormatter(std::unique_ptr<spdlog::formatter> lines) : lines_(std::move(lines)) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string payload =
        VisibleText(std::string_view(message.payload.data(), message.payload.size()));
    spdlog::details::log_msg visible = message;
    visible.payload = payload;
    lines_->format(visible, line);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<VisibleFormatter>(lines_->clone());
  }

 private:
  const std::unique_ptr<spdlog::formatter> lines_;
};

}  // namespace

absl::Status SetUpLogging(std::string_view level) {
  constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 6> kLevels = {{
      {"trace", spdlog::level::trace},
      {"debug", spdlog::level::debug},
      {"info", spdlog::level::info},
      {"warn", spdlog::level::warn},
      {"error", spdlog::level::err},
      {"off", spdlog::level::off},
  }};
  for (const auto& [name, value] : kLevels) {
    if (name != level) continue;
    auto logger =
        std::make_shared<spdlog::logger>("lcab", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_formatter(
        std::make_unique<VisibleFormatter>(std::make_unique<spdlog::pattern_formatter>(
            "%Y-%m-%dT%H:%M:%S.%eZ %l %v", spdlog::pattern_time_type::utc)));
    logger->set_level(value);
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "'{}' is no log level; there are trace, debug, info, warn, error and off", level));
}

}  // namespace lcab::service
