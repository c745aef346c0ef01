#include "cli/single_process.h"

#include <cstdio>
#include <thread>

#include "base/printable.h"
#include "comm/launch.h"

namespace mtl {

int run_single_process(Flags& flags, int argc, const char* const* argv, const ToolWork& work,
                       const std::function<void()>& prepare) {
  RunFrame frame;
  frame.prepare = prepare;
  const RankEnvironment job = announced_ranks();
  if (job.world <= 1) return run_main(flags, argc, argv, work, frame);
  flags.check([&] {
    flags.problem(
        cat(job.launcher, " -n ", job.world),
        cat("starts ", flags.program(), " ", job.world, " times, each doing all of the work and writing the same ",
            "output; start it without ", job.launcher, ": it runs as one process, with --threads"));
  });
  frame.is_rank_zero = job.rank == 0;
  frame.report = [&](const std::string& message, Exit) {
    if (frame.is_rank_zero)
      std::fprintf(stderr, "%s: %s\n", flags.program().c_str(), printable_message(message).c_str());
    else
      std::this_thread::sleep_for(kRankZeroFirst);  // a launcher ends the job when its first process ends
  };
  return run_main(flags, argc, argv, work, frame);
}

}  // namespace mtl
