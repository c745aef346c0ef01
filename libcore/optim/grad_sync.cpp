#include "optim/grad_sync.h"

#include "base/console.h"
#include "device/copy.h"
#include "kernels/elementwise.h"

namespace mtl {

GradSync::GradSync(ParamStore& params, Stream& stream, const ProcessGroups& groups, Overlap overlap)
    : params_(params), stream_(stream), groups_(groups), overlap_(overlap), progress_(params.buckets().size()) {
  if (stream.is_meta()) return;
  for (const Bucket& bucket : params.buckets()) {
    const Ownership& own = bucket.key.ownership;
    registered_.push_back(groups.over(own.replicas).register_memory(bucket.grads()));
    if (!own.owners.empty()) registered_.push_back(groups.over(own.owners).register_memory(bucket.values()));
  }
}

void GradSync::begin_step() {
  params_.begin_step();
  reduces_ = true;
  for (std::size_t b = 0; b < progress_.size(); ++b) {
    progress_[b].missing = params_.buckets()[b].units;
    progress_[b].started = false;  // launching a captured update does not reset `started`
  }
}

void GradSync::begin_repetition() {
  params_.begin_step();
  reduces_ = false;
}

Lease GradSync::acquire(Role role, int unit) {
  if (role != Role::values) return {};
  for (std::size_t bucket : params_.buckets_of(unit)) {
    Work& gathering = progress_[bucket].gathering;
    wait(gathering);
    gathering = {};
  }
  groups_.over(kReplicaAxes).progress();
  return {};
}

void GradSync::gradients_ready(int unit) {
  for (std::size_t bucket : params_.buckets_of(unit)) {
    if (reduces_ && --progress_[bucket].missing == 0 && overlap_.reduce) start_reduction(bucket);
  }
  groups_.over(kReplicaAxes).progress();
}

bool GradSync::overlaps(bool is_first, bool is_last) const {
  return (is_first && overlap_.gather && groups_.over(params_.owners()).size() > 1) ||
         (is_last && overlap_.reduce && groups_.over(kReplicaAxes).size() > 1 &&
          (!reduces_ || groups_.over(Axis::pipeline).size() > 1));
}

std::vector<std::size_t> GradSync::join_reductions() {
  std::vector<std::size_t> joined;
  for (std::size_t b = 0; b < progress_.size(); ++b) {
    if (!progress_[b].started) continue;
    wait(progress_[b].reduction);
    progress_[b].reduction = {};
    joined.push_back(b);
  }
  return joined;
}

void GradSync::mark_reduced(const std::vector<std::size_t>& buckets) {
  for (std::size_t b : buckets) progress_[b].started = true;
}

void GradSync::start_reduction(std::size_t b) {
  Progress& progress = progress_[b];
  if (progress.started) return;
  progress.started = true;
  const Bucket& bucket = params_.buckets()[b];
  const Ownership& own = bucket.key.ownership;
  Communicator& replicas = groups_.over(own.replicas);
  progress.reduction = own.owners.empty() ? replicas.all_reduce(stream_, bucket.grads())
                                          : replicas.reduce_scatter(stream_, bucket.owned_grads(), bucket.grads());
}

std::vector<std::string> GradSync::nonfinite_gradients(Arena& scratch) const {
  Arena::Mark mark(scratch);
  Tensor found = scratch.make(DType::i32, {1});
  std::vector<std::string> names;
  const auto is_nonfinite = [&](const Tensor& grad) {
    find_nonfinite(stream_, found, grad);
    return host_copy<std::int32_t>(stream_, found)[0] != 0;
  };
  for (int param = 0; param < params_.size(); ++param) {
    const ParamSpec& spec = params_.specs()[param];
    const Tensor of_head = spec.ownership.on_end_stages ? params_.head_grad() : Tensor();
    if (is_nonfinite(params_.grad(param)) || (of_head.exists() && is_nonfinite(of_head))) names.push_back(spec.name);
  }
  return names;
}

void GradSync::finish_reduction() {
  params_.check_all_written();
  for (std::size_t b = 0; b < progress_.size(); ++b) start_reduction(b);
  for (std::size_t b = 0; b < progress_.size(); ++b) {
    wait(progress_[b].reduction);
    progress_[b].reduction = {};
    progress_[b].started = false;
    const Bucket& bucket = params_.buckets()[b];
    Tensor owned = bucket.owned_grads();
    wait(groups_.over(bucket.key.ownership.partial).all_reduce(stream_, owned));
    if (bucket.added_to)  // this is the last bucket, so the other sum is complete
      add(stream_, params_.buckets()[*bucket.added_to].owned_grads(), owned);
    else if (bucket.key.ownership.on_end_stages && !params_.head_grad().exists())
      wait(groups_.tied().all_reduce(stream_, owned));
  }
}

void GradSync::gather(std::size_t b) {
  const Bucket& bucket = params_.buckets()[b];
  progress_[b].gathering =
      groups_.over(bucket.key.ownership.owners).all_gather(stream_, bucket.values(), bucket.owned_values());
}

void GradSync::finish_gathering() {
  for (Progress& progress : progress_) {
    wait(progress.gathering);
    progress.gathering = {};
  }
}

void GradSync::wait(const Work& work) {
  double began = now_seconds();
  work.wait(stream_);
  waited_seconds_ += now_seconds() - began;
}

}  // namespace mtl
