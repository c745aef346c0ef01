#include "data/batch_size.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mtl {
namespace {

/// Parses a threshold: "250B" gives 250 000 000 000. Returns nullopt if `text` is not a number in [0, 9e18].
std::optional<std::int64_t> parse_threshold(std::string_view text) {
  constexpr std::string_view kSuffixes = "KMBT";
  const std::size_t power = text.empty() ? std::string_view::npos : kSuffixes.find(text.back());
  std::int64_t factor = 1;
  if (power != std::string_view::npos) {
    text.remove_suffix(1);
    for (std::size_t i = 0; i <= power; ++i) factor *= 1000;
  }
  const auto number = parse_float(text);
  const double value = number.value_or(-1) * double(factor);
  if (!(value >= 0) || value > 9e18) return std::nullopt;
  if (const auto integer = parse_int(text)) return *integer * factor;  // exact even above 2^53, unlike f64
  return static_cast<std::int64_t>(value);
}

std::int64_t micro_batch_times_data_parallel(const BatchSizeOptions& options) {
  const std::pair<const char*, std::int64_t> sizes[] = {{"global batch size", options.global_batch_size},
                                                        {"micro-batch size", options.micro_batch_size},
                                                        {"data-parallel size", options.data_parallel_size}};
  for (const auto& [name, size] : sizes) {
    const std::string wrong = kBatchSizes.objection(static_cast<double>(size));
    if (!wrong.empty()) fail(Exit::usage, "the ", name, " ", wrong, ", not ", size);
  }
  return options.micro_batch_size * options.data_parallel_size;
}

}  // namespace

BatchSizes::BatchSizes(const BatchSizeOptions& options)
    : global_(options.global_batch_size),
      micro_batch_times_dp_(micro_batch_times_data_parallel(options)),
      decrease_if_needed_(options.decrease_if_needed) {
  if (options.rampup && !options.schedule.empty())
    fail(Exit::usage, "cannot be used with --rampup-batch-size; use only one of them");
  if (options.rampup) {
    read_rampup(*options.rampup);
  } else if (!options.schedule.empty()) {
    read_schedule(options);
  } else {
    add_size(global_);
  }
  std::ranges::sort(sizes_);
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
}

void BatchSizes::add_size(std::int64_t size) {
  if (size % micro_batch_times_dp_ != 0 && !decrease_if_needed_) {
    fail(Exit::usage, "the batch size ", size, " is not a multiple of ", micro_batch_times_dp_,
         " (micro-batch size x data-parallel size); ",
         size < micro_batch_times_dp_
             ? cat("use at least ", micro_batch_times_dp_)
             : cat("use --decrease-batch-size-if-needed to round it down to ", round_down(size)));
  }
  if (round_down(size) == 0) {
    fail(Exit::usage, "the batch size ", size,
         " is less than one micro-batch on every data-parallel rank; use at least ", micro_batch_times_dp_);
  }
  sizes_.push_back(round_down(size));
}

void BatchSizes::read_rampup(const std::vector<std::int64_t>& numbers) {
  if (numbers.size() != 3) fail(Exit::usage, "takes three numbers: START INCREMENT SAMPLES");
  const std::int64_t start = numbers[0], increment = numbers[1], samples = numbers[2];
  if (start < 1 || increment < 1) fail(Exit::usage, "the start and the increment must be at least 1");
  if (samples < 0) fail(Exit::usage, "the number of samples must not be negative");
  if (start > global_) fail(Exit::usage, "starts with ", start, ", more than the global batch size ", global_);
  if ((global_ - start) % increment != 0) {
    fail(Exit::usage, "the global batch size ", global_, " less the start ", start, " is not a multiple of ", increment,
         "; choose another increment");
  }
  const std::int64_t steps = (global_ - start) / increment;
  for (std::int64_t step = 0; step <= steps; ++step) add_size(start + step * increment);
  // A ramp without steps, or over zero samples, has no effect: every update uses the global batch size.
  if (steps > 0 && samples > 0) {
    rampup_ = {.start = start,
               .increment = increment,
               .samples = samples,
               .samples_per_step = double(samples) / double(steps)};
  }
}

void BatchSizes::read_schedule(const BatchSizeOptions& options) {
  std::string text = options.schedule;
  std::ranges::replace(text, ',', ' ');
  for (const std::string& word : split(text, ' ')) {
    if (trim(word).empty()) continue;
    const std::size_t colon = word.find(':');
    const auto from = parse_threshold(word.substr(0, colon));
    const auto size = colon == std::string::npos ? std::nullopt : parse_int(word.substr(colon + 1));
    if (!from || !size || !kBatchSizes.objection(static_cast<double>(*size)).empty()) {
      fail(Exit::usage, "'", word, "' is not a step; write THRESHOLD:SIZE, such as 0:768 250B:1536");
    }
    const std::int64_t samples = *from / options.seq_length.value_or(1);
    if (steps_.empty() ? samples != 0 : samples <= steps_.back().from)
      fail(Exit::usage, "the step '", word, "' is out of order; thresholds must start at 0 and increase");
    add_size(*size);
    steps_.push_back({samples, *size});
  }
  if (steps_.empty()) fail(Exit::usage, "contains no steps");
}

std::int64_t BatchSizes::nominal(std::int64_t consumed) const {
  if (!steps_.empty()) {
    const auto after = std::ranges::upper_bound(steps_, consumed, {}, &Step::from);
    return (after - 1)->size;
  }
  if (!rampup_ || consumed > rampup_->samples) return global_;
  const auto steps = static_cast<std::int64_t>(double(consumed) / rampup_->samples_per_step);
  return std::min(rampup_->start + steps * rampup_->increment, global_);
}

/// Returns the smallest sample count above `consumed` at which the batch size may change, or INT64_MAX if it no longer
/// changes.
std::int64_t BatchSizes::next_change(std::int64_t consumed) const {
  if (rampup_ && consumed <= rampup_->samples) return consumed + 1;
  for (const Step& step : steps_)
    if (step.from > consumed) return step.from;
  return INT64_MAX;
}

std::int64_t BatchSizes::count_iterations(std::int64_t samples, std::int64_t consumed) const {
  for (std::int64_t iterations = 0;;) {
    const std::int64_t size = running(consumed), change = next_change(consumed);
    const std::int64_t fitting = std::max<std::int64_t>(0, samples - consumed) / size;
    const std::int64_t until_change = (change - consumed - 1) / size + 1;
    if (change == INT64_MAX || fitting < until_change) return iterations + fitting;
    iterations += until_change;
    consumed += until_change * size;
  }
}

std::int64_t BatchSizes::count_samples(std::int64_t iterations) const {
  for (std::int64_t consumed = 0;;) {
    const std::int64_t size = running(consumed), change = next_change(consumed);
    const std::int64_t until_change = (change - consumed - 1) / size + 1;
    if (change == INT64_MAX || iterations <= until_change) return consumed + iterations * size;
    iterations -= until_change;
    consumed += until_change * size;
  }
}

}  // namespace mtl
