#include "nn/gpt_config.h"

#include <algorithm>

#include "base/str.h"

namespace mtl {

void GptConfig::complete() {
  if (num_query_groups == 0) num_query_groups = num_heads;
  if (head_dim == 0 && num_heads > 0 && hidden_size % num_heads == 0) head_dim = hidden_size / num_heads;
  if (ffn_hidden_size == 0) ffn_hidden_size = 4 * hidden_size;
}

namespace {

void check_heads(const GptConfig& config, std::vector<std::string>& out) {
  const std::int64_t heads = config.num_heads, groups = config.num_query_groups;
  if (heads <= 0) return;
  if (config.head_dim <= 0)
    out.push_back(
        cat("hidden size ", config.hidden_size, " is not a multiple of the number of attention heads ", heads));
  if (groups < 1 || heads % groups != 0)
    out.push_back(
        cat("the number of attention heads ", heads, " is not a multiple of the number of query groups ", groups));
}

}  // namespace

std::vector<std::string> GptConfig::problems() const {
  std::vector<std::string> out;
  auto positive = [&](const char* name, std::int64_t value) {
    if (value <= 0) out.push_back(cat(name, " is ", value, "; it must be at least 1"));
  };
  positive("vocabulary size", vocab_size);
  positive("number of layers", num_layers);
  positive("hidden size", hidden_size);
  positive("number of attention heads", num_heads);
  positive("number of positions", max_positions);
  positive("feed-forward size", ffn_hidden_size);
  check_heads(*this, out);
  if (is_rotary()) {
    const std::vector<std::string> rotary = rotary_problems();
    out.insert(out.end(), rotary.begin(), rotary.end());
  }
  if (qk_norm && norm != Norm::rmsnorm)
    out.push_back("norms of queries and keys are RMSNorm; they need RMSNorm in the rest of the model too");
  if (sliding_window < 0)
    out.push_back(cat("sliding window is ", sliding_window, "; it must be at least 1, or 0 for none"));
  if (first_window_layer < 0)
    out.push_back(cat("first layer of the sliding window is ", first_window_layer, "; it must be at least 0"));
  return out;
}

std::int64_t GptConfig::longest_sequence() const {
  const bool is_scaled = is_rotary() && rotary.scaling != RotaryOptions::Scaling::none;
  if (!is_scaled) return max_positions;
  const double before = double(rotary.stretches_original() ? rotary.original_positions : max_positions);
  return std::max(max_positions, static_cast<std::int64_t>(std::min<double>(INT32_MAX, rotary.factor * before)));
}

namespace {

void check_yarn(const RotaryOptions& rotary, std::vector<std::string>& out) {
  if (rotary.base <= 1) out.push_back(cat("rotary base is ", rotary.base, "; yarn needs a base above 1"));
  if (!(rotary.beta_slow > 0 && rotary.beta_fast >= rotary.beta_slow && rotary.beta_fast < 1e30))
    out.push_back(cat("beta_fast and beta_slow of yarn are ", rotary.beta_fast, " and ", rotary.beta_slow,
                      "; they must be positive, and beta_fast at least beta_slow"));
}

void check_longrope(const RotaryOptions& rotary, std::int64_t pairs, std::vector<std::string>& out) {
  for (const auto& [name, factors] :
       {std::pair("short_factor", &rotary.short_factors), std::pair("long_factor", &rotary.long_factors)}) {
    if (std::ssize(*factors) != pairs)
      out.push_back(cat(name, " of longrope has ", factors->size(), " numbers; it must have ", pairs,
                        ", one for each pair of elements that is rotated"));
    const auto wrong = std::ranges::find_if(*factors, [](double factor) { return !(factor > 0 && factor < 1e30); });
    if (wrong != factors->end()) out.push_back(cat(name, " of longrope has ", *wrong, "; all must be positive"));
  }
}

}  // namespace

std::vector<std::string> GptConfig::rotary_problems() const {
  std::vector<std::string> out;
  auto positive = [&](const char* name, double value) {
    if (!(value > 0 && value < 1e30)) out.push_back(cat(name, " is ", value, "; it must be positive"));
  };
  positive("rotary base", rotary.base);
  if (!(rotary.percent > 0 && rotary.percent <= 1)) {
    out.push_back(cat("the rotary part of a head is ", rotary.percent, "; it must be above 0, and at most 1"));
  } else if (const auto dims = static_cast<std::int64_t>(rotary.percent * double(head_dim));
             dims < 2 || dims % 2 != 0 || dims > kMaxRotaryDims) {
    out.push_back(cat("the rotary embedding covers ", dims, " elements of a head of ", head_dim,
                      "; they must be an even number from 2 to ", kMaxRotaryDims));
  }
  using Scaling = RotaryOptions::Scaling;
  const Scaling scaling = rotary.scaling;
  if (scaling == Scaling::none) return out;
  if (rotary.stretches_original() && rotary.original_positions < 1)  // from which the factor may be derived
    out.push_back(
        cat("original positions of rotary scaling are ", rotary.original_positions, "; they must be at least 1"));
  else
    positive("rotary scaling factor", rotary.factor);
  if (scaling == Scaling::linear) return out;
  if (scaling == Scaling::dynamic) {
    if (!(rotary.factor >= 1 && rotary.factor * static_cast<double>(max_positions) <= INT32_MAX))
      out.push_back(cat("dynamic rotary scaling stretches ", max_positions, " positions by ", rotary.factor,
                        "; use a factor of at least 1, and at most ", INT32_MAX, " positions in all"));
    if (rotary.percent * double(head_dim) < 4)
      out.emplace_back("dynamic rotary scaling needs at least 4 elements of each head to be rotated");
    return out;
  }
  if (scaling != Scaling::llama3) {
    positive("attention factor of rotary scaling", rotary.attention_factor);
    if (scaling == Scaling::yarn)
      check_yarn(rotary, out);
    else
      check_longrope(rotary, static_cast<std::int64_t>(rotary.percent * double(head_dim)) / 2, out);
    return out;
  }
  positive("low frequency factor", rotary.low_freq_factor);
  if (!(rotary.high_freq_factor > rotary.low_freq_factor && rotary.high_freq_factor < 1e30))
    out.push_back(cat("high frequency factor is ", rotary.high_freq_factor,
                      "; it must be more than the low frequency factor ", rotary.low_freq_factor));
  return out;
}

std::int64_t padded_vocab_size(std::int64_t vocab_size, std::int64_t multiple, std::int64_t tensor_parallel_size) {
  std::int64_t step = multiple * tensor_parallel_size;
  return (vocab_size + step - 1) / step * step;
}

}  // namespace mtl
