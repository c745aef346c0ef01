#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/count_of.h"
#include "base/heartbeat.h"
#include "base/memory_limits.h"
#include "base/usage_error.h"

namespace mtl {

namespace {

constexpr std::int64_t kTokensPerPass = 4096;

void show_progress(Console& console, const Score& score, std::optional<std::int64_t> total) {
  if (score.tokens == 0) return;
  std::string of = total ? " of " + with_commas(*total - 1) : "";
  console.progress(cat("scored ", with_commas(score.tokens), of, " tokens, loss ", format("%.4f", score.loss())));
}

/// Returns the number of windows per pass. The default is halved until the pass fits into memory.
std::int64_t fitting_batch(const EvalOptions& options, const Model& model, std::int64_t seq_length, Console& console) {
  const std::int64_t most = std::max<std::int64_t>(1, kTokensPerPass / seq_length);
  std::int64_t batch = options.batch_size.value_or(most);
  if (model.device() != Device::cpu) return batch;
  const auto bytes = [&] { return Scorer::bytes_for(model, batch, seq_length); };
  if (!options.batch_size) {
    while (batch > 1 && !has_memory(bytes())) batch /= 2;
    if (batch < most) console.info(cat("using --batch-size ", batch, ", because ", most, " do not fit into memory"));
  }
  require_memory(bytes(), cat(count_of(batch, "window"), " of ", count_of(seq_length, "token")),
                 batch > 1 ? "use a smaller --batch-size" : "use a smaller --seq-length, or provide more memory");
  return batch;
}

}  // namespace

std::optional<double> EvalReport::bits_per_byte() const {
  if (!bytes || *bytes == 0) return {};
  return score.loss() * double(score.tokens) / std::numbers::ln2 / double(*bytes);
}

std::string EvalReport::line() const {
  std::string out = cat(format("loss %.6f  perplexity %.6g", score.loss(), score.perplexity()), "  tokens ",
                        with_commas(score.tokens));
  if (auto bits = bits_per_byte()) out += format("  bits/byte %.6f", *bits);
  return out + "\n";
}

Json EvalReport::json() const {
  auto bits = bits_per_byte();
  return Json::object({{"version", 1},
                       {"model", model},
                       {"data", Json::Array(data.begin(), data.end())},
                       {"loss", score.loss()},
                       {"perplexity", std::isfinite(score.perplexity()) ? Json(score.perplexity()) : Json()},
                       {"tokens", score.tokens},
                       {"stream_tokens", stream_tokens},
                       {"windows", score.windows},
                       {"seq_length", seq_length},
                       {"bytes", bytes ? Json(*bytes) : Json()},
                       {"bits_per_byte", bits ? Json(*bits) : Json()},
                       {"seconds", seconds}});
}

void check_seq_length(const EvalOptions& options, const GptConfig& config) {
  const std::int64_t longest = config.longest_sequence(), length = options.seq_length.value_or(config.max_positions);
  if (length > longest)
    throw UsageError(cat("--seq-length ", length),
                     cat("is longer than the ", longest, " positions of the model; use at most ", longest));
}

EvalReport evaluate(const EvalOptions& options, Model& model, TokenSource& tokens, Console& console) {
  EvalReport report;
  report.data = options.data();
  report.seq_length = options.seq_length.value_or(model.config().max_positions);
  Scorer scorer(model, fitting_batch(options, model, report.seq_length, console), report.seq_length);

  const Heartbeat scoring = reading_heartbeat(console, options.inputs, "scoring");
  double start = now_seconds();
  for (std::vector<std::int32_t> ids; tokens.next(ids);) {
    for (std::span<const std::int32_t> unscored = ids; !unscored.empty();) {  // a text may arrive in one piece
      auto piece = unscored.first(std::min<std::size_t>(unscored.size(), kTokensPerPass));
      scorer.push(piece);
      unscored = unscored.subspan(piece.size());
      show_progress(console, scorer.score(), tokens.total());
    }
  }
  scorer.finish();
  console.end_progress();
  report.score = scorer.score();
  report.seconds = now_seconds() - start;
  report.stream_tokens = scorer.pushed();
  report.bytes = tokens.bytes();
  if (report.score.tokens == 0) {
    fail(Exit::bad_data, join(report.data, ", "), report.data.size() == 1 ? " has " : " have ",
         count_of(report.stream_tokens, "token"),
         ", too few to score; use data with at least 2 tokens, because the first is only context");
  }
  return report;
}

}  // namespace mtl
