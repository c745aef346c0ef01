// Loads and stores the algorithms that a run selects by measuring on a GPU.
#include <algorithm>
#include <utility>

#include "comm/text_exchange.h"
#include "device/choices_file.h"
#include "kernels/choices_context.h"
#include "train/choices_record.h"
#include "train/trainer.h"

namespace mtl {

/// Loads the choices in the resumed checkpoint, then those in the file. All other choices are measured when needed.
void Trainer::load_choices() {
  choices_context_ = choices_context(shape_.device);
  if (choices_context_.empty()) return;
  if (const Json* record = run_.state.extra.is_object() ? run_.state.extra.find("choices") : nullptr) {
    const std::optional<SavedChoices> saved = choices_of_rank(*record, ranks_.rank, ranks_.groups.world().size());
    agreed_on_choices_ = saved.has_value();  // the same on all ranks
    if (saved && saved->context == choices_context_) {
      stream_.choices().add(saved->table);
    } else if (saved && is_rank_zero()) {
      console_.info(cat("algorithms are measured again: the checkpoint has choices for ", saved->context,
                        ", but this is ", choices_context_,
                        "; the last bits of the losses may differ from that run's"));
    }
  }
  choices_file_ = options_.tuning_cache.empty() ? default_choices_file() : options_.tuning_cache;
  if (choices_file_ == "none") choices_file_.clear();
  if (choices_file_.empty()) return;
  file_choices_ = read_choices(choices_file_, choices_context_, [&](const std::string& what) {
    if (is_rank_zero()) console_.warn(what);
  });
  stream_.choices().add(file_choices_);
}

/// Collective. Ranks with the same GPU and libraries use the same algorithms from the first step on, as the next run
/// does, which finds them in the file. So that every rank has measured what it needs, this computes the gradients of
/// some of the step's micro-batches first. Ranks that resume keep the algorithms of their checkpoint.
void Trainer::agree_on_choices(const StepBatch& batch) {
  if (std::exchange(agreed_on_choices_, true) || choices_context_.empty() || ranks_.groups.world().size() == 1) return;
  // The second micro-batch of a chunk adds to gradients. A schedule takes whole rounds of the stages.
  const Layout& layout = shape_.layout;
  const int few = std::min(batch.micro_batches, std::max({2, layout.size(Axis::pipeline), layout.group}));
  const StepSchedule schedule = rank_schedule(layout, few, static_cast<int>(shape_.micro_batches));
  optimizer_.traffic().begin_repetition(pipeline_.scratch());
  pipeline_.train(*batch.buffers, &progress_, &schedule);
  stream_.synchronize();
  const SavedChoices own{choices_context_, stream_.choices().table()};
  for (const auto& [key, choice] : agreed_table(own, gather_choices())) stream_.choices().set(key, choice);
  stream_.cache().reset();  // plans with the algorithms that this rank measured
  optimizer_.begin_step();
}

/// Collective: returns every rank's choices. Rank 0 adds new ones to the file.
std::vector<SavedChoices> Trainer::gather_choices() {
  const SavedChoices own{choices_context_, stream_.choices().table()};
  std::vector<SavedChoices> out;
  for (const std::string& text : gather_texts(ranks_.groups.world(), own.text()))
    out.push_back(SavedChoices::parse(text));
  if (!is_rank_zero() || choices_file_.empty()) return out;
  std::map<std::string, std::string> all;
  for (const SavedChoices& choices : out) {
    if (choices.context == choices_context_) all.insert(choices.table.begin(), choices.table.end());
  }
  if (all == file_choices_) return out;
  write_choices(choices_file_, choices_context_, all, [&](const std::string& what) { console_.warn(what); });
  file_choices_ = all;
  return out;
}

}  // namespace mtl
