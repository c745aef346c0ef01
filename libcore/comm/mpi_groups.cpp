#include "base/count_of.h"
#include "comm/groups.h"
#include "comm/mpi_session.h"

namespace mtl {

ProcessGroups make_groups(MpiSession& session, const RankGrid& grid, Device device, MessagePaths paths) {
  if (grid.world() != session.world())
    fail(Exit::usage, "the layout needs ", count_of(grid.world(), "rank"), ", but the job has ", session.world(),
         "; start ", count_of(grid.world(), "rank"), ", or change the layout");
  // Creating a group blocks without a deadline. Call the barrier first, because its error reports which rank is
  // missing.
  session.barrier();
  return {grid, session.rank(), [&](const std::vector<int>& ranks, const std::string& name) {
            if (name == "world") return session.control_group();
            if (device != Device::cuda) return session.group(ranks, name);
            return session.gpu_group(ranks, name, name == "pipeline" ? paths : MessagePaths::none);
          }};
}

}  // namespace mtl
