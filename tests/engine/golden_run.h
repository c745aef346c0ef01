// A golden run's steps: the model, its optimizer and schedule, and every step's batches, from the files of
// tests/golden/train_trajectory and others of its form.
#pragma once

#include "base/json.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "tests/engine/golden_model.h"

namespace mtl::test {

/// Returns true for key bias elements, whose gradient is 0 up to rounding.
inline bool is_key_bias(const std::string& name, std::size_t element, const GptConfig& config) {
  auto width = static_cast<std::size_t>(config.head_dim);
  return name.ends_with("qkv.bias") && element / width % 3 == 1;
}

/// Compares a parameter with the first elements of the expected one, the rows that the file has of a table.
inline void compare(const std::string& name, std::vector<float> actual, std::vector<double> expected,
                    const GptConfig& config, double max_limit, double rms_limit) {
  REQUIRE(actual.size() >= expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (is_key_bias(name, i, config)) actual[i] = 0, expected[i] = 0;
  }
  CAPTURE(name);
  if (max_limit > 0) CHECK(max_relative(actual.data(), expected) < max_limit);
  CHECK(rms_relative(actual.data(), expected) < rms_limit);
}

class GoldenRun {
 public:
  /// `hyper` has the settings of the run: its schedule, its micro-batches and clip_grad. `shape` has its vocabulary,
  /// precision and rule; the rest follows from the batches.
  GoldenRun(const std::string& model_path, const std::string& batches, Json hyper, RunShape shape, double lr_scale = 1)
      : batches_(batches),
        hyper_(std::move(hyper)),
        tokens_(read_tensor(batches_, "tokens")),
        mask_(read_tensor(batches_, "loss_mask")),
        model(model_path, sized(std::move(shape))),
        optimizer_(model.params, {.clip_grad = number("clip_grad"), .overlap = {}, .counts_zeros = true}, model.stream,
                   model.groups),
        lr_scale_(lr_scale) {
    LrScheduleFlags flags;
    flags.lr = number("lr");
    flags.min_lr = number("min_lr");
    if (const Json* lr = hyper_.find("decoupled_lr"); lr != nullptr && !lr->is_null())
      flags.decoupled_lr = lr->as_number();
    if (const Json* lr = hyper_.find("decoupled_min_lr"); lr != nullptr && !lr->is_null())
      flags.decoupled_min_lr = lr->as_number();
    flags.lr_warmup_iters = hyper_.at("warmup_iters").as_int();
    flags.lr_decay_iters = hyper_.at("decay_iters").as_int();
    flags.lr_decay_style = hyper_.at("lr_decay_style").as_string();
    flags.weight_decay = number("weight_decay");
    global_batch_ = model.shape.micro_batch * model.shape.micro_batches;
    schedule_ = resolve_schedule(flags, {hyper_.at("steps").as_int(), std::nullopt, global_batch_});
  }

  /// Runs the next step; returns the loss before the update.
  double step() {
    const RunShape& shape = model.shape;
    tokens_of_step_ = 0;
    for (int m = 0; m < shape.micro_batches; ++m) fill(m, (steps_ * shape.micro_batches + m) * shape.micro_batch);
    if (shape.per_token_loss)
      model.state.token_share =
          tokens_of_step_ / static_cast<double>(shape.micro_batches * shape.micro_batch * shape.seq_length);
    model.state.step = steps_ + 1;
    model.state.decoupled_lr = decoupled_rate(schedule_, steps_ * global_batch_);
    model.state.lr = lr_scale_ * learning_rate(schedule_, steps_ * global_batch_);
    model.state.weight_decay = weight_decay(schedule_, steps_ * global_batch_);
    model.train_step();
    model.update(optimizer_);
    optimizer_.sum_params(model.pipeline.scratch(), model.step.on_device());
    model.state.params_squares = model.step.receive(model.stream).params_squares;
    ++steps_;
    double loss = 0;
    for (int m = 0; m < shape.micro_batches; ++m) {
      const std::vector<float> weights = on_host<float>(model.buffers.batch(m).loss_weights), losses = model.losses(m);
      for (std::size_t i = 0; i < losses.size(); ++i)
        loss += static_cast<double>(weights[i]) * static_cast<double>(losses[i]);
    }
    return loss / model.state.token_share;
  }
  /// Return which fraction of the nonzero updates is lost in the weights, and in their 16-bit copies.
  double lost_share() const { return share(model.state.lost_updates); }
  double lost_copy_share() const { return share(model.state.lost_copies); }

 private:
  double number(const char* key) const { return hyper_.at(key).as_number(); }
  double share(std::int64_t count) const {
    const std::int64_t all = model.state.nonzero_updates;
    return all == 0 ? 0 : static_cast<double>(count) / static_cast<double>(all);
  }
  RunShape sized(RunShape shape) const {
    const auto& tokens = batches_.find("tokens")->shape;  // steps, micro-batches, rows, T + 1
    shape.micro_batches = static_cast<std::int64_t>(tokens[1]);
    shape.micro_batch = static_cast<std::int64_t>(tokens[2]);
    shape.seq_length = static_cast<std::int64_t>(tokens[3]) - 1;
    shape.threads = 2;
    shape.per_token_loss = hyper_.bool_or("calculate_per_token_loss", false);
    if (const Json* lr = hyper_.find("decoupled_lr")) shape.rules.decouples = !lr->is_null();
    return shape;
  }
  /// Fills micro-batch m with the rows from `row` on. A masked mean of each is the loss.
  void fill(int m, std::int64_t row) {
    const auto length = static_cast<std::size_t>(model.shape.seq_length);
    std::vector<double> inputs, labels, weights;
    double unmasked = 0;
    for (auto at = static_cast<std::size_t>(row); at < static_cast<std::size_t>(row + model.shape.micro_batch); ++at) {
      for (std::size_t t = 0; t < length; ++t) {
        inputs.push_back(tokens_[at * (length + 1) + t]);
        labels.push_back(tokens_[at * (length + 1) + t + 1]);
        weights.push_back(mask_[at * length + t]);
        unmasked += weights.back();
      }
    }
    tokens_of_step_ += unmasked;
    const double tokens = model.shape.per_token_loss ? static_cast<double>(weights.size()) : unmasked;
    for (double& weight : weights) weight /= tokens * static_cast<double>(model.shape.micro_batches);
    model.fill(m, inputs, labels, weights);
  }

  SafetensorsFile batches_;
  Json hyper_;
  std::vector<double> tokens_, mask_;

 public:
  GoldenModel model;

 private:
  Optimizer optimizer_;
  double lr_scale_;
  LrScheduleOptions schedule_;
  std::int64_t global_batch_ = 0, steps_ = 0;
  double tokens_of_step_ = 0;
};

}  // namespace mtl::test
