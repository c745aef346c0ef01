// Terminates the launcher of a failed job if the launcher hangs.
//
// When Open MPI's mpirun ends a job, it waits for all of its daemons. If it cannot reach one of them, it waits forever,
// and so does the script or Slurm job that waits for mpirun.
#pragma once

namespace mtl {

/// Must be called before aborting a failed job. If this process's parent is Open MPI's mpirun or one of its daemons,
/// starts a watching process. After `seconds`, that process sends TERM to the parent and to this process, and KILL 3 s
/// later. A process that has already ended gets no signal. Does nothing under other launchers.
void end_launcher_after(double seconds);

}  // namespace mtl
