#include "comm/watchdog.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/console.h"
#include "comm/communicator.h"

namespace mtl {

namespace {

constexpr double kLookSeconds = .05;
constexpr double kOwnPause = 1;          // between two polls of a rank that waits
constexpr double kCollectSeconds = 1.2;  // for answers; several times what a rank that polls needs
constexpr double kYieldToLower = 5;      // for a lower rank to end the job
constexpr auto kNap = std::chrono::milliseconds(2);
constexpr int kOtherRows = 32;  // ranks outside the group that are listed although they answered

// Letters: the first character says what it is, the rest is an answer's text.
constexpr char kAsks = '?';
constexpr char kAnswers = '!';
constexpr char kFailed = 'x';

}  // namespace

Watchdog::Wait::Wait(Watchdog& watchdog, const OperationLabel& label) : watchdog_(watchdog) {
  watchdog.waits_for_ = &label;
  watchdog.waits_since_ = watchdog.last_look_ = now_seconds();
}

void Watchdog::look(const OperationProgress& at) {
  double now = now_seconds();
  // A job that Slurm suspends comes back hours later: time in which this process did not run is no waiting.
  if (now - last_look_ > kOwnPause) waits_since_ += now - last_look_;
  last_look_ = now;
  if (now - last_letters_ < kLookSeconds) return;
  last_letters_ = now;
  read_letters(at);
}

void Watchdog::read_letters(const OperationProgress& at) {
  while (auto letter = wire_.next_letter()) {
    if (letter->text.empty()) continue;
    if (letter->text[0] == kAsks) {
      others_timed_out_.insert(letter->from);
      wire_.post(letter->from, kAnswers + state(at));
    } else if (letter->text[0] == kFailed) {
      if (failed_rank_ < 0) failed_rank_ = letter->from;
    } else {
      answers_[letter->from] = letter->text.substr(1);
    }
  }
}

std::string Watchdog::state(const OperationProgress& at) const {
  if (waits_for_ == nullptr) return cat("does not wait: it computes", at.text());
  return cat("waits for ", waits_for_->text(), " since ", format("%.1f s", now_seconds() - waits_since_));
}

void Watchdog::check_deadline(const OperationProgress& at) {
  if (waits_for_ == nullptr || now_seconds() - waits_since_ < deadline_) return;
  post_to_others(std::string(1, kAsks));
  double end = now_seconds() + kCollectSeconds;
  auto collect_until = [&](double until) {
    while (now_seconds() < until) {
      wire_.poll();
      read_letters(at);
      std::this_thread::sleep_for(kNap);
    }
  };
  collect_until(end);
  bool lower_tells = !others_timed_out_.empty() && *others_timed_out_.begin() < wire_.rank();
  std::string message = table(at);
  if (lower_tells) collect_until(end + kYieldToLower);
  throw CommunicationError(message);
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
  std::size_t index = static_cast<std::size_t>(rank);
  return cat("rank ", rank, index < hosts_.size() ? cat(" (", hosts_[index], ")") : "");
}

std::string Watchdog::rank_line(int rank) const {
  if (auto answer = answers_.find(rank); answer != answers_.end()) return cat(rank_name(rank), " ", answer->second);
  const MpiWire::Heard& heard = wire_.heard(rank);
  std::string line = cat(rank_name(rank), " gave no answer: stopped or hung; ");
  if (heard.seconds < 0) return line + "nothing was ever heard of it";
  return line + cat("last heard of ", format("%.1f s", now_seconds() - heard.seconds), " ago, in ", heard.label.text());
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
  return cat(waits_for_->text(), " did not end within ", human_seconds(deadline_),
             "; nothing was updated since. Its members:", lines,
             silent > 0 ? "\nlook at the silent ranks and their hosts; if they are only slow, allow more time"
                        : "\nthe ranks wait for different things; if one is only slow, allow more time");
}

}  // namespace mtl
