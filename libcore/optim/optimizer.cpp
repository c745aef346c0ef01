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
  // By parameter, not by bucket: the order of the sum does not depend on how large buckets are.
  for (int param = params_.size(); param-- > 0;) {
    Tensor owned = params_.owned(param, kGradients);
    if (owned.numel() == 0 || !params_.is_first_holder(param)) continue;
    sum_of_squares(stream_, scratch, sum, owned, GradMode::accumulate);
  }
  for (AxisSet axes : {params_.layout().optimizer_shards, AxisSet(Axis::tensor), AxisSet(Axis::pipeline)})
    groups_.over(axes).all_reduce(stream_, sum).wait(stream_);
  finish_grad_norm(stream_, state, sum, options_.clip_grad);
}

void Optimizer::update(const StepState* state) {
  for (std::size_t b = params_.buckets().size(); b-- > 0;) {  // the next forward needs the first layers first
    const Bucket& bucket = params_.buckets()[b];
    options_.rule.update(stream_, bucket.owned_values(), bucket.owned_grads(), bucket.states(), bucket.key.decays,
                         state);
    sync_.gather(b);
  }
  if (!options_.overlap.gather) sync_.finish_gathering();
}

}  // namespace mtl
