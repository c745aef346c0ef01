#include "optim/optimizer.h"

#include "kernels/elementwise.h"
#include "kernels/grad_norm.h"

namespace mtl {

Optimizer::Optimizer(ParamStore& params, Options options, Stream& stream, const ProcessGroups& groups)
    : params_(params),
      options_(options),
      stream_(stream),
      groups_(groups),
      sync_(params, stream, groups, options.overlap) {}

void Optimizer::step(Arena& scratch, StepState* state) {
  sync_.finish_reduction();
  gradient_norm(scratch, state);
  update_begun_ = true;
  update(state);
}

void Optimizer::gradient_norm(Arena& scratch, StepState* state) {
  Arena::Mark mark(scratch);
  Tensor sum = scratch.make(DType::f64, {1});
  fill_zero(stream_, sum);
  for (const Bucket& bucket : params_.buckets()) {
    for (const Segment& segment : bucket.segments) {
      auto [begin, count] = bucket.owned(segment);
      if (count == 0 || !params_.is_first_holder(segment.param)) continue;
      sum_of_squares(stream_, scratch, sum, bucket.grads().flat(begin, count), GradMode::accumulate);
    }
  }
  for (AxisSet axes : {params_.layout().optimizer_shards, AxisSet(Axis::tensor), AxisSet(Axis::pipeline)})
    groups_.over(axes).all_reduce(stream_, sum, Reduce::sum).wait();
  finish_grad_norm(stream_, state, sum, options_.clip_grad);
}

void Optimizer::update(const StepState* state) {
  for (std::size_t b = params_.buckets().size(); b-- > 0;) {  // the next forward needs the first layers first
    const Bucket& bucket = params_.buckets()[b];
    for (const Segment& segment : bucket.segments) {
      auto [begin, count] = bucket.owned(segment);
      if (count == 0) continue;
      std::int64_t at = begin - bucket.owned_begin;
      std::vector<Tensor> states;
      for (const Tensor& all : bucket.states()) states.push_back(all.flat(at, count));
      options_.rule.update(stream_, bucket.values().flat(begin, count), bucket.grads().flat(begin, count), states,
                           params_.specs()[static_cast<std::size_t>(segment.param)].decays, state);
    }
    sync_.gather(b);
  }
  if (!options_.overlap.gather) sync_.finish_gathering();
}

}  // namespace mtl
