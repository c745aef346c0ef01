#include "base/count_of.h"
#include "comm/groups.h"
#include "comm/mpi_session.h"

namespace mtl {

namespace {

/// Returns the paths of messages within the group `name`.
MessagePaths message_paths(const Layout& layout, const std::string& name) {
  if (name == "context" && layout.has_ring()) return MessagePaths::ring;
  if (name != "pipeline") return MessagePaths::none;
  if (layout.places().arrangement == Arrangement::vee) return MessagePaths::vee;
  return layout.chunks > 1 ? MessagePaths::ring : MessagePaths::chain;
}

}  // namespace

ProcessGroups make_groups(MpiSession& session, const Layout& layout, Device device) {
  const int world = layout.grid.world();
  if (world != session.world())
    fail(Exit::usage, "the layout needs ", count_of(world, "rank"), ", but the job has ", session.world(), "; start ",
         count_of(world, "rank"), ", or change the layout");
  require(layout.rank == session.rank(), "rank ", session.rank(), " has the layout of rank ", layout.rank);
  // Creating a group blocks without a deadline. Call the barrier first, because its error reports which rank is
  // missing.
  session.barrier();
  return {layout, [&](const std::vector<int>& ranks, const std::string& name) {
            if (name == "world") return session.control_group();
            if (device != Device::cuda) return session.group(ranks, name);
            return session.gpu_group(ranks, name, message_paths(layout, name));
          }};
}

}  // namespace mtl
