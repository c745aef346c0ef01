#include "cli/single_process.h"

#include <malloc.h>
#include <sys/resource.h>

#include <thread>

#include "comm/launch.h"

namespace mtl {

namespace {

/// Leaves the address space that a limit (ulimit -v) allows to the work. Otherwise, glibc may reserve 64 MiB when a
/// thread allocates or frees memory for the first time, as even the one that prints signs of life does when it ends.
void use_one_arena_within_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);
}

}  // namespace

int run_single_process(Flags& flags, int argc, const char* const* argv, const ToolWork& work,
                       const std::function<void()>& prepare) {
  use_one_arena_within_limit();
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
