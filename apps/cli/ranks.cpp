#include "cli/ranks.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace mtl {

namespace {

/// How long the other ranks leave it to rank 0 to tell what it will most likely tell too.
constexpr auto kRankZeroFirst = std::chrono::seconds(2);

}  // namespace

const RankEnvironment& Ranks::launched() {
  if (!launched_) launched_ = launched_ranks(program_);
  return *launched_;
}

int Ranks::rank() {
  try {
    return launched().rank;
  } catch (const Error&) {
    return announced_rank([](const char* name) -> const char* { return std::getenv(name); });
  }
}

MpiSession* Ranks::session() {
  if (session_ == nullptr && launched().world > 1) session_ = std::make_unique<MpiSession>(launched());
  return session_.get();
}

ProcessGroups Ranks::connect(const RankGrid& grid, bool shard_optimizer) {
  if (session() != nullptr) return make_groups(*session(), grid, shard_optimizer);
  require(grid.world() == 1, "the layout is for ", grid.world(), " ranks, and this process is alone");
  return single_process_groups();
}

void Ranks::report(const std::string& message, Exit code) {
  std::string who;
  if (session_ != nullptr) {
    who = cat("rank ", rank(), " (", session_->host(), "): ");
  } else if (rank() > 0) {
    who = cat("rank ", rank(), ": ");
  }
  if (rank() > 0) std::this_thread::sleep_for(kRankZeroFirst);
  std::fprintf(stderr, "%s: %s%s\n", program_.c_str(), who.c_str(), message.c_str());
  if (session_ == nullptr) return;
  std::fflush(stdout);
  session_->abort(static_cast<int>(code));
}

int run_ranks(Flags& flags, int argc, const char* const* argv, Ranks& ranks, const std::function<Exit(Console&)>& run) {
  RunFrame frame;
  frame.speaks = ranks.speaks();
  if (!frame.speaks) frame.name = cat(ranks.program_, ": rank ", ranks.rank());
  frame.report = [&](const std::string& message, Exit code) { ranks.report(message, code); };
  auto run_and_meet = [&](Console& console) {
    Exit code = run(console);
    std::fflush(stdout);
    if (ranks.session_ != nullptr) ranks.session_->finish();
    return code;
  };
  return run_main(flags, argc, argv, run_and_meet, frame);
}

}  // namespace mtl
