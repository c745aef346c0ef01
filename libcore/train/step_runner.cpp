#include "train/step_runner.h"

#include <algorithm>
#include <utility>

#include "kernels/cross_entropy.h"
#include "kernels/digest.h"
#include "kernels/elementwise.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

Optimizer::Options optimizer_options(const TrainOptions& options) {
  const OptimizerOptions& given = options.optimizer;
  return {.clip_grad = given.clip_grad,
          .overlap = run_overlap(options),
          .seed = static_cast<std::uint32_t>(options.seed),
          .counts_zeros = options.logging.num_zeros_in_grad,
          .takes_digests = options.takes_digests()};
}

}  // namespace

StepRunner::StepRunner(const TrainOptions& options, const GptConfig& config, int rank, const ProcessGroups& groups)
    : groups_(groups),
      config_(config),
      shape_(run_shape(options, config, rank)),
      takes_digests_(options.takes_digests()),
      stage_(make_stage(config, run_dropout(options), shape_)),
      params_(
          shape_.device, shape_.precision, shape_.rules, [&](const ParamVisitor& visit) { stage_.params(visit); },
          shape_.layout, shape_.storage),
      plan_(plan_run(options, config, rank)),
      save_copy_(shape_.device, plan_.bytes(Category::save_copy), Space::host),
      stream_(shape_.device, shape_.threads),
      memory_(shape_.device),
      optimizer_(params_, optimizer_options(options), stream_, groups),
      pipeline_(stage_, stream_, groups, rank_schedule(shape_.layout, static_cast<int>(shape_.micro_batches)), plan_,
                &optimizer_.traffic(), memory_.on_device()),
      graphs_(groups) {
  const BatchSizes sizes = options.batch_sizes();
  for (std::int64_t size : sizes.sizes()) {
    auto micro_batches = static_cast<int>(size / (options.batch.micro_batch_size * options.parallel.data()));
    const auto largest = static_cast<int>(shape_.micro_batches);
    schedules_.emplace(micro_batches, rank_schedule(shape_.layout, micro_batches, largest));
  }
  if (shape_.graphs) pipeline_.use_graphs(graphs_, optimizer_.traffic(), shape_);
  if (takes_digests_) optimizer_.traffic().digest_gradients(memory_.gradients_digest());
  stream_.set_tf32(options.tf32);
  stream_.set_attention_backend(parse_attention_backend(options.attention_backend));
}

std::string StepRunner::graphs_text() const {
  if (!shape_.graphs && !shape_.storage.optimizer_folder.empty())
    return "steps run without CUDA graphs, because the update waits for the files of --offload-optimizer";
  if (!shape_.graphs && shape_.layout.has_ring())
    return "steps run without CUDA graphs, because they cannot contain the messages of --cp-comm-type p2p";
  if (!shape_.graphs && shape_.layout.shards_gradients() && !optimizer_.traffic().captures_micro_batch(false, true))
    return "steps run without CUDA graphs, because with --overlap-grad-reduce, messages between stages do not wait for "
           "sums of sharded gradients";
  if (!shape_.graphs) return "steps run without CUDA graphs, as --no-cuda-graphs requests";
  std::vector<std::string> plain;
  if (shape_.layout.stages() > 1) plain.push_back("messages between stages");
  if (!optimizer_.traffic().captures_micro_batch(true, false))
    plain.push_back("the first micro-batch (--overlap-param-gather)");
  if (!optimizer_.traffic().captures_micro_batch(false, true))
    plain.push_back("the last micro-batch (--overlap-grad-reduce in a pipeline)");
  if (!optimizer_.traffic().captures_update()) plain.push_back("the update");
  std::string text = "steps run as CUDA graphs from the third on";
  if (plain.empty()) return text;
  return text + "; not as graphs: " + join(plain, ", ") +
         ", because a graph cannot wait for communication that began outside of it";
}

void StepRunner::send(StepInputs inputs) {
  optimizer_.set_factors(inputs);
  memory_.send(stream_, inputs);
}

void StepRunner::begin(const EnqueuedStep& step) {
  progress_.iteration = step.iteration;
  send(step.inputs);
  fill_zero(stream_, memory_.loss_sums());
  optimizer_.begin_step();
}

void StepRunner::rehearse(const StepBatch& batch) {
  // The second micro-batch of a chunk adds to gradients. A schedule takes whole rounds of the stages.
  const Layout& layout = shape_.layout;
  const int few = std::min(batch.micro_batches, std::max({2, layout.size(Axis::pipeline), layout.group}));
  const StepSchedule schedule = rank_schedule(layout, few, static_cast<int>(shape_.micro_batches));
  optimizer_.traffic().begin_repetition(pipeline_.scratch());
  pipeline_.train(*batch.buffers, &progress_, &schedule);
  stream_.synchronize();
}

