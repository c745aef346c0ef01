#include "cli/single_process.h"

#include <thread>

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
  if (!frame.is_rank_zero)  // a launcher ends the job when its first process ends
    frame.report = [](const std::string&, Exit) { std::this_thread::sleep_for(kRankZeroFirst); };
  return run_main(flags, argc, argv, work, frame);
}

}  // namespace mtl
