// Ends the launcher of a failed job if it does not end by itself.
//
// When Open MPI's mpirun ends a job, it waits for all its daemons, forever for one that it cannot reach. A script, or
// Slurm, that waits for mpirun would hang.
#pragma once

namespace mtl {

/// Call before a failed job is aborted. Starts a process that outlives this one: after `seconds` it ends this process
/// and its parent, if that is Open MPI's mpirun or one of its daemons, with TERM and, 3 s later, with KILL. Does
/// nothing under other launchers.
void end_launcher_after(double seconds);

}  // namespace mtl