StepReport StepRunner::compute(const EnqueuedStep& step) {
  begin(step);
  fill_zero(stream_, memory_.gradients_digest());
  graphs_.begin_step(step.batch->micro_batches);
  compute_gradients(*step.batch);
  if (counts_losses()) digest(stream_, memory_.gradients_digest(), memory_.loss_sums());
  run_part(StepGraphs::kReduction, [&] { optimizer_.reduce(pipeline_.scratch(), memory_.on_device()); });
  return memory_.receive(stream_);
}

std::int64_t StepRunner::state_digest() {
  optimizer_.digest_state(&memory_.on_device()->digests.state_after);
  return memory_.receive(stream_).digests.state_after;
}

std::int64_t StepRunner::weights_digest() {
  optimizer_.traffic().finish_gathering();
  const Tensor sum = memory_.gradients_digest();  // between two steps, it is free
  fill_zero(stream_, sum);
  for (int param = 0; param < params_.size(); ++param) digest(stream_, sum, params_.value(param));
  return memory_.receive(stream_).digests.gradients;
}

void StepRunner::enqueue(EnqueuedStep step) {
  if (!takes_digests_) {
    graphs_.begin_step(step.batch->micro_batches);
    compute_gradients(*step.batch);
  }
  update(takes_digests_);
  if (step.sums_params) optimizer_.sum_params(pipeline_.scratch(), memory_.on_device());
  if (counts_tokens()) step.totals.add_tokens(*step.batch);
  step.totals.waited = optimizer_.traffic().take_waited_seconds();
  step.report = memory_.start_report(stream_);
  queue_.push_back(step);
}

EnqueuedStep StepRunner::finish_oldest(StepReport& report) {
  const EnqueuedStep step = queue_.front();
  report = memory_.read_report(step.report);
  queue_.pop_front();
  return step;
}

StepQueue StepRunner::drop() {
  for (const EnqueuedStep& step : queue_) memory_.read_report(step.report);
  return std::exchange(queue_, {});
}

/// Runs forward and backward for every micro-batch in the step.
void StepRunner::compute_gradients(const StepBatch& batch) {
  pipeline_.train(*batch.buffers, &progress_, &schedules_.at(batch.micro_batches),
                  counts_losses() ? memory_.loss_sums() : Tensor());
}

/// Computes the gradient norm, unless the gradients are reduced already, clips them, and updates the weights.
void StepRunner::update(bool is_reduced) {
  const ProfileRange range(stream_, ProfileKind::phase, "optimizer");
  if (captures_update()) optimizer_.begin_update();
  run_part(StepGraphs::kUpdate, [&] {
    if (!is_reduced) optimizer_.reduce(pipeline_.scratch(), memory_.on_device());
    optimizer_.update(pipeline_.scratch(), memory_.on_device());
  });
}

/// Runs a part that follows the micro-batches, as a CUDA graph if possible.
void StepRunner::run_part(int action, const std::function<void()>& body) {
  if (captures_update())
    graphs_.run(stream_, {.action = action}, body);
  else
    body();
}

std::vector<std::string> StepRunner::nonfinite_gradients(const EnqueuedStep& step, bool gradients_remain) {
  if (groups_.world().size() > 1 || !gradients_remain) {
    send(step.inputs);
    optimizer_.traffic().begin_repetition(pipeline_.scratch());
    compute_gradients(*step.batch);
  }
  return optimizer_.traffic().nonfinite_gradients(pipeline_.scratch());
}

void StepRunner::begin_evaluation() { fill_zero(stream_, memory_.loss_sums()); }

void StepRunner::evaluate(const StepBatch& batch, StepTotals& totals) {
  const BatchBuffers& buffers = *batch.buffers;
  for (int m = 0; m < batch.micro_batches; ++m) pipeline_.evaluate(buffers.batch(m), buffers.losses(m));
  for (int m = 0; m < batch.micro_batches && counts_losses(); ++m)
    sum_losses(stream_, memory_.loss_sums().rows(0, 1), buffers.losses(m), buffers.batch(m).loss_weights,
               GradMode::accumulate);
  if (counts_tokens()) totals.add_tokens(batch);
}

void StepRunner::check_buffers() {
  const BufferUse use = buffer_use();
  if (!buffers_made_) {
    require(use.bytes == plan_.buffer_bytes(), "buffers of ", use.bytes, " bytes exist, ", plan_.buffer_bytes(),
            " are planned");
    buffers_made_ = use.made;
  }
  require(use.made == *buffers_made_, "a buffer was allocated after the first step");
}

/// Tensor-parallel ranks on the stage that computes the losses hold equal losses, so only one of them counts its
/// losses.
bool StepRunner::counts_losses() const {
  return shape_.layout.stage() == shape_.layout.places().loss_stage() && shape_.layout.coordinate(Axis::tensor) == 0;
}

/// Context-parallel ranks each count the losses of their parts of the samples, but only one counts the samples' tokens.
bool StepRunner::counts_tokens() const { return counts_losses() && shape_.layout.coordinate(Axis::context) == 0; }

}  // namespace mtl
