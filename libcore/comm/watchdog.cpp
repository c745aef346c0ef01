#include "comm/watchdog.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/console.h"
#include "base/count_of.h"
#include "base/write_activity.h"
#include "comm/communicator.h"

namespace mtl {

namespace {

constexpr double kControlSeconds = .05;
constexpr double kMaxPollPause = 1;      // between polls; after a longer pause, we assume the process was suspended
constexpr double kCollectSeconds = 1.2;  // time to wait for answers; a polling rank needs much less
constexpr double kYieldToLower = 5;      // how long a lower rank has to end the job
constexpr auto kSleep = std::chrono::milliseconds(2);
constexpr int kOtherRows = 32;  // maximum number of answering ranks outside the group to list

// Kinds of control messages. The first character is the kind. In an answer, the text follows.
constexpr char kAsks = '?';
constexpr char kAnswers = '!';
constexpr char kWrites = 'w';  // also an answer, from a rank that makes progress with writing
constexpr char kFailed = 'x';

}  // namespace

Watchdog::Wait::Wait(Watchdog& watchdog, const OperationLabel& label) : watchdog_(watchdog) {
  watchdog.waits_for_ = &label;
  watchdog.waits_since_ = watchdog.patience_since_ = watchdog.polled_at_ = now_seconds();
  watchdog.next_warning_ = 0;
}

void Watchdog::answer_control_messages(const OperationProgress& at) {
  double now = now_seconds();
  // Slurm may suspend a job for hours. Do not count time when this process did not run as waiting.
  if (now - polled_at_ > kMaxPollPause) {
    waits_since_ += now - polled_at_;
    patience_since_ += now - polled_at_;
    device_since_ += now - polled_at_;
    device_patience_since_ += now - polled_at_;
  }
  polled_at_ = now;
  if (now - control_read_at_ < kControlSeconds) return;
  control_read_at_ = now;
  read_control_messages(at);
}

void Watchdog::read_control_messages(const OperationProgress& at) {
  while (auto message = wire_.next_control_message()) {
    if (message->text.empty()) continue;
    if (message->text[0] == kAsks) {
      others_timed_out_[message->from] = now_seconds();
      wire_.post(message->from, answer(at));
    } else if (message->text[0] == kFailed) {
      if (failed_rank_ < 0) failed_rank_ = message->from;
    } else {
      answers_[message->from] = {message->text[0] == kWrites, message->text.substr(1)};
    }
  }
}

/// Returns a control message that describes this rank's state.
std::string Watchdog::answer(const OperationProgress& at) const {
  const WriteActivity writing = write_activity();
  const WriteState writes = write_state(writing, deadline_);
  if (waits_for_ != nullptr || writes == WriteState::none) return kAnswers + state(at);
  std::string what = cat(writing.path, ": ",
                         format("%.1f MB in %.0f s (%.2f MB/s)", double(writing.bytes) / 1e6, writing.seconds,
                                double(writing.bytes) / 1e6 / writing.seconds));
  if (writes == WriteState::progresses) return cat(kWrites, "writes ", what);
  return cat(kAnswers, "is inside one write call for ", human_seconds(writing.call_seconds), ": ", what);
}

std::string Watchdog::state(const OperationProgress& at) const {
  auto wait = [](const OperationLabel& label, double since) {
    return cat("waits for ", label.text(), ", ", format("%.1f s", now_seconds() - since), " so far");
  };
  std::vector<std::string> waits;
  if (waits_for_ != nullptr) waits.push_back(wait(*waits_for_, waits_since_));
  if (device_waits_for_ && waits_for_ != &*device_waits_for_)
    waits.push_back(cat("its GPU ", wait(*device_waits_for_, device_since_)));
  return waits.empty() ? cat("does not wait: it computes", at.text()) : join(waits, "; ");
}

void Watchdog::set_device_wait(const OperationLabel* label) {
  if (label == nullptr) {
    device_waits_for_.reset();
    return;
  }
  const auto same = [&](const OperationLabel& other) {
    return label->group == other.group && label->kind == other.kind && label->number == other.number &&
           label->peer == other.peer;
  };
  if (device_waits_for_ && same(*device_waits_for_)) return;
  device_waits_for_ = *label;
  device_since_ = device_patience_since_ = now_seconds();
}

void Watchdog::check_device_deadline(const OperationProgress& at) {
  if (!device_waits_for_ || waits_for_ != nullptr) return;
  if (now_seconds() - device_patience_since_ < deadline_) return;
  Wait wait(*this, *device_waits_for_);
  waits_since_ = device_since_;
  patience_since_ = device_patience_since_;
  check_deadline(at);
  device_patience_since_ = patience_since_;
}

bool Watchdog::check_deadline(const OperationProgress& at) {
  if (waits_for_ == nullptr || now_seconds() - patience_since_ < deadline_) return false;
  answers_.clear();
  post_to_others(std::string(1, kAsks));
  double end = now_seconds() + kCollectSeconds;
  auto collect_until = [&](double until) {
    while (now_seconds() < until) {
      wire_.poll();
      read_control_messages(at);
      std::this_thread::sleep_for(kSleep);
    }
  };
  collect_until(end);
  bool lower_rank_reports = std::any_of(others_timed_out_.begin(), others_timed_out_.end(), [&](const auto& other) {
    return other.first < wire_.rank() && other.second >= patience_since_;
  });
  if (waits_for_storage()) {
    if (!lower_rank_reports) warn_of_storage();
    patience_since_ = polled_at_ = now_seconds();
    return true;
  }
  std::string message = table(at);
  if (lower_rank_reports) collect_until(end + kYieldToLower);
  throw CommunicationError(message);
}

/// Returns true if all ranks answered and at least one of them is making progress on a write.
bool Watchdog::waits_for_storage() const {
  return static_cast<int>(answers_.size()) == wire_.world() - 1 &&
         std::any_of(answers_.begin(), answers_.end(), [](const auto& answer) { return answer.second.writes; });
}

/// Warns at the deadline, and again whenever the wait has doubled.
void Watchdog::warn_of_storage() {
  constexpr std::size_t kMaxNamed = 4;  // ranks to list in the warning
  const double waited = now_seconds() - waits_since_;
  if (!warn_ || waited < next_warning_) return;
  next_warning_ = 2 * waited;
  std::vector<std::string> lines;
  std::size_t writers = 0;
  for (const auto& [rank, answer] : answers_) {
    if (answer.writes && ++writers <= kMaxNamed) lines.push_back(cat(rank_name(rank), " ", answer.text));
  }
  if (writers > kMaxNamed) lines.push_back(cat("and ", count_of(writers - kMaxNamed, "more rank")));
  warn_(cat("slow storage: waited ", human_seconds(waited), " so far: ", join(lines, "; ")));
}

void Watchdog::post_to_others(const std::string& text) {
  for (int rank = 0; rank < wire_.world(); ++rank) {
    if (rank != wire_.rank()) wire_.post(rank, text);
  }
}

void Watchdog::send_failure() {
  failed_rank_ = wire_.rank();
  post_to_others(std::string(1, kFailed));
}

std::string Watchdog::rank_name(int rank) const {
  std::size_t index = rank;
  return cat("rank ", rank, index < hosts_.size() ? cat(" (", hosts_[index], ")") : "");
}

std::string Watchdog::rank_line(int rank) const {
  if (auto answer = answers_.find(rank); answer != answers_.end())
    return cat(rank_name(rank), " ", answer->second.text);
  const MpiWire::LastMessage& last = wire_.last_message(rank);
  std::string line = cat(rank_name(rank), " gave no answer: stopped or hung; ");
  if (last.seconds < 0) return line + "no message ever came from it";
  return line + cat("last message ", format("%.1f s", now_seconds() - last.seconds), " ago, in ", last.label.text());
}

std::string Watchdog::table(const OperationProgress& at) const {
  const std::vector<int>& members = waits_for_->group->ranks;
  std::string lines, others;
  int silent = 0, other_rows = 0;
  for (int rank = 0; rank < wire_.world(); ++rank) {
    bool is_self = rank == wire_.rank(), answered = is_self || answers_.count(rank) > 0;
    std::string row = cat("\n  ", is_self ? cat(rank_name(rank), " ", state(at)) : rank_line(rank));
    if (!answered) ++silent;
    if (std::find(members.begin(), members.end(), rank) != members.end()) {
      lines += row;
    } else if (!answered || ++other_rows <= kOtherRows) {
      others += row;
    }
  }
  if (!others.empty()) lines += cat("\nother ranks:", others);
  if (other_rows > kOtherRows) lines += cat("\n  and ", other_rows - kOtherRows, " that answered");
  return cat(
      waits_for_->text(), " did not end within ", human_seconds(deadline_),
      "; no weight was updated meanwhile. The ranks of this group:", lines,
      silent > 0
          ? "\ncheck the ranks that gave no answer, and their hosts; if they are only slow, raise "
            "--distributed-timeout-minutes"
          : "\nthe ranks wait for different operations; if one is only slow, raise --distributed-timeout-minutes");
}

}  // namespace mtl
