// Continues from a checkpoint or a model: loads it, and checks that the run's data are the same.
#include "base/hash.h"
#include "comm/rank_outcome.h"
#include "data/data_identity.h"
#include "train/trainer.h"

namespace mtl {

void Trainer::resume_from(RunStart& start) {
  if (steps_.config().vocab_size > start.source->config().vocab_size)
    start.source->extend_vocabulary(steps_.config().vocab_size, parse_new_rows(options_.new_token_rows.value_or("")),
                                    static_cast<std::uint64_t>(options_.seed));
  load(*start.source, start.point);
  if (!start.state) return;
  if (start.point.is_own) saver_.note_resumed();
  if (!run_.state.extra.is_object()) return;
  check_data(start.source->folder());
  run_.resume(start.source->folder());
}

/// Loads this rank's shard. If any rank fails, all ranks throw LoadError, so that they can look for another starting
/// state together.
void Trainer::load(const ModelSource& source, const StartPoint& point) {
  const bool resumes_states = point.iteration && !point.resets_states && source.has_optimizer();
  try {
    work_on_every_rank(ranks_.groups.world(), [&] {
      point.iteration ? source.load_values(steps_.params()) : source.load_initial_values(steps_.params());
      if (resumes_states) source.load_optimizer(steps_.params());
      return std::string();
    });
  } catch (const Error& error) {
    throw LoadError(error.code(), error.what());
  }
  if (point.resets_states) run_.state.optimizer_steps = 0;  // Adam's bias correction restarts when moments are zero
}

/// Rejects token files, an order or a tokenizer that differ from the checkpoint's, because training would otherwise
/// continue without an error. With --allow-data-change, says what differs.
void Trainer::check_data(const std::string& checkpoint) const {
  const bool is_allowed = options_.data.allow_data_change;
  if (const Json* saved = run_.state.extra.find("data")) {
    const std::string difference = data_difference(*saved, data_.identity());
    if (!difference.empty() && !is_allowed) {
      fail(Exit::bad_data, checkpoint, " was trained on different data: ", difference,
           "; use --allow-data-change to continue with the new data");
    }
    const std::string moved = difference.empty() ? data_.moved_sample(*saved) : "";
    if (!difference.empty()) report_other_data(checkpoint, difference);
    if (!moved.empty() && ranks_.rank == 0) {
      console_.warn(cat(checkpoint, " was trained in a different order of the same samples (", moved,
                        "), because the order depends on the length of the run: some samples will be read again, and "
                        "some never; use --data-order feistel in new runs, whose order does not depend on the length"));
    }
  }
  const std::string tokenizer = run_.state.extra.string_or("tokenizer_hash", "");
  if (tokenizer_ == nullptr || tokenizer.empty() || tokenizer == hash_text(tokenizer_->hash())) return;
  if (!is_allowed) {
    fail(Exit::bad_data, checkpoint,
         " was trained with another tokenizer; use --allow-data-change to continue with the new tokenizer");
  }
  if (ranks_.rank == 0 && !run_.is_complete()) console_.warn(cat(checkpoint, " continues with another tokenizer"));
}

/// Says which data the run continues with, and where in its order.
void Trainer::report_other_data(const std::string& checkpoint, const std::string& difference) const {
  if (ranks_.rank != 0 || run_.is_complete()) return;
  const std::int64_t next = run_.state.consumed_samples;
  const bool is_in_order =
      options_.data.sampler_kind() == SamplerKind::single && next < data_.dataset(Split::train)->size();
  console_.warn(cat(checkpoint, " continues with other data: ", difference, "; the next sample is number ",
                    with_commas(next), " of the new order",
                    is_in_order ? cat(" (", data_.place_of_sample(next), ")") : ""));
}

}  // namespace mtl
