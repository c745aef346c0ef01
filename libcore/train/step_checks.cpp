#include "train/step_checks.h"

#include <algorithm>
#include <cmath>

#include "base/str.h"
#include "run/precision_options.h"

namespace mtl {

namespace {
constexpr std::int64_t kFirstValues = 100;
constexpr double kLargeFactor = 10;
}  // namespace

StepChecks::StepChecks(const TrainOptions& options)
    : ends_at_nonfinite_(options.checks.nonfinite && !scaler_of(options.precision).is_dynamic),
      loss_{options.checks.spiky_loss},
      grad_norm_{options.checks.large_grads} {}

StepChecks::Verdict StepChecks::judge(const StepTotals& totals, const StepReport& report) {
  Verdict verdict;
  if (ends_at_nonfinite_ && report.found_inf != 0)
    verdict.failure = "the gradient is not finite";
  else if (ends_at_nonfinite_ && !std::isfinite(totals.loss()))
    verdict.failure = "the loss is not finite";
  verdict.warning = loss_.judge("loss", totals.loss());
  const std::string norm = grad_norm_.judge("gradient norm", report.grad_norm);
  if (!verdict.warning.empty() && !norm.empty()) verdict.warning += ", and ";
  verdict.warning += norm;
  return verdict;
}

std::string StepChecks::Watched::judge(const char* name, double value) {
  value = std::fabs(value);
  if (!is_watched || !std::isfinite(value)) return "";
  if (count < kFirstValues) {
    ++count;
    largest = std::max(largest, value);
    return "";
  }
  if (value < kLargeFactor * largest || value == 0) return "";
  return cat("the ", name, ", ", value, ", is ", format("%.1f", value / largest), " times the largest of the first ",
             kFirstValues, " steps, ", largest);
}

Json StepChecks::Watched::to_json() const { return Json::object({{"count", count}, {"largest", largest}}); }

void StepChecks::Watched::restore(const Json* saved) {
  if (saved == nullptr || !is_watched) return;
  count = saved->int_or("count", 0);
  largest = saved->number_or("largest", 0);
}

Json StepChecks::to_json() const {
  Json out;
  if (loss_.is_watched || grad_norm_.is_watched) out = Json::object({});
  if (loss_.is_watched) out.set("loss", loss_.to_json());
  if (grad_norm_.is_watched) out.set("grad_norm", grad_norm_.to_json());
  return out;
}

void StepChecks::restore(const Json& saved) {
  loss_.restore(saved.find("loss"));
  grad_norm_.restore(saved.find("grad_norm"));
}

}  // namespace mtl
