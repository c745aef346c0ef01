// Small training runs on all ranks of a job, on emulated GPUs or on cpus, for ranks.cpp and rank_faults.cpp.
#pragma once

#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "comm/groups.h"
#include "comm/mpi_session.h"
#include "comm/text_exchange.h"
#include "tests/mirror/small_run.h"

namespace mtl::test {

inline MpiSession* session = nullptr;  // of the job; set by main()

inline std::vector<int> all_ranks() {
  std::vector<int> ranks(static_cast<std::size_t>(session->world()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// A folder that all ranks use. Rank 0 removes it.
class SharedFolder {
 public:
  SharedFolder() : path_(broadcast_text(*session->control_group(), session->rank() == 0 ? own_.path() : "", 0)) {}
  /// After an exception, the other ranks may not come.
  ~SharedFolder() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) session->barrier();
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  int exceptions_ = std::uncaught_exceptions();
  ScratchFolder own_;
  std::string path_;
};

struct LayoutCase {
  const char* name;
  std::int64_t ranks, tensor, pipeline;
  void (*make)(TrainOptions&);
  std::int64_t context = 1;
};

inline void make_plain(TrainOptions&) {}

inline TrainOptions options_of(const LayoutCase& layout, Device device, const SharedFolder& folder,
                               const std::string& name) {
  TrainOptions options = options_on(device, folder / "data", folder / cat(layout.name, "-", name));
  options.architecture.num_layers = 4;
  options.architecture.num_attention_heads = 4;
  options.batch.global_batch_size = 16;
  options.batch.train_iters = 5;
  options.batch.eval_interval = 3;
  options.parallel.world = session->world();
  options.parallel.tensor = layout.tensor;
  options.parallel.pipeline = layout.pipeline;
  options.parallel.context = layout.context;
  layout.make(options);
  return options;
}

/// Runs training on all ranks, in these groups.
inline Exit run_in(const ProcessGroups& groups, const TrainOptions& options) {
  RankGroups ranks;
  ranks.rank = session->rank();
  ranks.hosts = session->hosts();
  ranks.groups = groups;
  return run(options, {}, ranks);
}

inline ProcessGroups new_groups(const TrainOptions& options) {
  return make_groups(*session, resolve_layout(options.parallel, options.architecture.num_layers, session->rank()),
                     options.device);
}

}  // namespace mtl::test
