#include "optim/optimizer.h"

#include "kernels/elementwise.h"
#include "kernels/grad_norm.h"

namespace mtl {

Optimizer::Optimizer(ParamStore& params, Options options, const ProcessGroups& groups)
    : params_(params), options_(options), groups_(groups) {}

void Optimizer::step(Stream& stream, Arena& scratch, StepState* state) {
  params_.check_all_written();
  reduce_gradients(stream);
  gradient_norm(stream, scratch, state);
  update(stream, state);
}

namespace {

/// The part of a bucket that this rank owns.
Tensor owned(const Bucket& bucket, const Tensor& whole) {
  return whole.flat(bucket.owned_begin, bucket.owned_end - bucket.owned_begin);
}

/// The owned part of a segment: first element and number of elements, in the bucket's numbers.
struct Range {
  std::int64_t begin, count;
};
Range owned(const Bucket& bucket, const Segment& segment) {
  std::int64_t begin = std::max(segment.begin, bucket.owned_begin);
  std::int64_t end = std::min(segment.begin + segment.count, bucket.owned_end);
  return {begin, std::max<std::int64_t>(0, end - begin)};
}

}  // namespace

void Optimizer::reduce_gradients(Stream& stream) {
  std::vector<Work> started;
  for (Bucket& bucket : params_.buckets()) {
    if (bucket.group == GradGroup::data_and_tied)
      groups_.embedding->all_reduce(stream, bucket.grads, Reduce::sum).wait();
    started.push_back(groups_.data->reduce_scatter(stream, owned(bucket, bucket.grads), bucket.grads));
  }
  for (Work& work : started) work.wait();
}

void Optimizer::gradient_norm(Stream& stream, Arena& scratch, StepState* state) {
  Arena::Mark mark(scratch);
  Tensor sum = scratch.make(DType::f64, {1});
  GradMode mode = GradMode::overwrite;
  for (const Bucket& bucket : params_.buckets()) {
    for (const Segment& segment : bucket.segments) {
      auto [begin, count] = owned(bucket, segment);
      if (count == 0 || !params_.specs()[static_cast<std::size_t>(segment.param)].counts_in_norm) continue;
      sum_of_squares(stream, scratch, sum, bucket.grads.flat(begin, count), mode);
      mode = GradMode::accumulate;
    }
  }
  for (Communicator* group : {groups_.data.get(), groups_.tensor.get(), groups_.pipeline.get()}) {
    group->all_reduce(stream, sum, Reduce::sum).wait();
  }
  finish_grad_norm(stream, state, sum, options_.clip_grad);
}

void Optimizer::update(Stream& stream, const StepState* state) {
  std::vector<Work> started;
  for (Bucket& bucket : params_.buckets()) {
    for (const Segment& segment : bucket.segments) {
      auto [begin, count] = owned(bucket, segment);
      if (count == 0) continue;
      std::int64_t at = begin - bucket.owned_begin;
      adamw_step(stream,
                 {bucket.values.flat(begin, count), bucket.grads.flat(begin, count), bucket.exp_avg.flat(at, count),
                  bucket.exp_avg_sq.flat(at, count), params_.specs()[static_cast<std::size_t>(segment.param)].decays},
                 options_.adamw, state);
    }
    started.push_back(groups_.data->all_gather(stream, bucket.values, owned(bucket, bucket.values)));
  }
  for (Work& work : started) work.wait();
}

}  // namespace mtl
