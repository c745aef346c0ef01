#include "train/disk_fit.h"

#include <sys/stat.h>

#include <algorithm>
#include <numeric>

#include "base/count_of.h"
#include "base/disk_space.h"
#include "base/files.h"
#include "base/scratch_file.h"
#include "ckpt/shard_writer.h"
#include "engine/meta_model.h"
#include "models/canonical.h"
#include "optim/update_rule.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

/// Counts the checkpoints in a folder, including damaged ones, which also use disk space.
std::int64_t count_checkpoints(const std::string& folder) {
  return std::ranges::count_if(list_names(folder), [](const std::string& name) {
    return starts_with(name, "iter_") && name.find('.') == std::string::npos;
  });
}

bool on_same_disk(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev;
}

}  // namespace

SpaceNeed space_need(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                     std::int64_t present) {
  SpaceNeed need;
  need.checkpoint_bytes = static_cast<std::uint64_t>(run_checkpoint_bytes(options, config));
  const std::int64_t end = options.train_iters();
  if (iteration >= end) return need;
  const std::int64_t given = options.checkpoint.save_interval.value_or(0), interval = given > 0 ? given : end;
  const auto multiples = [&](std::int64_t every) { return end / every - iteration / every; };
  const auto between = [&](std::int64_t every) {  // multiples of `every`, but not of the interval
    std::int64_t common = 0;
    const bool has_common = !__builtin_mul_overflow(every / std::gcd(every, interval), interval, &common);
    return multiples(every) - (has_common ? multiples(common) : 0);
  };
  // One at each multiple of the interval, and one at the end.
  need.checkpoints = multiples(interval);
  bool counts_end = end % interval == 0;
  const bool keeps_best = options.checkpoint.keep_best;
  const std::int64_t evaluated = options.batch.eval_interval;
  if (keeps_best && evaluated > 0) {  // as long as the loss falls, every validation saves
    need.checkpoints += between(evaluated);
    counts_end = counts_end || end % evaluated == 0;
  }
  need.checkpoints += counts_end ? 0 : 1;
  // The oldest is deleted only when the newest is complete.
  if (const std::int64_t kept = options.checkpoint.newest_kept(); kept > 0) {
    const std::int64_t multiples_of = options.checkpoint.retained();
    const std::int64_t retained = multiples_of > 0 ? multiples(multiples_of) : 0;
    const std::int64_t most = kept + (keeps_best ? 2 : 1);
    need.checkpoints = std::min(need.checkpoints, std::max<std::int64_t>(1, most - present) + retained);
  }
  // The newest of these while the next one is written, and one before it if there is no other.
  if (const std::int64_t every = options.checkpoint.non_persistent_interval.value_or(0); every > 0)
    need.checkpoints += std::min<std::int64_t>(between(every), need.checkpoints == 1 ? 2 : 1);
  return need;
}

std::string check_space(const SpaceNeed& need, std::uint64_t free_bytes, const std::string& folder) {
  if (need.checkpoints == 0) return "";
  const std::string size = human_bytes(need.checkpoint_bytes);
  const std::string available = human_bytes(free_bytes) + " are free";
  const std::uint64_t fitting = free_bytes / std::max<std::uint64_t>(1, need.checkpoint_bytes);
  if (fitting == 0)
    fail(Exit::io, folder, ": a checkpoint takes ", size, ", but only ", available,
         "; free some space, or choose another --save folder");
  if (fitting >= static_cast<std::uint64_t>(need.checkpoints)) return "";
  return cat(folder, ": the run adds ", count_of(need.checkpoints, "checkpoint"), " of ", size, ", but only ",
             available, ", enough for ", fitting,
             "; free some space, or save less with --keep-last or a larger --save-interval");
}

std::string check_save_folder(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                              std::uint64_t state_bytes) {
  const std::string folder = nearest_existing(options.checkpoint.save);
  const auto free = free_disk_bytes(folder);
  if (!free) return "";
  const SpaceNeed need = space_need(options, config, iteration, count_checkpoints(options.checkpoint.save));
  const bool shares_disk = on_same_disk(folder, options.parallel.offload_optimizer);
  const std::uint64_t taken = shares_disk ? std::min(*free, state_bytes) : 0;
  return check_space(need, *free - taken, "--save " + options.checkpoint.save);
}

void check_shard_size(const TrainOptions& options, const GptConfig& config, std::int64_t iteration, int rank) {
  const auto limit = file_size_limit();
  if (!limit || !options.writes_save() || iteration >= options.train_iters()) return;
  const RunShape shape = run_shape(options, config, rank);
  const MetaModel model(config, {}, shape);
  std::uint64_t bytes = 0;
  for (const TensorToSave& item : tensors_to_save(model.params, shape.saves_states))
    bytes += static_cast<std::uint64_t>(item.slice.count() * bits_of(item.tensor.dtype) / 8);
  if (bytes <= *limit) return;
  fail(Exit::io, "--save ", options.checkpoint.save, ": ", shard_name(rank), " of a checkpoint takes ",
       human_bytes(bytes), ", but a file can have only ", human_bytes(*limit),
       "; raise the limit of file sizes (ulimit -f)");
}

std::string check_offload_folder(const std::string& folder, std::uint64_t state_bytes) {
  const std::string label = "--offload-optimizer " + folder;
  const ScratchFile trial(label, folder, 0);
  if (const auto free = free_disk_bytes(folder); free && *free < state_bytes)
    fail(Exit::io, label, ": the files of this host's ranks take ", human_bytes(state_bytes), ", but only ",
         human_bytes(*free), " are free; free some space, or choose a folder on another disk");
  if (!is_in_memory(folder)) return "";
  return label + " is in memory (tmpfs), so its files take the memory that they should save; choose a folder on a disk";
}

}  // namespace mtl
