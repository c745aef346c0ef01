#include "train/run_settings.h"

#include <cmath>

#include "base/str.h"
#include "optim/schedule_record.h"

namespace mtl {

namespace {

constexpr const char* kOverride = "--override-opt_param-scheduler";
constexpr const char* kUseCheckpoint = "--use-checkpoint-opt_param-scheduler";

/// Returns the schedule in a checkpoint's state, or null.
const Json* recorded_schedule(const Json& extra) {
  const Json* settings = extra.is_object() ? extra.find("settings") : nullptr;
  return settings == nullptr ? nullptr : settings->find("schedule");
}

LrScheduleOptions schedule_of_flags(const TrainOptions& options) {
  return resolve_schedule(options.optimizer.schedule, {.train_iters = options.batch.train_iters,
                                                       .train_samples = options.batch.train_samples,
                                                       .global_batch_size = options.global_batch_size()});
}

/// Returns a value as a flag takes it: whole numbers without a fraction.
std::string value_text(const Json* value) {
  if (value == nullptr) return "not set";
  if (value->is_string()) return value->as_string();
  const double number = value->is_number() ? value->as_number() : 0.5;
  return number == std::floor(number) && std::abs(number) < 1e15 ? cat(static_cast<std::int64_t>(number))
                                                                 : value->dump();
}

}  // namespace

std::string differences_of(const Json& before, const Json& now) {
  std::vector<std::string> out;
  const auto compare = [&](const std::string& key, const Json* old_value, const Json* new_value) {
    if (old_value != nullptr && new_value != nullptr) {
      const bool are_numbers = old_value->is_number() && new_value->is_number();
      if (are_numbers ? old_value->as_number() == new_value->as_number() : old_value->dump() == new_value->dump())
        return;
    }
    out.push_back(cat(key, " ", value_text(old_value), ", now ", value_text(new_value)));
  };
  for (const auto& [key, value] : before.as_object()) compare(key, &value, now.find(key));
  for (const auto& [key, value] : now.as_object()) {
    if (before.find(key) == nullptr) compare(key, nullptr, &value);
  }
  return join(out, "; ");
}

namespace {

/// Returns a schedule's record under the names that this run's flags have, without what `other` lacks: a style or a
/// warm-up that differs implies it. `is_same_batch` says that an iteration of both runs has as many samples.
Json as_flags(const Json& record, const Json& other, const TrainOptions& options, bool is_same_batch) {
  const LrScheduleFlags& given = options.optimizer.schedule;
  const bool in_iterations = options.batch.train_iters && is_same_batch;
  Json out = Json::object({});
  for (const auto& [key, value] : record.as_object()) {
    if (other.find(key) == nullptr) continue;
    const std::size_t unit = key.rfind("-samples");
    if (unit == std::string::npos || !value.is_number()) {
      out.set(key, value);
      continue;
    }
    std::string name = options.batch.train_iters ? key.substr(0, unit) + "-iters" : key;
    const bool is_fraction = key == "--lr-warmup-samples" && given.lr_warmup_fraction;
    if (is_fraction) name = "--lr-warmup-fraction";
    if (key == "--lr-decay-samples" && !given.lr_decay_iters && !given.lr_decay_samples)
      name += options.batch.train_iters ? " (default: --train-iters)" : " (default: --train-samples)";
    if (is_fraction && in_iterations)
      name += " in iterations";
    else if (is_fraction || (options.batch.train_iters && !in_iterations))
      name += " in samples";
    out.set(name, in_iterations ? value.as_number() / double(options.global_batch_size()) : value.as_number());
  }
  return out;
}

/// Returns the settings outside the schedule.
Json other_settings(const TrainOptions& options) {
  const OptimizerOptions& optimizer = options.optimizer;
  const ModelDropout dropout = options.dropout();
  Json out = Json::object({{"--global-batch-size", options.global_batch_size()},
                           {"--seq-length", options.data.seq_length},
                           {"--clip-grad", optimizer.clip_grad},
                           {"--hidden-dropout", dropout.hidden},
                           {"--attention-dropout", dropout.attention},
                           {"--seed", options.seed},
                           {"--eod-mask-loss", options.data.eod_mask_loss},
                           {"--reset-position-ids", options.data.reset_position_ids},
                           {"--reset-attention-mask", options.data.reset_attention_mask}});
  if (options.batch.per_token_loss) out.set("--calculate-per-token-loss", true);
  if (options.batch.z_loss != 0) out.set("--z-loss-coeff", options.batch.z_loss);
  if (optimizer.name != "adam") out.set("--optimizer", optimizer.name);
  if (optimizer.name != "sgd") {
    out.set("--adam-beta1", optimizer.adam_beta1);
    out.set("--adam-beta2", optimizer.adam_beta2);
    out.set("--adam-eps", optimizer.adam_eps);
  } else {
    out.set("--sgd-momentum", optimizer.sgd_momentum);
  }
  if (const MuonRuleOptions& muon = optimizer.muon; optimizer.name == "muon") {
    out.set("--muon-momentum", muon.momentum).set("--muon-nesterov", muon.nesterov);
    out.set("--muon-no-split-qkv", optimizer.muon_no_split_qkv);
    out.set("--muon-no-position-embedding", optimizer.muon_no_positions);
    out.set("--muon-scale-mode", optimizer.muon_scale_mode).set("--muon-extra-scale-factor", muon.extra_scale);
    out.set("--muon-coefficient-type", muon.coefficients).set("--muon-num-ns-steps", muon.steps);
    if (const auto& precision = optimizer.muon_fp32_matmul_prec) out.set("--muon-fp32-matmul-prec", *precision);
  }
  if (!options.batch.rampup.empty()) out.set("--rampup-batch-size", join(options.batch.rampup, " "));
  if (!options.batch.schedule.empty()) out.set("--step-batch-size-schedule", options.batch.schedule);
  // Ranks that share a permutation form other micro-batches of several samples than another number of ranks does.
  const DataOptions& data = options.data;
  if (data.sampler_kind() == SamplerKind::cyclic && !data.data_sharding && options.batch.micro_batch_size > 1)
    out.set("data-parallel size", options.parallel.data());
  if (options.precision.has_constant_scale()) out.set("--loss-scale", *options.precision.loss_scale);
  return out;
}

}  // namespace

LrScheduleOptions run_schedule(const TrainOptions& options, const Json& extra) {
  const Json* recorded = options.checkpoint.use_checkpoint_schedule ? recorded_schedule(extra) : nullptr;
  return recorded != nullptr ? schedule_from_record(*recorded) : schedule_of_flags(options);
}

Json settings_record(const TrainOptions& options, const LrScheduleOptions& schedule) {
  return Json::object({{"schedule", schedule_record(schedule)}, {"other", other_settings(options)}});
}

std::vector<std::string> changed_settings(const TrainOptions& options, const std::string& folder, const Json& extra,
                                          const ReportProblem& report) {
  std::vector<std::string> out;
  const CheckpointOptions& flags = options.checkpoint;
  const Json* schedule = recorded_schedule(extra);
  if (schedule == nullptr) {
    if (flags.use_checkpoint_schedule)
      report(kUseCheckpoint,
             cat("cannot be used, because ", folder,
                 " has no schedule that mtl reads; leave the flag out, and set the schedule with flags"));
    return out;
  }
  const Json& other = extra.at("settings").at("other");
  std::string changes;
  if (options.optimizer.schedule.lr && options.train_iters() > 0) {  // a dry run may have no schedule
    const Json now = schedule_record(schedule_of_flags(options)), *batch = other.find("--global-batch-size");
    const bool is_same_batch = batch != nullptr && *batch == Json(options.global_batch_size());
    changes = differences_of(as_flags(*schedule, now, options, is_same_batch),
                             as_flags(now, *schedule, options, is_same_batch));
  }
  if (!changes.empty() && flags.use_checkpoint_schedule)
    out.push_back(cat(folder, " continues with its own schedule, not with that of the flags: ", changes));
  else if (!changes.empty() && flags.override_schedule)
    out.push_back(cat(folder, " continues with another schedule: ", changes));
  else if (!changes.empty())
    report(folder, cat("was trained with another schedule: ", changes, "; add ", kOverride,
                       " to continue with the schedule of the flags, or ", kUseCheckpoint,
                       " to continue with that of the checkpoint"));
  const std::string others = differences_of(other, other_settings(options));
  if (!others.empty()) out.push_back(cat(folder, " continues with other settings: ", others));
  return out;
}

}  // namespace mtl
