// Ends the launcher of a failed job if it does not end by itself.
//
// When Open MPI's mpirun ends a job, it waits for all its daemons, forever if it cannot reach one. A script, or Slurm,
// that waits for mpirun would hang.
#pragma once

namespace mtl {

/// Call before aborting a failed job. If this process's parent is Open MPI's mpirun or one of its daemons, starts a
/// process that ends both after `seconds`, unless they have ended: with TERM and, 3 s later, with KILL. Does nothing
/// under other launchers.
void end_launcher_after(double seconds);

}  // namespace mtl
