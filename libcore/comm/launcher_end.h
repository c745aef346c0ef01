// Terminates the launcher if it hangs when a job fails.
//
// When Open MPI's mpirun ends a job, it waits for all of its daemons. If it cannot reach a daemon, it waits forever,
// and so does the script or Slurm job that runs mpirun.
#pragma once

namespace mtl {

/// How long a launcher may take to end a failed job.
inline constexpr double kLauncherSeconds = 15;

/// Must be called before a rank aborts or leaves its job. If the parent process is Open MPI's mpirun or one of its
/// daemons, starts a process that watches the parent and this process. After `seconds`, it sends SIGTERM to both, and 3
/// s later SIGKILL. Processes that have already ended get no signal. Does nothing under other launchers.
void end_launcher_after(double seconds = kLauncherSeconds);

}  // namespace mtl
