#include "train/run_choices.h"

#include <utility>

#include "comm/text_exchange.h"
#include "device/choices_file.h"
#include "kernels/choices_context.h"

namespace mtl {

RunChoices::RunChoices(StepRunner& steps, Communicator& world, Console& console)
    : steps_(steps), world_(world), console_(console) {}

void RunChoices::load(const Json& extra, const std::string& tuning_cache) {
  context_ = choices_context(steps_.shape().device);
  if (context_.empty()) return;
  if (const Json* record = extra.is_object() ? extra.find("choices") : nullptr) {
    const std::optional<SavedChoices> saved = choices_of_rank(*record, world_.rank(), world_.size());
    agreed_ = saved.has_value();  // the same on all ranks
    if (saved && saved->context == context_) {
      steps_.stream().choices().add(saved->table);
    } else if (saved) {
      console_.info(cat("algorithms are measured again: the checkpoint has choices for ", saved->context,
                        ", but this is ", context_, "; the last bits of the losses may differ from that run's"));
    }
  }
  file_ = tuning_cache.empty() ? default_choices_file() : tuning_cache;
  if (file_ == "none") file_.clear();
  if (file_.empty()) return;
  in_file_ = read_choices(file_, context_, [&](const std::string& what) {
    if (world_.rank() == 0) console_.warn(what);
  });
  steps_.stream().choices().add(in_file_);
}

void RunChoices::agree(const StepBatch& batch) {
  if (std::exchange(agreed_, true) || context_.empty() || world_.size() == 1) return;
  steps_.rehearse(batch);
  Stream& stream = steps_.stream();
  const SavedChoices own{context_, stream.choices().table()};
  for (const auto& [key, choice] : agreed_table(own, gather())) stream.choices().set(key, choice);
  stream.cache().reset();  // plans with the algorithms that this rank measured
  steps_.traffic().begin_step();
}

Json RunChoices::record() { return context_.empty() ? Json() : choices_record(gather()); }

/// Returns every rank's choices. Rank 0 adds new ones to the file.
std::vector<SavedChoices> RunChoices::gather() {
  std::vector<SavedChoices> out;
  if (context_.empty()) return out;
  const SavedChoices own{context_, steps_.stream().choices().table()};
  for (const std::string& text : gather_texts(world_, own.text())) out.push_back(SavedChoices::parse(text));
  if (world_.rank() != 0 || file_.empty()) return out;
  std::map<std::string, std::string> all;
  for (const SavedChoices& choices : out) {
    if (choices.context == context_) all.insert(choices.table.begin(), choices.table.end());
  }
  if (all == in_file_) return out;
  write_choices(file_, context_, all, [&](const std::string& what) { console_.warn(what); });
  in_file_ = all;
  return out;
}

}  // namespace mtl
