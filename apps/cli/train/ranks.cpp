#include "cli/train/ranks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/host_name.h"
#include "base/printable.h"
#include "comm/arrival_deadline.h"
#include "comm/launcher_end.h"

namespace mtl {

namespace {

constexpr double kLeastStartSeconds = 10;
constexpr double kEndSeconds = 10;

}  // namespace

const RankEnvironment& Ranks::launched() {
  if (!launched_) launched_ = launched_ranks(program_);
  return *launched_;
}

void Ranks::ignore_unsupported_launcher() {
  int own = rank();
  try {
    launched();
  } catch (const Error&) {
    launched_ = RankEnvironment{};
    launched_->rank = own;  // so that only one of several processes prints
  }
}

int Ranks::rank() {
  try {
    return launched().rank;
  } catch (const Error&) {
    return announced_rank();
  }
}

ProcessGroups Ranks::connect(double deadline, const AgreeOnGroups& agree) {
  if (launched().world == 1) return ProcessGroups();
  const double start = std::max(deadline, kLeastStartSeconds);
  ArrivalDeadline guard(start, [&] {
    give_up(
        "the start", start,
        "look for ranks that are stopped or run another program, and for hosts that cannot reach each other; if they "
        "are only slow, raise --distributed-timeout-minutes");
  });
  session_ = std::make_unique<MpiSession>(launched());
  session_->set_deadline(start);
  const Groups agreed = agree(*session_);
  ProcessGroups groups = make_groups(*session_, agreed.layout, agreed.device);
  session_->set_deadline(deadline);
  return groups;
}

void Ranks::finish() {
  if (session_ == nullptr) return;
  session_->finish(kEndSeconds, [&] {
    give_up("the end of MPI", kEndSeconds, "all work is done; look for ranks that are stopped");
  });
}

/// Runs while the main thread is inside MPI, so it cannot use the session and does not know which ranks are missing.
void Ranks::give_up(const char* place, double seconds, const char* remedy) const {
  if (launched_->rank > 0) std::this_thread::sleep_for(kRankZeroFirst);
  std::fprintf(stderr, "%s: rank %d (%s): not all %d ranks reached %s within %s; %s\n", program_.c_str(),
               launched_->rank, host_name().c_str(), launched_->world, place, human_seconds(seconds).c_str(), remedy);
  end_launcher_after();
  std::_Exit(static_cast<int>(Exit::failure));
}

void Ranks::report(const std::string& message, Exit code) {
  std::string who;
  if (session_ != nullptr || rank() > 0)
    who = cat("rank ", rank(), session_ == nullptr ? "" : cat(" (", session_->host(), ")"), ": ");
  if (rank() > 0) std::this_thread::sleep_for(kRankZeroFirst);
  std::fprintf(stderr, "%s: %s%s\n", program_.c_str(), who.c_str(), printable_message(message).c_str());
  if (session_ == nullptr) return;
  std::fflush(stdout);
  end_launcher_after();
  session_->abort(static_cast<int>(code));
}

int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const ToolWork& work, RunFrame frame) {
  frame.is_rank_zero = ranks.is_rank_zero();
  if (!frame.is_rank_zero) frame.name = cat(ranks.program_, ": rank ", ranks.rank());
  frame.report = [&](const std::string& message, Exit code) { ranks.report(message, code); };
  auto run_and_synchronize = [&](Console& console) {
    const Exit code = work.run(console);
    flush_out();
    ranks.finish();
    return code;
  };
  return run_main(flags, argc, argv, run_and_synchronize, frame);
}

}  // namespace mtl
