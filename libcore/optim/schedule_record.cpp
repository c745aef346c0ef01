#include "optim/schedule_record.h"

#include "base/enum_index.h"
#include "base/error.h"

namespace mtl {

namespace {

/// Returns the enum whose name is record[key]; `names` are in the order of the enum.
template <class Style, std::size_t N>
Style style_at(const Json& record, const char* key, const std::array<const char*, N>& names) {
  const std::string& name = record.at(key).as_string();
  if (const auto style = enum_named<Style>(names, name)) return *style;
  fail(Exit::bad_data, "the checkpoint's ", key, " is '", name,
       "', which this version of mtl does not know; use the version that wrote the checkpoint");
}

}  // namespace

Json schedule_record(const LrScheduleOptions& schedule) {
  Json out = Json::object({{"--lr", schedule.lr},
                           {"--lr-decay-style", kLrDecayStyles[enum_index(schedule.decay_style)]},
                           {"--lr-warmup-samples", schedule.warmup_steps}});
  if (schedule.warmup_steps > 0) out.set("--lr-warmup-init", schedule.warmup_init);
  if (schedule.decay_style != LrDecayStyle::constant)
    out.set("--min-lr", schedule.min_lr).set("--lr-decay-samples", schedule.decay_steps);
  if (schedule.decoupled)
    out.set("--decoupled-lr", schedule.decoupled->lr).set("--decoupled-min-lr", schedule.decoupled->min_lr);
  if (schedule.decay_style == LrDecayStyle::wsd) {
    out.set("--lr-wsd-decay-style", kWsdDecayStyles[enum_index(schedule.wsd_decay_style)]);
    out.set("--lr-wsd-decay-samples", schedule.wsd_decay_steps);
  }
  const bool grows = schedule.weight_decay_style != WeightDecayStyle::constant;
  out.set("--weight-decay-incr-style", kWeightDecayStyles[enum_index(schedule.weight_decay_style)]);
  if (!grows) return out.set("--weight-decay", schedule.end_weight_decay);
  out.set("--start-weight-decay", schedule.start_weight_decay).set("--end-weight-decay", schedule.end_weight_decay);
  return out.set("--train-samples", schedule.wd_incr_steps);  // over which the weight decay grows
}

LrScheduleOptions schedule_from_record(const Json& record) {
  LrScheduleOptions out;
  out.lr = record.at("--lr").as_number();
  out.decay_style = style_at<LrDecayStyle>(record, "--lr-decay-style", kLrDecayStyles);
  out.warmup_steps = record.at("--lr-warmup-samples").as_number();
  if (out.warmup_steps > 0) out.warmup_init = record.at("--lr-warmup-init").as_number();
  if (out.decay_style != LrDecayStyle::constant) {
    out.min_lr = record.at("--min-lr").as_number();
    out.decay_steps = record.at("--lr-decay-samples").as_int();
    if (!(out.warmup_steps < double(out.decay_steps)))
      fail(Exit::bad_data, "the checkpoint's --lr-warmup-samples is ", out.warmup_steps,
           ", which is not below --lr-decay-samples, ", out.decay_steps);
  }
  if (const Json* lr = record.find("--decoupled-lr"))
    out.decoupled = {lr->as_number(), record.at("--decoupled-min-lr").as_number()};
  if (out.decay_style == LrDecayStyle::wsd) {
    out.wsd_decay_style = style_at<WsdDecayStyle>(record, "--lr-wsd-decay-style", kWsdDecayStyles);
    out.wsd_decay_steps = record.at("--lr-wsd-decay-samples").as_int();
  }
  out.weight_decay_style = style_at<WeightDecayStyle>(record, "--weight-decay-incr-style", kWeightDecayStyles);
  if (out.weight_decay_style == WeightDecayStyle::constant) {
    out.start_weight_decay = out.end_weight_decay = record.at("--weight-decay").as_number();
  } else {
    out.start_weight_decay = record.at("--start-weight-decay").as_number();
    out.end_weight_decay = record.at("--end-weight-decay").as_number();
    out.wd_incr_steps = record.at("--train-samples").as_int();
  }
  return out;
}

}  // namespace mtl
