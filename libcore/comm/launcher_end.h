// Ends the launcher of a failed job if the launcher hangs.
//
// When Open MPI's mpirun ends a job, mpirun waits for all of its daemons. If it cannot reach one of them, it waits
// forever, and so does the script or the Slurm job that waits for mpirun.
#pragma once

namespace mtl {

/// Call this before aborting a failed job. If the parent of this process is Open MPI's mpirun or one of its daemons,
/// starts a watching process. After `seconds`, the watching process sends TERM to the parent and to this process, and 3
/// s later KILL. A process that has already ended gets no signal. No-op under other launchers.
void end_launcher_after(double seconds);

}  // namespace mtl
