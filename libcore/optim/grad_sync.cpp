#include "optim/grad_sync.h"

#include "base/console.h"
#include "kernels/elementwise.h"

namespace mtl {

GradSync::GradSync(ParamStore& params, Stream& stream, const ProcessGroups& groups, Overlap overlap)
    : params_(params),
      stream_(stream),
      groups_(groups),
      overlap_(overlap),
      progress_(params.buckets().size()),
      broken_(stream.device(), static_cast<std::size_t>(params.size()) * sizeof(std::int32_t)) {
  bucket_of_.resize(static_cast<std::size_t>(params.size()));
  for (std::size_t b = 0; b < params.buckets().size(); ++b) {
    for (const Segment& segment : params.buckets()[b].segments) bucket_of_[static_cast<std::size_t>(segment.param)] = b;
  }
}

void GradSync::begin_step() {
  params_.begin_step();
  for (std::size_t b = 0; b < progress_.size(); ++b)
    progress_[b].missing = static_cast<int>(params_.buckets()[b].segments.size());
}

void GradSync::acquire(ParamRange params) {
  for (int param = params.first; param < params.end; ++param) {
    Work& gathering = progress_[bucket_of_[static_cast<std::size_t>(param)]].gathering;
    wait(gathering);
    gathering = {};
  }
  groups_.over(kReplicaAxes).progress();
}

void GradSync::gradients_ready(ParamRange params) {
  for (int param = params.first; param < params.end; ++param) {
    std::size_t bucket = bucket_of_[static_cast<std::size_t>(param)];
    if (--progress_[bucket].missing == 0 && overlap_.reduce) start_reduction(bucket);
  }
  groups_.over(kReplicaAxes).progress();
}

void GradSync::start_reduction(std::size_t b) {
  Progress& progress = progress_[b];
  if (progress.started) return;
  progress.started = true;
  const Bucket& bucket = params_.buckets()[b];
  // A rank alone finds out afterwards: nobody adds to its gradients.
  if (groups_.world().size() > 1) look_for_broken(bucket);
  Communicator& replicas = groups_.over(kReplicaAxes);
  progress.reduction = params_.layout().optimizer_shards.empty()
                           ? replicas.all_reduce(stream_, bucket.grads, Reduce::sum)
                           : replicas.reduce_scatter(stream_, bucket.owned(bucket.grads), bucket.grads);
}

void GradSync::look_for_broken(const Bucket& bucket) {
  for (const Segment& segment : bucket.segments) {
    Tensor found = broken_.tensor(DType::i32, {1}, static_cast<std::size_t>(segment.param) * sizeof(std::int32_t));
    find_nonfinite(stream_, found, bucket.grads.flat(segment.begin, segment.count));
  }
}

std::vector<std::string> GradSync::broken_gradients() {
  if (groups_.world().size() == 1) {
    for (const Bucket& bucket : params_.buckets()) look_for_broken(bucket);
  }
  const auto* found = broken_.tensor(DType::i32, {params_.size()}).data<std::int32_t>();
  std::vector<std::string> names;
  for (int param = 0; param < params_.size(); ++param) {
    if (found[param] != 0) names.push_back(params_.specs()[static_cast<std::size_t>(param)].name);
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
    Tensor owned = bucket.owned(bucket.grads);
    wait(groups_.over(bucket.summed_over - kReplicaAxes).all_reduce(stream_, owned, Reduce::sum));
    if (bucket.tied) wait(groups_.tied().all_reduce(stream_, owned, Reduce::sum));
  }
}

void GradSync::gather(std::size_t b) {
  const Bucket& bucket = params_.buckets()[b];
  progress_[b].gathering =
      groups_.over(params_.layout().optimizer_shards).all_gather(stream_, bucket.values, bucket.owned(bucket.values));
}

void GradSync::finish_gathering() {
  for (Progress& progress : progress_) {
    wait(progress.gathering);
    progress.gathering = {};
  }
}

void GradSync::wait(const Work& work) {
  if (work.done()) return;
  double began = now_seconds();
  work.wait();
  waited_seconds_ += now_seconds() - began;
}

}  // namespace mtl
