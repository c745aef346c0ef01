// The end of a failed job does not depend on its launcher.
//
// Open MPI's mpirun waits for every daemon when it ends a job: also for one that it cannot reach any more, for ever. A
// script, or Slurm, that waits for mpirun would never continue.
#pragma once

namespace mtl {

/// For a rank that is about to end a failed job. Unless this process and its parent, when that is Open MPI's mpirun or
/// one of its daemons, have ended after `seconds`, another process, which outlives this one, ends them: with TERM, and
/// with KILL 3 s later. Other launchers are left alone.
void end_launcher_after(double seconds);

}  // namespace mtl
